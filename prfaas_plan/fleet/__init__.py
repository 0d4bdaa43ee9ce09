"""Fleets of any number of sites, accelerators, links, demands and periods, as a linear programme with whole numbers."""
