"""The table of commands, each with the decision that it must get."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.policy import (
    Allow,
    Ask,
    Call,
    Decision,
    SandboxState,
    decide,
    parse_mode,
    parse_rule,
)
from quarterdeck.policy.shell.parser import read_line
from quarterdeck.testing.installed_programs import INSTALLED

TABLE = tomllib.loads((Path(__file__).parent / "commands.toml").read_text())["group"]
EXPECTED = ("allow", "ask", "deny")


def cases() -> list[Any]:
    return [
        pytest.param(group, expected, id=f"{number}-{expected}")
        for number, group in enumerate(TABLE)
        for expected in EXPECTED
        if expected in group
    ]


def word_of(decision: Decision) -> str:
    if isinstance(decision, Allow):
        return "allow"
    return "ask" if isinstance(decision, Ask) else "deny"


@pytest.mark.parametrize(("group", "expected"), cases())
def test_commands_get_their_decision(group: dict[str, Any], expected: str):
    rules = [parse_rule(text) for text in group.get("rules", ())]
    mode = parse_mode(group.get("mode", "ask"))
    # What is classified is not what is certain: sealed, all of it runs unasked.
    sandbox = SandboxState(in_force=group.get("sandbox", False), seals=True)
    wrong: list[str] = []
    for command in group[expected]:
        call = Call(
            tool="bash",
            kind="execute",
            command=command,
            cwd="/home/dev/app",
            roots=("/home/dev/app",),
            home="/home/dev",
            programs=INSTALLED,
        )
        decision = decide(call, mode, rules, sandbox=sandbox)
        if word_of(decision) != expected:
            wrong.append(f"{command!r} got {decision}")
    assert wrong == [], group["why"]


def test_the_table_is_long_enough_to_mean_something():
    assert sum(len(group.get(word, ())) for group in TABLE for word in EXPECTED) >= 3_000


@pytest.mark.parametrize("text", [";" * 10_000, "${" * 5_000, "case a in " * 1_000, "((" * 5_000])
def test_words_of_odd_text_are_noted_once(text: str):
    line = read_line(text)
    assert line.doubts
    # Each of a thousand odd signs once noted all words around it: three million of them.
    assert len(line.tokens) <= 2 * len(text)


def test_odd_text_is_still_searched_for_what_is_forbidden():
    line = read_line("case a in case b in rm -rf x")
    assert {"rm", "-rf", "x"} <= set(line.tokens)
