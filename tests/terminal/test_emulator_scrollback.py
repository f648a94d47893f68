"""What a screen keeps above itself, row by row with its looks."""

import pytest

from quarterdeck.terminal.emulator import EmulatorBackend, GridSpan, Style, open_emulator


@pytest.mark.parametrize("backend", ["ghostty", "avt"])
def test_rows_above_the_screen_are_read_with_their_styles(backend: EmulatorBackend):
    screen = open_emulator(20, 4, backend=backend)
    for number in range(20):
        screen.feed(b"\x1b[3%dmrow %d\x1b[m\r\n" % (number % 8, number))
    assert screen.scrolled == 17
    assert [row.text for row in screen.above(0, 3)] == ["row 0", "row 1", "row 2"]
    assert screen.above(9, 1)[0].spans == (GridSpan("row 9", Style(foreground=1)),)
    assert [row.text for row in screen.above(15, 50)] == ["row 15", "row 16"]
    assert screen.above(17, 5) == () == screen.above(-3, 0)


@pytest.mark.parametrize("backend", ["ghostty", "avt"])
def test_blank_rows_above_the_screen_count(backend: EmulatorBackend):
    screen = open_emulator(20, 2, backend=backend)
    screen.feed(b"\r\n\r\nmiddle\r\n\r\n\r\n\r\n")
    assert [row.text for row in screen.above(0, 9)] == ["", "", "middle", "", ""]


@pytest.mark.parametrize("backend", ["ghostty", "avt"])
def test_rows_that_are_wrapped_are_told(backend: EmulatorBackend):
    screen = open_emulator(10, 3, scrollback=100, backend=backend)
    screen.feed("abcdefghijklmno\r\nxx\r\n012345678  你你你你你\r\nend".encode())
    rows = [row.text for row in (*screen.above(0, 100), *screen.rows())]
    assert rows == ["abcdefghij", "klmno", "xx", "012345678", " 你你你你", "你", "end"]
    wraps = screen.wraps(0, 7)
    no_room = 9 if backend == "ghostty" else 10  # for a wide character, which avt does not tell
    assert wraps == (10, 0, 0, 10, no_room, 0, 0)
    assert [screen.wraps(at, 1) for at in range(7)] == [(one,) for one in wraps]
    assert screen.wraps(4, 100) == wraps[4:]
    assert screen.wraps(7, 5) == screen.wraps(0, 0) == ()
    assert [row.text for row in screen.rows()] == rows[-3:]
    screen.close()
