"""Cassettes: the model traffic of an agent in a file, and its rerun without a model."""
