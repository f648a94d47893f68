"""Completion in shells: scripts for bash, zsh and fish, and the names that they offer."""
