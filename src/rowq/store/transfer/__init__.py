"""Rows that a copy takes from one database into another."""
