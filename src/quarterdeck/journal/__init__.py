"""The append-only log of every event of every session, and its projections."""
