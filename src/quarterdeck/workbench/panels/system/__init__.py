"""The system panel: load of the machine and of the agents' processes."""
