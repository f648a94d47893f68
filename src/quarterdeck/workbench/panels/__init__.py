"""What a layout can hold: each kind of panel in a module of its own, imported when it is shown."""
