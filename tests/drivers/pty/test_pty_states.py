"""States are told once, and nothing is typed into a dialog unasked: recorded streams, replayed."""

import itertools
import random
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.errors import LoginNeededError, OpenFailedError
from quarterdeck.drivers.pty.link import PtyLink
from quarterdeck.drivers.pty.patterns import load_patterns
from quarterdeck.drivers.pty.reader import TerminalReader, TerminalReading
from quarterdeck.terminal.emulator import TerminalModes, open_emulator
from quarterdeck.terminal.headless_terminal import encode_key
from tests.support.driver_rig import Rig, drive
from tests.support.recorded_terminals import RECORDINGS, Recorded, recorded

DIALOGS = ("asking", "trust", "update", "login", "notice")


@pytest.fixture(params=RECORDINGS)
def recording(request: pytest.FixtureRequest) -> Recorded:
    return recorded(request.param)


def expected(recording: Recorded) -> list[tuple[str, list[str]]]:
    """The dialogs of a recording, with the kinds of their options."""
    return [
        (moment["state"], moment.get("request", {}).get("kinds", []))
        for moment in recording.moments
        if moment["state"] in DIALOGS
    ]


def told(recording: Recorded, cuts: Iterable[int]) -> list[tuple[str, list[str]]]:
    """The dialogs that are told when the stream comes in these pieces, each when it appears."""
    reader = TerminalReader(load_patterns(recording.agent))
    screen = open_emulator(*recording.size)
    last: TerminalReading | None = None
    dialogs: list[tuple[str, list[str]]] = []
    ends = sorted({0, *cuts, *(moment["at"] for moment in recording.moments)})
    for begin, end in itertools.pairwise(ends):
        screen.feed(recording.raw[begin:end])
        if screen.modes.synchronized:
            continue  # nobody looks at the half of a drawing
        reading = reader.read(screen)
        if reading.state == "unknown":
            continue
        if reading.state in DIALOGS and reading != last:
            choices = reading.request.choices if reading.request else ()
            dialogs.append((reading.state, [str(one.option.kind) for one in choices]))
        last = reading
    return dialogs


@pytest.mark.parametrize("seed", range(3))
def test_each_dialog_is_told_once_wherever_the_stream_is_cut(recording: Recorded, seed: int):
    chance = random.Random(seed)
    length = recording.moments[-1]["at"]
    cuts = [chance.randrange(length) for _ in range((8, 40, 100)[seed])]
    assert told(recording, cuts) == expected(recording)


def test_each_dialog_is_told_once_when_its_bytes_come_one_by_one(recording: Recorded):
    around = [moment["at"] for moment in recording.moments if moment["state"] in DIALOGS]
    cuts = (at + step for at in around for step in range(-120, 120))
    assert told(recording, (cut for cut in cuts if cut > 0)) == expected(recording)


@pytest.mark.stress
def test_each_dialog_is_told_once_when_all_bytes_come_one_by_one(recording: Recorded):
    length = min(recording.moments[-1]["at"], 40_000)
    assert told(recording, range(length)) == expected(recording)


PLAYER = """
import os, sys, tty
stream, log, *ends = sys.argv[1:]
tty.setraw(0)
data, done = open(stream, "rb").read(), 0
for number, end in enumerate(ends):
    while done < int(end):
        done += os.write(1, data[done : min(done + 4096, int(end))])
    while number < len(ends) - 1 or True:
        typed = os.read(0, 65536)
        if not typed:
            sys.exit()
        with open(log, "ab") as file:
            file.write(typed)
        if typed.endswith((b"\\r", b"2")) and number < len(ends) - 1:
            break
"""
"""Draws a recorded stream up to a place, writes down what is typed, goes on after an enter."""

ANSWERS = re.compile(
    rb"\x1b\[[?>]?[\d;]*\$?[Rcnyut]|\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[IO]"
)
"""What a terminal itself says when a program asks it."""


def rig(recording: Recorded, tmp_path: Path, ends: list[int], **changes: Any) -> Rig:
    stream = tmp_path / "stream"
    stream.write_bytes(recording.raw)
    words = (str(stream), str(tmp_path / "typed"), *map(str, ends))
    launch = Launch(
        agent=recording.agent,
        dialect=recording.agent,
        command=(sys.executable, "-c", PLAYER, *words),
        **changes,
    )
    return Rig(name=recording.agent, make=lambda: PtyLink(launch))


def typed(tmp_path: Path) -> bytes:
    file = tmp_path / "typed"
    return ANSWERS.sub(b"", file.read_bytes()) if file.exists() else b""


SHOWN = [
    (name, moment["at"], moment["state"])
    for name in RECORDINGS
    for moment in recorded(name).moments
    if moment["state"] in DIALOGS and moment["state"] != "asking"
]


@pytest.mark.parametrize(("name", "at", "state"), SHOWN)
async def test_nothing_is_typed_into_a_dialog_at_the_start(
    name: str, at: int, state: str, tmp_path: Path
):
    wanted = LoginNeededError if state == "login" else OpenFailedError
    with pytest.raises(wanted, match="needs a login" if state == "login" else state):
        async with drive(rig(recorded(name), tmp_path, [at]), tmp_path):
            pass
    assert typed(tmp_path) == b""


@pytest.mark.parametrize(
    ("name", "quirk", "answer"),
    [
        ("claude/session", "accept-trust", "accept"),
        ("codex/session", "decline-update", "decline"),
    ],
)
async def test_what_policy_names_is_answered_with_its_keys_alone(
    name: str, quirk: str, answer: str, tmp_path: Path
):
    recording = recorded(name)
    ends = [moment["at"] for moment in recording.moments[:2]]
    player = rig(recording, tmp_path, ends, quirks=frozenset((quirk,)))
    async with drive(player, tmp_path):
        pass
    state = quirk.partition("-")[2]
    rules = (one for one in load_patterns(recording.agent).states if one.state == state)
    wanted = {
        b"".join(encode_key(key, TerminalModes()) for key in getattr(rule, answer))
        for rule in rules
    }
    assert typed(tmp_path) in wanted
