"""What-if tables: sweeps, one input at a time, draws, fronts."""
