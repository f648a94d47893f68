"""Permission modes, rules, grants and workspace trust: pure decisions over values."""
