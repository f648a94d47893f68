"""Thin entry points; everything else is imported late."""
