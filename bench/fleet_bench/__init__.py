"""A benchmark for agents that speak ACP and for programs that run them; see its README."""
