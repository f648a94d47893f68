"""A picture: many cells, each in colours of its own; read at once, and not kept."""

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.terminal.emulator import EmulatorBackend, GridSpan, Style, open_emulator
from quarterdeck.terminal.emulator.sgr_rows import line_of, styled_rows

COLUMNS, ROWS = 60, 12


def draw_picture(number: int, *, ground: bool, text: str = "m;[0") -> bytes:
    """A screen whose cells have colours of their own; with ``ground`` backgrounds, too."""
    rows: list[str] = []
    for row in range(ROWS):
        cells: list[str] = []
        for column in range(COLUMNS):
            below = f"\x1b[48;2;{column};{number};{row}m" if ground else ""
            letter = text[(column + row) % len(text)]
            cells.append(f"\x1b[38;2;{number};{column};{row}m{below}{letter}")
        rows.append("".join(cells))
    return ("\x1b[H" + "\r\n".join(rows)).encode()


@pytest.mark.parametrize("backend", ["ghostty", "avt"])
@pytest.mark.parametrize("ground", [False, True])
def test_every_cell_of_a_picture_has_its_colours(backend: EmulatorBackend, ground: bool):
    screen = open_emulator(COLUMNS, ROWS, backend=backend)
    for number in (101, 102, 103):  # each in colours that were never seen
        screen.feed(draw_picture(number, ground=ground))
        for row, drawn in enumerate(screen.rows()):
            assert drawn.spans == tuple(
                GridSpan(
                    "m;[0"[(column + row) % 4],
                    Style(
                        foreground=(number, column, row),
                        background=(column, number, row) if ground else None,
                    ),
                )
                for column in range(COLUMNS)
            )


def test_plain_and_indexed_cells_within_a_picture_stay_what_they_are():
    coloured = "".join(f"\x1b[0m\x1b[38;2;9;{n};201mx" for n in range(120))
    lines = [
        f"{coloured}\x1b[0mplain  ",
        f"before {coloured}",
        f"{coloured}\x1b[0m\x1b[1m\x1b[38;5;3mbold",
    ]
    for line in lines:
        (row,) = styled_rows([line])
        (again,) = styled_rows([line_of(row)])
        assert again == row
    plain, before, bold = styled_rows(lines)
    assert plain.spans[-1] == GridSpan("plain", Style())
    assert before.spans[0] == GridSpan("before ", Style())
    assert bold.spans[-1] == GridSpan("bold", Style(foreground=3, bold=True))


@settings(deadline=None, max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.tuples(*[st.integers(0, 255)] * 3) | st.integers(0, 255) | st.none(),
            st.text(
                st.characters(codec="utf-8", exclude_categories=["C", "M"]), min_size=1, max_size=3
            ),
        ),
        max_size=60,
    )
)
def test_a_row_reads_the_same_alone_and_within_a_picture(
    cells: list[tuple[tuple[int, int, int] | int | None, str]],
):
    def write(colour: tuple[int, int, int] | int | None) -> str:
        if isinstance(colour, tuple):
            return f"\x1b[38;2;{';'.join(map(str, colour))}m"
        return f"\x1b[38;5;{colour}m" if colour is not None else ""

    # Emulators write what looks alike as one.
    cells = [next(group) for _, group in groupby(cells, lambda cell: cell[0])]
    line = "".join(f"\x1b[0m{write(colour)}{text}" for colour, text in cells)
    picture = "".join(f"\x1b[0m\x1b[48;2;{n};77;{len(cells)}mx" for n in range(256))
    _, within = styled_rows([picture, line])
    (alone,) = styled_rows([line])
    assert within == alone
    assert alone.text == "".join(text for _, text in cells).rstrip(" ")


def test_colours_of_a_picture_are_not_kept():
    from quarterdeck.terminal.emulator import sgr_rows

    before = len(sgr_rows._styles), len(sgr_rows._spans)  # pyright: ignore[reportPrivateUsage]
    styled_rows(["".join(f"\x1b[0m\x1b[38;2;{n};{n};222mx" for n in range(250))] * 2)
    assert (len(sgr_rows._styles), len(sgr_rows._spans)) == before  # pyright: ignore[reportPrivateUsage]
