"""The table of commands that run unasked, and of those that look as if they could."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.policy import Allow, Call, SandboxState, decide
from quarterdeck.policy.call_parts import CommandPart, parts_of
from quarterdeck.testing.installed_programs import INSTALLED

TABLE = tomllib.loads((Path(__file__).parent / "unasked.toml").read_text())["group"]
EXPECTED = ("allow", "ask")
CWD = "/home/dev/app"


def call_of(command: str) -> Call:
    return Call(
        tool="bash",
        kind="execute",
        command=command,
        cwd=CWD,
        roots=(CWD,),
        home="/home/dev",
        programs=INSTALLED,
    )


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        pytest.param(group, expected, id=f"{number}-{expected}")
        for number, group in enumerate(TABLE)
        for expected in EXPECTED
        if expected in group
    ],
)
def test_commands_run_unasked_or_not(group: dict[str, Any], expected: str):
    wrong: list[str] = []
    for command in group[expected]:
        decision = decide(call_of(command), "ask", sandbox=SandboxState(seals=True))
        if isinstance(decision, Allow) != (expected == "allow"):
            wrong.append(f"{command!r} got {decision}")
    assert wrong == [], group["why"]


def test_the_table_is_long_enough_to_mean_something():
    assert sum(len(group.get(word, ())) for group in TABLE for word in EXPECTED) >= 500


@pytest.mark.parametrize(
    ("command", "core"),
    [
        *((command, True) for command in ("ls -la", "cat a", "head -5 a", "tail a", "wc -l a")),
        *((command, True) for command in ("pwd", "echo hi", "grep -rn x src", "rg x", "stat a")),
        *((command, True) for command in ("test -f a", "printf '%s' a", "cd src", "date", "true")),
        *((command, True) for command in ("timeout 5 ls", "time ls", "sha256sum a", "cut -c1 a")),
        *((command, False) for command in ("git status", "git log", "find .", "sort a", "tree")),
        *((command, False) for command in ("sed -n 1p a", "awk '{print $1}' a", "jq . a", "xxd a")),
        *((command, False) for command in ("file a", "strings a", "diff a b", "du -sh .", "ps")),
        *((command, False) for command in ("grep -P x a", "rg --pcre2 x", "python3 --version")),
        *((command, True) for command in ("bash -c ls", "/bin/bash -lc 'cat a | wc -l'")),
        *((command, False) for command in ("bash -c 'sort a'", "env ls", "stdbuf -oL ls", "df -h")),
    ],
)
def test_only_the_smallest_commands_run_where_nothing_contains_them(command: str, core: bool):
    run = parts_of(call_of(command))[0]
    assert isinstance(run, CommandPart)
    innermost = run.inner[0] if run.inner else run
    assert innermost.reading is not None
    assert innermost.reading.core is core
