"""The diff panel."""
