"""``python -m quarterdeck.testing.daemons``."""

from .program import main

if __name__ == "__main__":
    main()
