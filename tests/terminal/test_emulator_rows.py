"""A screen in memory: what both emulators show, cut anywhere, whatever is thrown at them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.terminal.emulator import Emulator, EmulatorBackend, GridSpan, Style, open_emulator
from tests.support.recorded_terminals import AGENTS, recorded

BACKENDS: list[EmulatorBackend] = ["ghostty", "avt"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> EmulatorBackend:
    return request.param


def shown(screen: Emulator) -> list[str]:
    return [row.text for row in screen.rows()]


def test_text_colours_and_attributes(backend: EmulatorBackend):
    screen = open_emulator(40, 5, backend=backend)
    screen.feed(b"plain \x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3;48;5;200mboth\x1b[m \x1b[3;7mx\x1b[m")
    assert screen.rows()[0].spans == (
        GridSpan("plain ", Style()),
        GridSpan("red", Style(foreground=1, bold=True)),
        GridSpan(" ", Style()),
        GridSpan("both", Style(foreground=(1, 2, 3), background=200)),
        GridSpan(" ", Style()),
        GridSpan("x", Style(italic=True, inverse=True)),
    )


def test_wide_characters_take_two_columns(backend: EmulatorBackend):
    screen = open_emulator(6, 3, backend=backend)
    screen.feed("你好ab👍!".encode())
    assert shown(screen) == ["你好ab", "👍!", ""] and screen.cursor.column == 3


def test_a_wrapped_line_is_one_line_of_text(backend: EmulatorBackend):
    screen = open_emulator(10, 4, backend=backend)
    screen.feed(b"x" * 25 + b"\r\nnext")
    assert shown(screen) == ["x" * 10, "x" * 10, "x" * 5, "next"]
    assert screen.text() == ["x" * 25, "next"]


def test_text_since_a_mark_goes_on_above_the_screen(backend: EmulatorBackend):
    screen = open_emulator(20, 4, backend=backend)
    screen.feed(b"".join(b"old %d\r\n" % number for number in range(10)))
    mark = screen.mark()
    screen.feed(b"".join(b"new %d\r\n" % number for number in range(100)))
    lines = [line for line in screen.text(mark) if line.startswith("new")]
    assert lines == [f"new {number}" for number in range(100)]
    mark.release()


def test_only_what_changed_is_reported(backend: EmulatorBackend):
    screen = open_emulator(20, 10, backend=backend)
    screen.feed(b"one\r\ntwo\r\nthree")
    first, other = screen.changes(), screen.changes()
    assert first.is_whole and len(first.rows) == 10
    screen.feed(b"\x1b[2;1HTWO")
    change = screen.changes(first.revision)
    assert not change.is_whole and {n: row.text for n, row in change.rows.items()} == {1: "TWO"}
    assert screen.changes(change.revision).rows == {}
    assert screen.changes(other.revision).rows == change.rows, "each viewer for itself"
    screen.resize(30, 5)
    assert screen.changes(change.revision).is_whole


def test_queries_are_answered(backend: EmulatorBackend):
    screen = open_emulator(80, 24, backend=backend)
    screen.feed(b"\x1b[5;10H")
    assert screen.feed(b"\x1b[6n") == b"\x1b[5;10R"
    assert screen.feed(b"\x1b[c").startswith(b"\x1b[?62")
    assert screen.feed(b"\x1b[>c").startswith(b"\x1b[>1;")
    assert screen.feed(b"\x1b[?2004$p") == b"\x1b[?2004;2$y"
    assert screen.feed(b"\x1b[?2004h\x1b[?2004$p") == b"\x1b[?2004;1$y"
    assert screen.feed(b"\x1b[?u") == b"\x1b[?0u"
    assert screen.feed(b"\x1b[>1u\x1b[?u") == b"\x1b[?1u"
    assert screen.feed(b"\x1b]11;?\x07").startswith(b"\x1b]11;rgb:")
    assert screen.feed(b"\x1b[18t") == b"\x1b[8;24;80t"
    assert screen.feed(b"\x1b[14t") == b"\x1b[4;384;640t"
    assert screen.feed(b"\x1b[5n") == b"\x1b[0n"
    assert b"".join(screen.feed(bytes([one])) for one in b"x\x1b[6n") == b"\x1b[5;11R"


def test_modes_and_the_title_are_known(backend: EmulatorBackend):
    screen = open_emulator(80, 24, backend=backend)
    screen.feed(b"\x1b[?1049h\x1b[?1h\x1b[?1003h\x1b[?1004h\x1b[?2004h\x1b]2;A title\x07")
    modes = screen.modes
    assert modes.alternate_screen and modes.application_cursor and modes.mouse
    assert modes.focus and modes.bracketed_paste and screen.title == "A title"
    assert modes.mouse == "any" and not modes.mouse_sgr
    screen.feed(b"\x1b[?1003l\x1b[?1002;1006h\x1b[5 q")
    assert screen.modes.mouse == "drag" and screen.modes.mouse_sgr and screen.cursor.shape == "bar"
    screen.feed(b"\x1b[?1002l\x1b[?1000h\x1b[4 q")
    assert screen.modes.mouse == "press" and screen.cursor.shape == "underline"
    screen.feed(b"\x1bc")
    assert screen.modes.mouse == "" and screen.cursor.shape == "block"
    assert not screen.modes.alternate_screen and not screen.modes.bracketed_paste


@pytest.mark.parametrize("alternate", [b"", b"\x1b[?1049h\x1b[H\x1b[2Jalternate \x1b[32m"])
def test_a_snapshot_draws_the_same_and_goes_on_the_same(backend: EmulatorBackend, alternate: bytes):
    screen = open_emulator(40, 6, backend=backend)
    screen.feed(b"".join(b"line %d \x1b[3%dmcolour\x1b[m\r\n" % (n, n % 8) for n in range(20)))
    screen.feed("你好 ".encode() + b"w" * 50 + b"\x1b[?2004h\x1b[?1003h\x1b[>1u" + alternate)
    late = open_emulator(40, 6, backend=backend)
    late.feed(screen.snapshot())
    for more in (b"", b"more\r\n\x1b[Kx", b"\x1b[?1049l", b"\x1b[2;2Hat last"):
        screen.feed(more)
        late.feed(more)
        assert late.rows() == screen.rows() and late.cursor == screen.cursor
        assert late.modes == screen.modes
    if backend == "ghostty" or not alternate:  # avt does not tell what is behind the alternate one
        assert late.scrolled == screen.scrolled


@pytest.mark.parametrize("agent", AGENTS)
def test_recorded_agents_look_the_same_however_they_are_cut(agent: str):
    session = recorded(agent)
    raw = session.raw[:15_000]
    whole = open_emulator(*session.size)
    whole.feed(raw)
    cut = open_emulator(*session.size)
    for byte in raw:
        cut.feed(bytes([byte]))
    assert cut.rows() == whole.rows() and cut.cursor == whole.cursor


@pytest.mark.parametrize("agent", AGENTS)
def test_both_emulators_agree_on_recorded_agents(agent: str):
    session = recorded(agent)
    ours, other = open_emulator(*session.size), open_emulator(*session.size, backend="avt")
    done = 0
    for moment in session.moments:
        for screen in (ours, other):
            screen.feed(session.raw[done : moment["at"]])
        done = moment["at"]
        assert shown(ours) == shown(other), moment["name"]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_late_viewer_of_an_agent_sees_the_same(agent: str):
    session = recorded(agent)
    half = len(session.raw) // 2
    screen, late = open_emulator(*session.size), open_emulator(*session.size)
    screen.feed(session.raw[:half])
    late.feed(screen.snapshot())
    for viewed in (screen, late):
        viewed.feed(session.raw[half:])
    assert shown(late) == shown(screen)


def test_a_storm_of_resizes_keeps_the_text(backend: EmulatorBackend):
    screen = open_emulator(80, 24, backend=backend)
    screen.feed(b"a line that is long enough to be wrapped when it gets narrow\r\nend")
    for step in range(200):
        screen.resize(20 + step % 61, 3 + step % 22)
        screen.rows()
    screen.resize(80, 24)
    assert "a line that is long enough to be wrapped when it gets narrow" in screen.text()


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=2000), st.integers(1, 40), st.integers(1, 12), st.integers(1, 300))
def test_noise_raises_nothing(data: bytes, columns: int, rows: int, cut: int):
    for backend in BACKENDS:
        screen = open_emulator(columns, rows, backend=backend)
        for start in range(0, len(data), cut):
            screen.feed(data[start : start + cut])
        assert len(screen.rows()) == rows
        screen.resize(rows, columns)
        screen.text(screen.mark())
        screen.snapshot()
        screen.close()


@pytest.mark.parametrize("size", [(1, 1), (1000, 1000), (2, 1)])
def test_strange_sizes_and_long_lines(backend: EmulatorBackend, size: tuple[int, int]):
    screen = open_emulator(*size, backend=backend)
    chance = random.Random(7)
    screen.feed(
        "你👩‍👩‍👧é".encode() * 100 + b"\x1b[" + b"9" * 5000 + b"H" + chance.randbytes(20_000)
    )
    screen.feed(b"z" * (1_000_000 if backend == "ghostty" else 100_000))
    screen.feed(b"\x1b]0;" + b"t" * 100_000)
    assert len(screen.rows()) == size[1] and screen.size == size
