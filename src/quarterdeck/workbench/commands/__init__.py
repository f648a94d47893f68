"""Commands that a person gives by name: the registry, and a module for each group of them."""
