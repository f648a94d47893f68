"""``python -m bench [--quick] [NAME …]``: run the benchmarks, all or those named."""

import argparse
from importlib import import_module

NAMES = (
    "acp",
    "log",
    "startup",
    "agents",
    "drivers",
    "fleet",
    "workbench",
    "context",
    "undo",
    "history",
    "emulators",
    "containment",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {NAMES}")
    for name in chosen.names or NAMES:
        import_module(f"bench.{name}").run(chosen.quick)


if __name__ == "__main__":
    main()
