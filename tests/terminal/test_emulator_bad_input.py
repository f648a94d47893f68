"""Whatever is written, and whatever size the window has: nothing raises, and memory is bounded."""

import random
import resource
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.terminal.emulator import Emulator, EmulatorBackend, open_emulator

BACKENDS: list[EmulatorBackend] = ["ghostty", "avt"]
PIECES = [b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b_", b"\x9b", b"\x9d", b";", b":", b"?"]
PIECES += [
    b"9" * 20,
    b"\xff",
    b"\xe4",
    b"\xbd",
    b"\xf0\x9f",
    b"\0",
    b"\x7f",
    b"\x18",
    b"\x1a",
    b"\x07",
]
PIECES += [b"\r\n", b"\t", b"abc", b"m", b"H", b"h", b"l", b"r", b"$p", b" q", b"u", b"!p"]
PIECES += [b"?1049", b"\\"]
NOISE = st.one_of(st.binary(max_size=600), st.lists(st.sampled_from(PIECES)).map(b"".join))
SIZES = st.tuples(st.integers(-3, 45), st.integers(-3, 14))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> EmulatorBackend:
    return request.param


def use(screen: Emulator) -> None:
    """Everything that can be asked of a screen."""
    columns, rows = screen.size
    assert len(screen.rows()) == rows and 0 <= screen.cursor.column < columns
    assert 0 <= screen.cursor.row < rows
    for row in screen.rows():
        assert "\x1b" not in row.text and "\n" not in row.text
    screen.changes(1)
    screen.text(screen.mark())
    assert len(screen.above(0, 10_000)) == min(screen.scrolled, 10_000)
    assert isinstance(screen.title, str) and screen.modes is not None
    late = open_emulator(columns, rows, backend="avt" if screen.backend == "avt" else "ghostty")
    late.feed(screen.snapshot())
    late.close()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(NOISE, SIZES), max_size=4))
def test_noise_while_the_size_changes_raises_nothing(steps: list[tuple[bytes, tuple[int, int]]]):
    for backend in BACKENDS:
        screen = open_emulator(20, 5, backend=backend)
        for noise, size in steps:
            screen.feed(noise)
            screen.resize(*size)
        use(screen)
        screen.close()


@pytest.mark.stress
def test_much_noise_raises_nothing(backend: EmulatorBackend):
    chance = random.Random(1)
    for _ in range(300 if backend == "ghostty" else 60):
        screen = open_emulator(chance.randint(1, 200), chance.randint(1, 60), backend=backend)
        for _ in range(20):
            noise = chance.randbytes(5000)
            screen.feed(noise + b"".join(chance.choices(PIECES, k=200)))
            screen.resize(chance.randint(-1, 200), chance.randint(-1, 60))
        use(screen)
        screen.close()


@pytest.mark.parametrize("size", [(0, 0), (-5, 3), (1, 1), (1, 5), (5, 1), (1000, 30), (30, 1000)])
def test_a_window_of_any_size(backend: EmulatorBackend, size: tuple[int, int]):
    screen = open_emulator(*size, backend=backend)
    columns, rows = screen.size
    assert 1 <= columns <= 1000 and 1 <= rows <= 1000
    screen.feed("你好\t👩\u200d👧 é\r\n\x1b[31mred\x1b[2;2H\x1b[44m\x1b[J\x1b[?1049hx".encode())
    assert len(screen.rows()) == rows
    screen.resize(*size)
    screen.resize(80, 24)
    use(screen)


def test_a_window_is_never_larger_than_a_thousand(backend: EmulatorBackend):
    assert open_emulator(9999, 5, backend=backend).size == (1000, 5)


@pytest.mark.parametrize(
    "begun", [b"", b"\x1b]0;", b"\x1b]1337;", b"\x1bP", b"\x1b_G", b"\x1b[", b"\x1bX"]
)
def test_a_megabyte_without_an_end(backend: EmulatorBackend, begun: bytes):
    screen = open_emulator(80, 24, backend=backend)
    before = memory()
    for _ in range(64):
        screen.feed(begun + b"1" * 16_384 if begun in (b"", b"\x1b[") else begun + b"A" * 16_384)
        begun = b""
    assert len(screen.snapshot()) < 2_000_000 and len(screen.title) <= 16_384
    assert memory() - before < 64 * 1024 * 1024
    screen.feed(b"\x1b\\\x07\x1bcback")
    assert screen.rows()[0].text == "back"


def test_what_is_kept_above_is_bounded(backend: EmulatorBackend):
    screen = open_emulator(80, 24, scrollback=500, backend=backend)
    lines = b"".join(b"line %d\r\n" % number for number in range(1000))
    screen.feed(lines * 10)
    before = memory()
    for _ in range(90 if backend == "ghostty" else 20):
        screen.feed(lines)
    assert 400 <= screen.scrolled <= 700
    assert memory() - before < 16 * 1024 * 1024


def test_a_storm_of_sizes_while_a_program_draws(backend: EmulatorBackend):
    screen = open_emulator(80, 24, backend=backend)
    chance = random.Random(3)
    for step in range(150):
        drawn = f"\x1b[{step % 40};{step % 90}H\x1b[3{step % 8}mstep {step} 你好\r\n"
        screen.feed(drawn.encode())
        screen.resize(chance.randint(1, 120), chance.randint(1, 50))
        assert len(screen.rows()) == screen.size[1]
    screen.resize(80, 24)
    screen.feed(b"\x1b[0m\x1b[2J\x1b[Hcalm")
    assert screen.rows()[0].text == "calm"
    use(screen)


def test_a_closed_screen_may_be_closed_again(backend: EmulatorBackend):
    screen = open_emulator(10, 3, backend=backend)
    mark = screen.mark()
    screen.close()
    screen.close()
    mark.release()


def memory() -> int:
    """Bytes, at most so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
