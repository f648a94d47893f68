"""Run the benchmarks, all or those named; docs/bench.md says how to read them."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .agent_rig import AgentFailedError
from .checkout import ROOT, CommitNotFoundError
from .comparison import COMPARED, compare
from .docs import PAGE, describe_run, write_docs
from .parts import PARTS, find_missing_programs, measure
from .size import Size
from .table import Table, format_text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--quick",
        dest="size",
        action="store_const",
        const=Size.QUICK,
        help="fewer rounds: for a first look",
    )
    sizes.add_argument(
        "--tiny",
        dest="size",
        action="store_const",
        const=Size.TINY,
        help="only that every part still works: seconds, and figures that mean nothing",
    )
    parser.set_defaults(size=Size.FULL)
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="write the tables into docs/bench.md, with date, commit and machine",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="compare the working tree with a commit, in turns, and name what got slower by more "
        f"than 5 %% and more than the noise; parts: {', '.join(COMPARED)}",
    )
    parser.add_argument(
        "--fail",
        action="store_true",
        help="status 1 if a goal is missed, or with --against if something got slower",
    )
    chosen = parser.parse_args()
    size: Size = chosen.size
    if unknown := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if chosen.write_docs and (chosen.against or size is Size.TINY):
        parser.error("--write-docs takes figures of a full or quick run, without --against")
    if chosen.fail and size is Size.TINY and not chosen.against:
        parser.error(
            "--fail judges figures, and those of --tiny mean nothing; leave one of them out"
        )
    if chosen.against:
        if unknown := [name for name in chosen.parts if name not in COMPARED]:
            parser.error(f"cannot compare {', '.join(unknown)}; only {', '.join(COMPARED)}")
        try:
            return compare_with(chosen.against, chosen.parts or COMPARED, size, fails=chosen.fail)
        except (CommitNotFoundError, AgentFailedError, RuntimeError) as error:
            sys.exit(f"bench: {error}")
    stamp = describe_run(size) if chosen.write_docs else ""
    found = run_parts(chosen.parts or PARTS, size)
    if chosen.write_docs:
        write_docs(found, stamp)
        print(f"\nwritten to {PAGE}: {', '.join(found)}")
    return 1 if chosen.fail and report_missed(found) else 0


def report_missed(found: Mapping[str, Sequence[Table]]) -> list[str]:
    """Name each goal that is missed, on standard error; returns the names."""
    missed = [
        f"{name}: {table.title}: {row.what} ({row.figure} {row.ratio}, goal {row.goal})"
        for name, tables in found.items()
        for table in tables
        for row in table.rows
        if row.met is False
    ]
    for one in missed:
        print(f"bench: missed: {one}", file=sys.stderr)
    return missed


def compare_with(
    commit: str, names: Sequence[str], size: Size, *, fails: bool, repository: Path = ROOT
) -> int:
    """Print what each thing took before and takes now; 1 if something got slower and it ``fails``.

    The other side is the working tree of ``repository``.
    """
    tables = compare(commit, names, size, repository)
    for table in tables:
        print(f"\n{format_text(table)}", flush=True)
    return 1 if fails and any(row.met is False for row in tables[-1].rows) else 0


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
