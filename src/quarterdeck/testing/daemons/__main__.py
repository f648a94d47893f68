"""``python -m quarterdeck.testing.daemons``."""

from . import main

if __name__ == "__main__":
    main()
