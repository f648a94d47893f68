"""``quarterdeck permissions``: rules, grants, and rules tried on recorded requests."""
