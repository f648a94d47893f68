"""``quarterdeck doctor``: what is installed, what is missing, and how to get it."""

import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import click

from quarterdeck import __version__
from quarterdeck.config.errors import ConfigError
from quarterdeck.config.places import Places

from .output import echo

__all__ = [
    "GIT",
    "NODE",
    "PATIENCE",
    "RIPGREP",
    "ExternalProgram",
    "Finding",
    "FindingState",
    "ProgramKind",
    "ask_version",
    "doctor",
    "find_program",
    "format_findings",
    "list_agent_programs",
    "run_checks",
]

ProgramKind: TypeAlias = Literal["required", "useful", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalProgram:
    """A program that we can use."""

    name: str
    command: str
    """What it is called on PATH."""
    kind: ProgramKind
    purpose: str
    get: str
    """How to get it."""
    version: tuple[str, ...] = ("--version",)
    """Arguments that make it print its version; empty if it is better not started."""
    wanted: tuple[int, int] | None = None
    """The version that everything works with; older ones do less."""
    without: str = ""
    """What older ones do not do."""

    def find(self) -> str | None:
        """Where it is on PATH; starts nothing."""
        return shutil.which(self.command)


GIT = ExternalProgram(
    name="git",
    command="git",
    kind="required",
    purpose="worktrees, diffs and checkpoints",
    get="apt, dnf or brew install git",
    wanted=(2, 38),
    without="conflicts between agents are found by files and symbols only",
)
RIPGREP = ExternalProgram(
    name="ripgrep",
    command="rg",
    kind="useful",
    purpose="fast search in files; many agents use it",
    get="apt, dnf or brew install ripgrep",
)
NODE = ExternalProgram(
    name="Node.js",
    command="node",
    kind="useful",
    purpose="runs agents that come from npm",
    get="https://nodejs.org, or apt, dnf or brew install node",
)
_SHOWN = 4096
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


def list_agent_programs() -> tuple[ExternalProgram, ...]:
    """Every agent that is described, but our own; none where the home is unknown. Reads files."""
    from quarterdeck.drivers.catalogue import load_catalogue

    try:
        described = load_catalogue().agents
    except ConfigError:
        return ()
    return tuple(
        ExternalProgram(
            name=agent.title,
            command=agent.program,
            kind="agent",
            purpose="coding agent",
            get=agent.install,
            version=agent.version[1:],
        )
        for agent in described.values()
        if agent.name != "native"
    )


def ask_version(path: str, arguments: tuple[str, ...], seconds: float) -> str | None:
    """Start a program to learn its version; None if it does not print it in time.

    It gets a clean environment, no input and no project to look at. It and its children are
    ended when it has answered or the time is up.
    """
    try:
        process = subprocess.Popen(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_clean_environment(),
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            assert process.stdout is not None
            text = _read(process.stdout.fileno(), seconds)
        finally:
            _end(process)
    found = _VERSION.search(text)
    return found.group() if found else None


def _clean_environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**passed, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "CI": "1"}


def _read(descriptor: int, seconds: float) -> str:
    """Read until the end, enough bytes or the deadline, whichever comes first."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    data = b""
    while len(data) < _SHOWN and (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            if not (chunk := os.read(descriptor, _SHOWN)):
                break
            data += chunk
    return data.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


FindingState: TypeAlias = Literal["found", "missing", "broken"]

PATIENCE = 5.0
"""Seconds that a program gets to print its version; all are asked at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one thing."""

    name: str
    kind: ProgramKind
    state: FindingState
    purpose: str
    version: str | None = None
    place: str | None = None
    """Where it is."""
    advice: str | None = None
    """What to do, unless all is well."""

    @property
    def is_fatal(self) -> bool:
        """Whether nothing works before this is fixed."""
        return self.kind == "required" and self.state != "found"


def run_checks(seconds: float = PATIENCE) -> list[Finding]:
    """Look at everything, at the same time; at most about ``seconds`` long."""
    checks = (
        find_python,
        find_sqlite,
        find_settings,
        find_state,
        find_sandbox,
        *(
            partial(find_program, program, seconds)
            for program in (GIT, RIPGREP, NODE, *list_agent_programs())
        ),
    )
    # Nearly all of them wait for a child: a thread each, so that the slow ones wait together.
    with ThreadPoolExecutor(len(checks)) as pool:
        return [future.result() for future in [pool.submit(check) for check in checks]]


def find_program(program: ExternalProgram, seconds: float = PATIENCE) -> Finding:
    """Look for a program and ask for its version."""
    path = program.find()
    version = ask_version(path, program.version, seconds) if path and program.version else None
    return Finding(
        name=program.name,
        kind=program.kind,
        state="found" if path else "missing",
        purpose=program.purpose,
        version=version,
        place=path,
        advice=_advise(program, version) if path else program.get,
    )


def _advise(program: ExternalProgram, version: str | None) -> str | None:
    """What to say about a program that is there, but old."""
    if program.wanted is None or version is None:
        return None
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers >= program.wanted:
        return None
    wanted = ".".join(map(str, program.wanted))
    return f"older than {wanted}: {program.without}; update: {program.get}"


def find_python() -> Finding:
    """The interpreter that runs us."""
    return Finding(
        name="Python",
        kind="required",
        state="found",
        purpose="runs Quarterdeck",
        version=platform.python_version(),
        place=sys.executable,
    )


def find_sqlite() -> Finding:
    """SQLite with full-text search, for the journal."""
    purpose = "the journal and its full-text search"
    try:
        version = _ask_sqlite()
    # A Python can be built without sqlite3, or with one that cannot search.
    except Exception as error:
        return Finding(
            name="SQLite",
            kind="required",
            state="broken",
            purpose=purpose,
            advice=f"use a Python whose sqlite3 has FTS5 ({error})",
        )
    return Finding(name="SQLite", kind="required", state="found", purpose=purpose, version=version)


def _ask_sqlite() -> str:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("create virtual table probe using fts5(text)")
    finally:
        connection.close()
    return sqlite3.sqlite_version


def find_settings() -> Finding:
    """Whether the configuration of this directory can be used."""
    try:
        from quarterdeck.config.loader import load_config

        places = Places.find()
        load_config(places, directory=Path.cwd())
    except (ConfigError, OSError) as error:
        return Finding(
            name="settings",
            kind="required",
            state="broken",
            purpose="your configuration",
            advice=str(error),
        )
    return Finding(
        name="settings",
        kind="required",
        state="found",
        purpose="your configuration",
        place=str(places.config_file),
    )


def find_state() -> Finding:
    """Whether there is a place to keep the journal; creates nothing."""
    purpose = "directory of the journal"
    try:
        state = Places.find().state
    except ConfigError as error:
        return Finding(
            name="state", kind="required", state="missing", purpose=purpose, advice=str(error)
        )
    there = next(place for place in (state, *state.parents) if os.path.lexists(place))
    good = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return Finding(
        name="state",
        kind="required",
        state="found" if good else "broken",
        purpose=purpose,
        place=str(state),
        advice=None if good else f"make {str(there)!r} writable, or set QUARTERDECK_HOME",
    )


def find_sandbox() -> Finding:
    """What contains commands of our own agent that run without a permission request."""
    from quarterdeck.system.sandbox import SANDBOX_VARIABLE, detect_sandbox_now

    found = detect_sandbox_now()
    named = SANDBOX_VARIABLE in found.reason
    return Finding(
        name=found.kind if found.is_there else "sandbox",
        kind="useful",
        state="found" if found.is_there else "missing",
        purpose="contains commands that run without a permission request",
        place=found.program or ("the kernel" if found.is_there else None),
        advice=None
        if found.kind == "bubblewrap"
        else found.reason + ("" if named else "; apt or dnf install bubblewrap"),
    )


TITLES = {"required": "Required", "useful": "Useful", "agent": "Agents"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Show what is installed and what is missing.

    Exits with 1 if something required is missing.
    """
    findings = run_checks()
    if as_json:
        echo(_json(findings))
    else:
        for line in format_findings(findings):
            echo(line)
    if any(finding.is_fatal for finding in findings):
        context.exit(1)


def format_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """The findings for a person, in plain text."""
    yield f"Quarterdeck {__version__} on {sys.platform}"
    for kind, title in TITLES.items():
        ours = [finding for finding in findings if finding.kind == kind]
        yield ""
        yield title
        for finding in sorted(ours, key=lambda finding: finding.state != "found"):
            yield from _lines_of(finding)
    yield ""
    yield _verdict(findings)


def _lines_of(finding: Finding) -> Iterator[str]:
    version = finding.version or ""
    if finding.kind == "agent":
        about = finding.place or f"install: {finding.advice}"
        yield f"  {finding.state:<8} {finding.name:<15} {version:<12} {about}".rstrip()
        return
    yield f"  {finding.state:<8} {finding.name:<15} {version:<12} {finding.purpose}".rstrip()
    for line in (finding.advice or "").splitlines():
        yield f"  {'':<8} {line}"


def _verdict(findings: Sequence[Finding]) -> str:
    if fatal := [finding.name for finding in findings if finding.is_fatal]:
        return f"Fix this first: {', '.join(fatal)}."
    agents = [finding for finding in findings if finding.kind == "agent"]
    count = sum(finding.state == "found" for finding in agents)
    return f"Ready. Agents found: {count} of {len(agents)}."


def _json(findings: Sequence[Finding]) -> str:
    import json

    return json.dumps(
        {
            "version": __version__,
            "ok": not any(finding.is_fatal for finding in findings),
            "findings": [asdict(finding) for finding in findings],
        },
        indent=2,
    )
