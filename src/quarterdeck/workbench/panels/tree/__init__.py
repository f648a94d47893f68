"""The file tree panel."""
