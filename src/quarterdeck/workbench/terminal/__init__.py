"""Terminals in panels: what is typed, what is drawn, and the way to the host that runs them."""
