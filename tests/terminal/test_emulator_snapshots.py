"""Who comes late sees the same screen, and goes on seeing the same."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quarterdeck.terminal.emulator import Emulator, EmulatorBackend, open_emulator
from tests.support.recorded_programs import program

BACKENDS: list[EmulatorBackend] = ["ghostty", "avt"]
WORDS = ["plain words", "w" * 33, "你好", "é", "e\u0301", "👍", "👩\u200d👧", "🇩🇪", "─│┌"]
ORDERS = [
    b"\r\n", b"\r\n\r\n\r\n", b"\n", b"\r", b"\t", b"\b", b"\x1bM", b"\x1bD", b"\x1bE",
    b"\x1b[3;5H", b"\x1b[6;20H", b"\x1b[2A", b"\x1b[B", b"\x1b[4C", b"\x1b[3D", b"\x1b[9G",
    b"\x1b[K", b"\x1b[1K", b"\x1b[J", b"\x1b[2J", b"\x1b[3@", b"\x1b[2P", b"\x1b[4X", b"\x1b[L",
    b"\x1b[M", b"\x1b[S", b"\x1b[T", b"\x1b[0m", b"\x1b[1;31m", b"\x1b[44m", b"\x1b[4;7m",
    b"\x1b[38;2;1;2;3m", b"\x1b[48;5;99m", b"\x1b[2;5r", b"\x1b[r", b"\x1b7", b"\x1b8",
    b"\x1b(0lqk\x1b(B", b"\x1b(0q\x1b[5b\x1b(B", b"z\x1b[25b", b"\x1b)0\x0exq\x0f",
    b"\x1b[?1h", b"\x1b[?6h", b"\x1b[?6l", b"\x1b[?7l", b"\x1b[?7h", b"\x1b[?25l", b"\x1b[?25h",
    b"\x1b[?1000h", b"\x1b[?1002;1006h", b"\x1b[?1003h", b"\x1b[?1003l", b"\x1b[?1004h",
    b"\x1b[?2004h", b"\x1b[?2026h", b"\x1b[?2026l", b"\x1b[4h", b"\x1b[4l", b"\x1b[5 q",
    b"\x1b[>5u", b"\x1b[>1u", b"\x1b[<u", b"\x1b]2;a title\x07", b"\x1b]0;other\x1b\\",
    b"\x1b[3g", b"\x1bH", b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"\x1b[!p",
]  # fmt: skip
WRITTEN = st.lists(st.sampled_from([*[word.encode() for word in WORDS], *ORDERS]), max_size=30)
AFTERWARDS = (b"", b"more\r\n\x1b[Kx", b"\x1b8saved", b"\x1b[?7hlast words, wrapped\r\n\x1b[<u")


def seen(screen: Emulator) -> dict[str, object]:
    above = screen.above(0, 10_000)
    return {
        "rows": screen.rows(),
        "cursor": screen.cursor,
        "modes": screen.modes,
        "title": screen.title,
        "above": above,
    }


def late_viewer_of(screen: Emulator) -> Emulator:
    late = open_emulator(*screen.size, backend="avt" if screen.backend == "avt" else "ghostty")
    late.feed(screen.snapshot())
    return late


def check(backend: EmulatorBackend, before: bytes, after: bytes) -> None:
    screen = open_emulator(20, 6, backend=backend)
    screen.feed(before)
    late = late_viewer_of(screen)
    for piece in (b"", after, *AFTERWARDS):
        screen.feed(piece)
        late.feed(piece)
        assert seen(late) == seen(screen), piece
    screen.close()
    late.close()


@pytest.mark.parametrize("backend", BACKENDS)
@settings(deadline=None, max_examples=50)
@given(words=WRITTEN, cut=st.floats(0, 1))
@example(words=[b"x" * 20], cut=1.0).via("waits at the end of a line")
@example(words=[b"\x1b[?7l", b"x" * 50], cut=0.5)
@example(words=[b"\x1b[44m\x1b[2J"], cut=1.0).via("rows without characters")
@example(words=[b"\x1b[2;5r\x1b[?6h\x1b[2;3H"], cut=1.0)
@example(words=[b"x" * 20, b"\x1b7", b"\r\n\r\n"], cut=1.0)
@example(words=[b"\x1b(0q", b"\x1b[5b"], cut=0.5)
@example(words=[b"\x1b]0;a title\x1b", b"\\"], cut=12 / 13)
def test_a_snapshot_cut_anywhere_goes_on_the_same(
    backend: EmulatorBackend, words: list[bytes], cut: float
):
    written = b"".join(words)
    at = round(len(written) * cut)
    check(backend, written[:at], written[at:])


@settings(deadline=None, max_examples=40)
@given(behind=WRITTEN, words=WRITTEN, cut=st.floats(0, 1))
def test_a_snapshot_of_the_alternate_screen_has_what_is_behind(
    behind: list[bytes], words: list[bytes], cut: float
):
    before, written = b"".join(behind) + b"\x1b[?1049h", b"".join(words)
    at = round(len(written) * cut)
    screen = open_emulator(20, 6)
    screen.feed(before + written[:at])
    late = late_viewer_of(screen)
    for piece in (written[at:], b"\x18\x1b[?1049l", *AFTERWARDS):
        screen.feed(piece)
        late.feed(piece)
        assert seen(late) == seen(screen), piece


@pytest.mark.parametrize("entered", [47, 1047, 1049])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_way_to_the_alternate_screen_is_kept(backend: EmulatorBackend, entered: int):
    before = b"main\r\nscreen\x1b[?%dh\x1b[Halternate" % entered
    check(backend, before, b"\x1b[?%dl" % entered)


@pytest.mark.parametrize("name", ["vim", "less", "htop", "textual", "unicode", "joined", "codex"])
def test_a_snapshot_at_every_byte_of_a_program(name: str):
    """A piece of a recording here; the stress test takes all of it."""
    every_byte(name, 60)


@pytest.mark.stress
@pytest.mark.parametrize("name", ["vim", "less", "htop", "textual", "unicode", "joined", "codex"])
def test_a_snapshot_at_every_byte_of_much_of_a_program(name: str):
    every_byte(name, 4000)


def every_byte(name: str, count: int) -> None:
    recorded = program(name)
    raw = recorded.raw
    begin = max(random.Random(name).randrange(len(raw)) - count, 0)
    end = min(begin + count, len(raw))
    after = raw[end : end + 2000]
    whole = open_emulator(*recorded.size)
    whole.feed(raw[:end] + after)
    expected = seen(whole)
    screen = open_emulator(*recorded.size)
    screen.feed(raw[:begin])
    for at in range(begin, end):
        screen.feed(raw[at : at + 1])
        late = late_viewer_of(screen)
        late.feed(raw[at + 1 : end] + after)
        assert seen(late) == expected, at
        late.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_above_comes_along_but_not_all_of_it(backend: EmulatorBackend):
    screen = open_emulator(40, 5, backend=backend)
    screen.feed(b"".join(b"\x1b[3%dmrow %d\x1b[m\r\n" % (n % 8, n) for n in range(3000)))
    late = late_viewer_of(screen)
    assert late.scrolled == 2000
    assert late.above(0, 2000) == screen.above(screen.scrolled - 2000, 2000)
    few = open_emulator(40, 5, backend=backend)
    few.feed(screen.snapshot(history=10))
    assert few.scrolled == 10 and few.rows() == screen.rows()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_snapshot_is_bounded_in_bytes(backend: EmulatorBackend):
    screen = open_emulator(200, 5, backend=backend)
    row = b"".join(b"\x1b[38;5;%dm%c" % (n, 65 + n % 26) for n in range(190)) + b"\x1b[m\r\n"
    screen.feed(row * 800)
    snapshot = screen.snapshot()
    assert len(snapshot) < 600 * 1024
    late = open_emulator(200, 5, backend=backend)
    late.feed(snapshot)
    assert late.rows() == screen.rows() and 50 < late.scrolled < 700


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_string_that_is_too_long_to_be_kept_is_still_one(backend: EmulatorBackend):
    screen = open_emulator(20, 3, backend=backend)
    screen.feed(b"seen\x1b]1337;File=:" + b"A" * 300_000)
    late = late_viewer_of(screen)
    for viewed in (screen, late):
        viewed.feed(b"AAAA" * 100 + b"\x07 more")
        assert [row.text for row in viewed.rows()] == ["seen more", "", ""]


@pytest.mark.parametrize("backend", BACKENDS)
def test_lines_stay_whole_for_who_comes_late(backend: EmulatorBackend):
    screen = open_emulator(20, 4, backend=backend)
    screen.feed(b"a line that is longer than the terminal is wide\r\nshort\r\n" * 2 + b"end")
    assert screen.text() == late_viewer_of(screen).text() or backend == "avt"
