"""The review of what an agent changed: files, their changes, decisions and comments."""
