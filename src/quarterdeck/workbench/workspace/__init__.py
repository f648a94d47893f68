"""What is open in a directory: captured, saved, restored."""
