"""Other people's agents behind one contract."""
