"""Agents that speak lines of JSON over their standard input and output."""
