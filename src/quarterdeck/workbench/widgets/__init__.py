"""Pieces of the screen: each renders a store, and posts what a person does."""
