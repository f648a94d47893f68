"""``python -m quarterdeck.testing.tui``."""

from .program import main

if __name__ == "__main__":
    main()
