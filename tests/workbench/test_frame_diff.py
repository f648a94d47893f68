"""Frames that are written as differences: the terminal shows the same, and less is written."""

from io import StringIO
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from quarterdeck.terminal.emulator import open_emulator
from quarterdeck.workbench.frame_diff import FrameDiff, _change_style
from quarterdeck.workbench.textual_fixes import ReliableCompositor
from quarterdeck.workbench.widgets.bars import AgentBar
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, screen_text, until

WIDTH, HEIGHT = 20, 4
STYLES = [
    None,
    Style.parse("bold red on black"),
    Style.parse("#112233 on #445566"),
    Style.parse("#778899 on #445566"),
    Style.parse("italic"),
]
CONSOLE = Console(file=StringIO(), force_terminal=True, color_system="truecolor", width=WIDTH)
ROWS = st.lists(
    st.tuples(st.text("ab │é日👍", min_size=1, max_size=8), st.sampled_from(range(len(STYLES)))),
    min_size=1,
    max_size=4,
)


def strip(row: list[tuple[str, int]]) -> Strip:
    line = Strip([Segment(text, STYLES[style]) for text, style in row])
    return line.adjust_cell_length(WIDTH, STYLES[2])


def layout(rows: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([[row] for row in rows], Region(0, 0, WIDTH, HEIGHT))


def chops(y: int, row: Strip) -> ChopsUpdate:
    lines: list[dict[int, Strip | None]] = [{} for _ in range(HEIGHT)]
    ends: list[list[int]] = [[] for _ in range(HEIGHT)]
    lines[y], ends[y] = {0: row}, [WIDTH]
    return ChopsUpdate(lines, [(y, 0, WIDTH)], ends)


def written(frames: FrameDiff, update: CompositorUpdate) -> str:
    reduced = frames.reduce(update)
    assert isinstance(reduced, CompositorUpdate)
    return reduced.render_segments(CONSOLE)


def shown(*sequences: str, height: int = HEIGHT) -> object:
    """What a terminal shows after these."""
    emulator = open_emulator(WIDTH, height)
    for sequence in sequences:
        emulator.feed(sequence.replace("\n", "\r\n").encode())
    rows = list(emulator.rows())
    emulator.close()
    return rows


@settings(deadline=None, max_examples=60)
@given(
    st.lists(ROWS, min_size=HEIGHT, max_size=HEIGHT),
    st.lists(st.tuples(st.integers(0, HEIGHT - 1), ROWS), max_size=6),
)
def test_a_terminal_shows_the_same(first, later):
    frames = FrameDiff()
    rows = [strip(row) for row in first]
    pieces = [written(frames, layout(rows))]
    for y, row in later:
        rows[y] = strip(row)
        pieces.append(written(frames, chops(y, rows[y])))
    assert shown(*pieces) == shown(layout(rows).render_segments(CONSOLE))


TALL, SIDE = 14, 6
"""Lines of a screen with a list at its left, and the cells of that."""
LINES = st.lists(ROWS, min_size=1, max_size=5)


def scrolled(side: list[Strip], talk: list[Strip]) -> ChopsUpdate:
    """The lines of the right part, drawn anew."""
    lines: list[dict[int, Strip | None]] = [{0: side[y], SIDE: talk[y]} for y in range(TALL)]
    return ChopsUpdate(lines, [(y, SIDE, WIDTH) for y in range(TALL)], [[SIDE, WIDTH]] * TALL)


def tall_layout(side: list[Strip], talk: list[Strip]) -> LayoutUpdate:
    rows = [[left, right] for left, right in zip(side, talk, strict=True)]
    return LayoutUpdate(rows, Region(0, 0, WIDTH, TALL))


def right_part(row: list[tuple[str, int]]) -> Strip:
    line = Strip([Segment(text, STYLES[style]) for text, style in row])
    return line.adjust_cell_length(WIDTH - SIDE, STYLES[2])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(ROWS, min_size=TALL, max_size=TALL),
    st.lists(ROWS, min_size=TALL, max_size=TALL),
    st.lists(LINES, max_size=4),
)
def test_a_terminal_shows_the_same_when_lines_move_up(left, first, later):
    frames = FrameDiff()
    side = [strip(row).crop(0, SIDE) for row in left]
    talk = [right_part(row) for row in first]
    pieces = [written(frames, tall_layout(side, talk))]
    for lines in later:
        talk = [*talk[len(lines) :], *map(right_part, lines)]
        pieces.append(written(frames, scrolled(side, talk)))
    whole = tall_layout(side, talk).render_segments(CONSOLE)
    assert shown(*pieces, height=TALL) == shown(whole, height=TALL)


def test_lines_that_move_up_are_moved_by_the_terminal():
    frames = FrameDiff()
    side = [strip([(" ", 2)]).crop(0, SIDE)] * TALL
    side[2] = strip([("bob …", 2)]).crop(0, SIDE)
    texts = [f"{chr(ord('A') + number) * 9} {'日' * (number == 5)}" for number in range(40)]
    talk = [right_part([(text, 2)]) for text in texts]
    pieces = [written(frames, tall_layout(side, talk[:TALL]))]
    pieces.append(written(frames, scrolled(side, talk[1 : TALL + 1])))
    assert f"\x1b[1;{TALL}r\x1b[1;1H\x1b[1M\x1b[r" in pieces[-1]
    assert "OOO" in pieces[-1] and "NNN" not in pieces[-1] and "bob …" in pieces[-1]
    whole = tall_layout(side, talk[1 : TALL + 1]).render_segments(CONSOLE)
    assert shown(*pieces, height=TALL) == shown(whole, height=TALL)
    pieces.append(written(frames, scrolled(side, talk[20 : TALL + 20])))
    assert "M\x1b[r" not in pieces[-1]  # nothing of it was there before
    whole = tall_layout(side, talk[20 : TALL + 20]).render_segments(CONSOLE)
    assert shown(*pieces, height=TALL) == shown(whole, height=TALL)


def test_what_is_there_already_is_not_written_and_a_change_is_short():
    frames = FrameDiff()
    rows = [strip([("hello there", 2)]) for _ in range(HEIGHT)]
    written(frames, layout(rows))
    assert written(frames, chops(1, strip([("hello there", 2)]))) == ""
    changed = written(frames, chops(1, strip([("hello these", 2)])))
    assert changed == "\x1b[2;10H\x1b[0;38;2;17;34;51;48;2;68;85;102ms\x1b[0m"
    wide = written(frames, chops(1, strip([("hello 日本", 2)])))
    assert "hello 日本" in wide  # widths are disputed: drawn whole


def test_an_update_that_is_dropped_is_not_taken_for_drawn():
    frames = FrameDiff()
    written(frames, layout([strip([("a", 2)]) for _ in range(HEIGHT)]))
    frames.reduce(chops(0, strip([("b", 2)])))  # never written
    assert "b" in written(frames, chops(0, strip([("b", 2)])))


def test_after_a_whole_frame_everything_before_is_forgotten():
    frames = FrameDiff()
    row = strip([("same", 2)])
    written(frames, layout([row] * HEIGHT))
    assert "same" in written(frames, layout([row] * HEIGHT))
    assert frames.reduce(None) is None
    frames.reduce("something else")
    assert "same" in written(frames, chops(0, row))


def test_only_the_colour_that_changes_is_written():
    assert _change_style("1;31;40", "1;32;40") == "\x1b[32m"
    assert _change_style("38;2;1;2;3;48;5;9", "38;2;1;2;3;48;2;0;0;0") == "\x1b[48;2;0;0;0m"
    assert _change_style("1;31", "31") == "\x1b[0;31m"
    assert _change_style("31;40", "32") == "\x1b[0;32m"
    assert _change_style("31", "") == "\x1b[0m"
    assert _change_style("", "31") == "\x1b[0;31m"


async def test_a_widget_learns_its_size_although_its_place_was_asked_for_before(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (80, 24)) as (app, pilot):
        await pilot.pause()
        assert "no agent" not in screen_text(app)
        bar = AgentBar(classes="agent-bar")
        compositor = app.screen._compositor
        await app.screen.query_one("ChatPanel").mount(bar)
        compositor._full_map_invalidated = True  # as a change of another new widget does
        assert bar in compositor.full_map
        await until(pilot, lambda: "no agent" in screen_text(app))


async def test_every_screen_of_the_workbench_tells_its_widgets_their_sizes(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (80, 24)) as (app, pilot):
        app.action_help()
        await until(pilot, lambda: "╭─ help" in screen_text(app))
        assert len(app.screen_stack) == 2
        for screen in app.screen_stack:
            assert isinstance(screen._compositor, ReliableCompositor)
