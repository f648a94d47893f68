"""What a person has chosen: themes, keys, columns."""
