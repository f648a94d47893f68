"""``quarterdeck permissions``: rules and standing answers, and what they decide."""
