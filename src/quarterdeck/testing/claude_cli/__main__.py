"""``python -m quarterdeck.testing.claude_cli``."""

from .program import main

if __name__ == "__main__":
    main()
