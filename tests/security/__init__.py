"""Who gets in and who does not, what is never told, and what no text can break."""
