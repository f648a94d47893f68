"""From what is known to lines of text with roles. Knows no Textual and no colour."""
