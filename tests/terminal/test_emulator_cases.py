"""What the manuals say that a terminal does."""

import pytest

from quarterdeck.terminal.emulator import EmulatorBackend, open_emulator
from tests.support.terminal_cases import CASES, COLUMNS, ROWS, Case


def check(case: Case, backend: EmulatorBackend, pieces: list[bytes]) -> None:
    screen = open_emulator(COLUMNS, ROWS, backend=backend)
    answer = b"".join([screen.feed(piece) for piece in pieces])
    rows = screen.rows()
    if case.rows is not None:
        assert [row.text for row in rows] == [*case.rows, *[""] * (ROWS - len(case.rows))]
    if case.cursor is not None:
        assert (screen.cursor.column, screen.cursor.row) == case.cursor
    if case.answer is not None:
        assert answer == case.answer
    if case.style is not None:
        assert rows[0].spans[0].style == case.style
    if case.above is not None:
        assert [row.text for row in screen.above(0, 100)] == case.above
    if case.title is not None:
        assert screen.title == case.title
    assert {name: getattr(screen.modes, name) for name in case.modes} == case.modes
    assert screen.size == (COLUMNS, ROWS)
    screen.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_terminal_does_what_the_manuals_say(case: Case):
    check(case, "ghostty", [case.written])
    check(case, "ghostty", [bytes([byte]) for byte in case.written])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_second_emulator_does_so_too_but_where_it_says(case: Case):
    if case.avt:
        with pytest.raises((AssertionError, IndexError)):
            check(case, "avt", [case.written])
    else:
        check(case, "avt", [case.written])
        check(case, "avt", [bytes([byte]) for byte in case.written])


def test_no_case_has_the_name_of_another():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("backend", ["ghostty", "avt"])
def test_a_program_that_asks_who_we_are_gets_a_name(backend: EmulatorBackend):
    answer = open_emulator(COLUMNS, ROWS, backend=backend).feed(b"\x1b[>q")
    assert answer.startswith(b"\x1bP>|") and answer.endswith(b"\x1b\\") and len(answer) > 6
