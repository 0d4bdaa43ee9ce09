"""Request traces: reading published formats, statistics, arrivals, prefix reuse and fitted laws."""
