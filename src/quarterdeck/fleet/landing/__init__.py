"""Landing: the work of agents is merged into a branch, checked, and queued."""
