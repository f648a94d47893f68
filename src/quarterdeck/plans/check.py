"""Checks of a task: commands in the directory of its agent, and their JUnit reports."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.fleet.worktrees.commands import CommandContainment, run_worktree_command

from .progress import CheckOutcome
from .schema import CheckFields

__all__ = ["JUnitReport", "read_junit", "run_check"]

_MOST_BYTES = 20_000_000
_MOST_NAMES = 20
_LONGEST = 6_000


class JUnitReport:
    """The result of a test run as other programs write it: tests, and those that failed."""

    def __init__(self, tests: int, failed: tuple[str, ...]) -> None:
        self.tests = tests
        self.failed = failed


def read_junit(path: Path) -> JUnitReport:
    """Read a JUnit report. Blocks.

    An agent may have written it: what is no file, too large or has entities of its own is
    refused.

    Raises:
        ValueError: it cannot be used; says why.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"there is no report {path.name!r}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise ValueError(f"the report {path.name!r} is larger than {_MOST_BYTES} bytes")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError(f"the report {path.name!r} has a document type, which is not read")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ValueError(f"the report {path.name!r} is not XML: {error}") from error
    cases = list(root.iter("testcase"))
    failed = tuple(_list_failed(cases))
    if not cases and root.tag not in ("testsuite", "testsuites"):
        raise ValueError(f"the report {path.name!r} is not a JUnit report")
    return JUnitReport(len(cases), failed)


def _list_failed(cases: list[ElementTree.Element]) -> Iterator[str]:
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            names = (case.get("classname", ""), case.get("name", "?"))
            yield ".".join(name for name in names if name)


async def run_check(
    fields: CheckFields,
    command: str,
    *,
    cwd: Path,
    places: Places,
    variables: Mapping[str, str],
    readable: tuple[str, ...] = (),
) -> CheckOutcome:
    """Run a check in a directory; what goes wrong is in what it returns.

    Args:
        fields: of the plan.
        command: its line of the shell, with inputs in it.
        cwd: the directory of the agent.
        places: of ours, which the command must not see.
        variables: what the command gets to find its way.
        readable: directories that it needs to read, such as the repository's.
    """
    name = fields.name or fields.run
    report = cwd / fields.junit if fields.junit else None
    if report is not None and not await asyncio.to_thread(_prepare_report, report, cwd):
        reason = f"{fields.junit!r} is not in the directory of the agent"
        return CheckOutcome(name=name, passed=False, reason=reason)
    containment = await asyncio.to_thread(_find_containment, cwd, places, readable)
    ran = await run_worktree_command(
        command,
        cwd=str(cwd),
        purpose="check",
        variables=variables,
        timeout=fields.timeout,
        containment=containment,
    )
    reason = ""
    if ran.exit_code is None:
        reason = f"it was ended after {fields.timeout:g} s"
    elif ran.exit_code != fields.exit_code:
        reason = f"exit code {ran.exit_code}"
    tests, failed = 0, ()
    if report is not None:
        try:
            found = await asyncio.to_thread(read_junit, report)
        except ValueError as error:
            reason = reason or str(error)
        else:
            tests, failed = found.tests, found.failed
            if failed:
                reason = f"{len(failed)} of {tests} tests failed: {', '.join(failed[:3])}"
    return CheckOutcome(
        name=name,
        passed=not reason,
        reason=reason,
        output=ran.output[-_LONGEST:],
        seconds=ran.seconds,
        tests=tests,
        failed_tests=failed[:_MOST_NAMES],
    )


def _prepare_report(report: Path, cwd: Path) -> bool:
    """Remove a report of an earlier attempt, which says nothing now; False: it is elsewhere."""
    if not report.resolve().is_relative_to(cwd.resolve()):
        return False
    if report.is_file() and not report.is_symlink():
        report.unlink(missing_ok=True)
    return True


def _find_containment(
    cwd: Path, places: Places, readable: tuple[str, ...]
) -> CommandContainment | None:
    """What runs there is what an agent wrote, whoever named the command."""
    settings = load_config(places, directory=cwd).settings
    if not settings.landing.sandbox:
        return None
    return CommandContainment(
        settings=settings.sandbox,
        setting="landing.sandbox",
        readable=readable,
        hidden=(str(places.state), str(places.runtime)),
    )
