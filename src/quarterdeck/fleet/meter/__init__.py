"""The meter: foreign agents' model calls pass through it, are counted, and can be refused."""
