"""The file viewer."""
