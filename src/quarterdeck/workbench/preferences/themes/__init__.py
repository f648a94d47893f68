"""Colours: what a theme is, where themes come from, and how one is put on."""
