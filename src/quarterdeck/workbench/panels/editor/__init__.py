"""The editor panel."""
