"""What ``doctor`` looks at, and what it finds."""

import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from quarterdeck.config.errors import ConfigError
from quarterdeck.config.places import Places

from .programs import GIT, NODE, RIPGREP, Program, ProgramKind, agents, ask_version

__all__ = ["PATIENCE", "Finding", "FindingState", "examine", "find_program"]

FindingState: TypeAlias = Literal["found", "missing", "broken"]

PATIENCE = 5.0
"""Seconds that a program gets to tell its version; all are asked at the same time."""


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
        """Whether nothing works before this is mended."""
        return self.kind == "required" and self.state != "found"


def examine(seconds: float = PATIENCE) -> list[Finding]:
    """Look at everything, at the same time; at most about ``seconds`` long."""
    checks = (
        find_python,
        find_sqlite,
        find_settings,
        find_state,
        find_sandbox,
        *(partial(find_program, program, seconds) for program in (GIT, RIPGREP, NODE, *agents())),
    )
    # Nearly all of them wait for a child: a thread each, so that the slow ones wait together.
    with ThreadPoolExecutor(len(checks)) as pool:
        return [future.result() for future in [pool.submit(check) for check in checks]]


def find_program(program: Program, seconds: float = PATIENCE) -> Finding:
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
        advice=None if path else program.get,
    )


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
        from quarterdeck.config.load import load

        places = Places.find()
        load(places, directory=Path.cwd())
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
    purpose = "where the journal is kept"
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
    """What contains commands of our own agent that nobody was asked about."""
    from quarterdeck.system.sandbox import SANDBOX_VARIABLE, detect_now

    found = detect_now()
    named = SANDBOX_VARIABLE in found.reason
    return Finding(
        name=found.kind if found.is_there else "sandbox",
        kind="useful",
        state="found" if found.is_there else "missing",
        purpose="holds the agent's commands that nobody was asked about",
        place=found.program or ("the kernel" if found.is_there else None),
        advice=None
        if found.kind == "bubblewrap"
        else found.reason + ("" if named else "; apt or dnf install bubblewrap"),
    )
