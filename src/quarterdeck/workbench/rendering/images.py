"""Images as cells: two pixels in each, one over the other, by the upper half block."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..sanitize import sanitize_line
from .glyphs import BETWEEN, UPPER_HALF
from .lines import Line, PixelRole, Span, clip

if TYPE_CHECKING:
    from ..rasters import Raster
    from ..stores.images import BlockImage

__all__ = ["count_image_rows", "draw_images"]

_WIDEST = 80
_ROWS, _MOST_ROWS = 12, 30
"""Rows of an image that is folded, and of one that is not."""
_INDENT: Span = ("  ", "text")
_LEVELS = 0xF8
"""Colours are kept apart by 32 levels: cells that look alike are drawn at once."""


def count_image_rows(image: "BlockImage", width: int, *, is_large: bool) -> int:
    """The rows that an image takes below its caption, known before it is read."""
    return _fit(image, width, is_large=is_large)[1]


def draw_images(
    images: "Sequence[BlockImage]", width: int, *, is_large: bool = False
) -> list[Line]:
    """Images below each other, each below a line that says what it is.

    One that was not read yet takes as many rows as it will take, so that nothing moves.
    """
    lines: list[Line] = []
    for image in images:
        lines.append(clip((_INDENT, (_describe(image), "faint")), width))
        columns, rows = _fit(image, width, is_large=is_large)
        if image.raster is not None and rows:
            lines += _draw(image.raster.scale(columns, 2 * rows))
        else:
            lines += [()] * rows
    return lines


def _describe(image: "BlockImage") -> str:
    kind = str(image.facts) if image.facts.kind else ""
    name = image.name.rpartition("/")[2] if image.name.startswith("file:") else image.name
    words = [f"image {kind}".strip(), _format_size(image.size), sanitize_line(name, 200)]
    away = "not loaded while the host is away" if image.is_away else ""
    problem = image.problem or _find_problem(image) or away
    return f" {BETWEEN} ".join(filter(None, [" ".join(filter(None, words)), problem]))


def _format_size(number: int) -> str:
    if number < 1_000:
        return f"{number} B"
    return f"{number / 1_000:.0f} kB" if number < 999_500 else f"{number / 1_000_000:.1f} MB"


def _find_problem(image: "BlockImage") -> str:
    """Why an image cannot be drawn, as far as its first bytes tell."""
    if not image.facts.kind:
        return "not readable as an image"
    return "has no pixels" if 0 in (image.facts.width, image.facts.height) else ""


def _fit(image: "BlockImage", width: int, *, is_large: bool) -> tuple[int, int]:
    """Columns and rows of an image; 0 of both: it is not drawn."""
    from ..rasters import can_read_image, fit_size

    kind, wide, high = image.facts
    if not wide or not high or image.problem or not can_read_image(kind):
        return 0, 0
    room = max(1, min(_WIDEST, width - len(_INDENT[0])))
    most = _MOST_ROWS if is_large else _ROWS
    columns, pixels = fit_size(wide, high, room, 2 * most)
    return columns, (pixels + 1) // 2


def _draw(raster: "Raster") -> Iterator[Line]:
    size = 3 * raster.width
    for at in range(0, raster.height * size, 2 * size):
        upper = raster.pixels[at : at + size]
        lower = raster.pixels[at + size : at + 2 * size]
        cells = [(_colour(upper, x), _colour(lower, x)) for x in range(0, size, 3)]
        yield (
            _INDENT,
            *((UPPER_HALF * len(list(same)), PixelRole(*cell)) for cell, same in groupby(cells)),
        )


def _colour(row: bytes, at: int) -> tuple[int, int, int]:
    return row[at] & _LEVELS, row[at + 1] & _LEVELS, row[at + 2] & _LEVELS
