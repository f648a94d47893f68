"""The commands of the fleet: one host, many agents. Thin: the fleet does the work."""
