"""Permissions in a fleet: gates, grants, effective rules, explanations, trust, delegation."""
