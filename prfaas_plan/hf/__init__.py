"""Hugging Face configurations: what a ``config.json`` says of a model's blocks, layers and data types."""
