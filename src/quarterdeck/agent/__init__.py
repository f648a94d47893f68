"""Our own agent: the turn loop, its context and its tools."""
