"""``python -m quarterdeck.testing.oneshot_cli``."""

from .program import main

if __name__ == "__main__":
    main()
