"""Producers and consumers in processes of their own, while everything that can fail fails; and a checker of all they were told."""
