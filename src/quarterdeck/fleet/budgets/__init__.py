"""Budgets: bounds on money, tokens, calls, time and agents, kept by reservations in the log."""
