"""Programs in a terminal: any program, and agents that speak no protocol."""
