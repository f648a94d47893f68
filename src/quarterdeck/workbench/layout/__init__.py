"""What is on the screen, as a value: a tree of panels that is checked, placed, changed and kept."""
