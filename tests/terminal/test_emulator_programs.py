"""What real programs drew gives the grid that tmux made of it, however it is cut."""

import random
from collections.abc import Callable, Iterator

import pytest

from quarterdeck.terminal.emulator import Emulator, EmulatorBackend, open_emulator
from tests.support.recorded_programs import PROGRAMS, Program, looks_of, program, runs_of

AVT_ROWS: dict[str, tuple[str, set[int]]] = {
    "unicode": ("it keeps a zero width space", {7}),
}
"""Rows that the second emulator shows differently, and why."""
AVT_STYLES: dict[str, str] = {
    "codex": "bold and faint are one to it",
    "htop": "what is erased keeps all attributes, not only the background",
}
"""Styles that it shows differently, and why."""


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def bytewise(data: bytes) -> Iterator[bytes]:
    for byte in data:
        yield bytes([byte])


def anywhere(data: bytes) -> Iterator[bytes]:
    chance = random.Random(len(data))
    at = 0
    while at < len(data):
        step = chance.choice((1, 2, 3, 7, 50, 700))
        yield data[at : at + step]
        at += step


def played(
    recorded: Program, backend: EmulatorBackend, cut: Callable[[bytes], Iterator[bytes]]
) -> Emulator:
    screen = open_emulator(*recorded.size, backend=backend)
    for step in recorded.steps:
        if isinstance(step, bytes):
            for piece in cut(step):
                screen.feed(piece)
        else:
            screen.resize(*step)
    return screen


@pytest.mark.parametrize("cut", [whole, bytewise, anywhere])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_shown_as_others_show_it(name: str, cut: Callable[[bytes], Iterator[bytes]]):
    recorded = program(name)
    screen = played(recorded, "ghostty", cut)
    assert [row.text for row in screen.rows()] == recorded.rows
    assert (screen.cursor.column, screen.cursor.row) == recorded.cursor
    rows = screen.rows()
    assert {n: runs_of(looks_of(rows[n])) for n in recorded.styles} == recorded.styles


@pytest.mark.parametrize("cut", [whole, anywhere])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_emulator_shows_the_same(name: str, cut: Callable[[bytes], Iterator[bytes]]):
    recorded = program(name)
    screen = played(recorded, "avt", cut)
    _, others = AVT_ROWS.get(name, ("", set[int]()))
    rows = screen.rows()
    different = {n for n, row in enumerate(rows) if row.text != recorded.rows[n]}
    assert different == others
    assert (screen.cursor.column, screen.cursor.row) == recorded.cursor
    if name not in AVT_STYLES:
        shown = {n: runs_of(looks_of(rows[n])) for n in recorded.styles if n not in others}
        assert shown == {n: runs for n, runs in recorded.styles.items() if n not in others}
