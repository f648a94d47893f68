"""The workbench as agents see it: calls that change the layout, the theme and the keys."""
