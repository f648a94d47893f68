"""``python -m quarterdeck.testing.mcp_server [--http] [QUIRK…]``."""

import sys

from . import main

__all__ = []

main(tuple(sys.argv[1:]))
