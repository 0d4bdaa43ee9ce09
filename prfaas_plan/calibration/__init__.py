"""Measured profiles from the output of benchmark programs."""
