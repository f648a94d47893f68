"""Conflict radar: what agents change that others change too, seen while they work."""
