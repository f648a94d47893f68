"""``python -m quarterdeck`` is ``quarterdeck``."""

import sys

from quarterdeck.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
