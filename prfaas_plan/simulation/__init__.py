"""Event simulation of a planned deployment."""
