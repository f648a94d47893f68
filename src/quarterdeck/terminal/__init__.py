"""Terminals: programs on pseudo-terminals, and the emulator that keeps what they draw."""
