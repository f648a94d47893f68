"""``python -m quarterdeck.testing.acp_agent``."""

from .program import main

if __name__ == "__main__":
    main()
