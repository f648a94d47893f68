"""Run the benchmarks, all or those named; docs/bench.md says how to read them."""

import argparse
import sys
from collections.abc import Iterable

from .parts import PARTS, find_missing_programs, measure
from .size import Size
from .table import Table, format_text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", dest="size", action="store_const", const=Size.QUICK)
    sizes.add_argument(
        "--tiny",
        dest="size",
        action="store_const",
        const=Size.TINY,
        help="only that every part still works: seconds, and figures that mean nothing",
    )
    parser.set_defaults(size=Size.FULL)
    chosen = parser.parse_args()
    size: Size = chosen.size
    if unknown := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    run_parts(chosen.parts or PARTS, size)
    return 0


def run_parts(names: Iterable[str], size: Size) -> dict[str, list[Table]]:
    """Measure and print part after part; what misses a program is left out, and told."""
    found: dict[str, list[Table]] = {}
    for name in names:
        if missing := find_missing_programs(PARTS[name]):
            print(f"\n{name} is left out: {', '.join(missing)} not found", flush=True)
            continue
        found[name] = []
        for table in measure(PARTS[name], size):
            found[name].append(table)
            print(f"\n{format_text(table, judges=size is not Size.TINY)}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
