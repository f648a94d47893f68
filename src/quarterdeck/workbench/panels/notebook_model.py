"""A Jupyter notebook as lines: cells, and what they gave. Nothing in it is run."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from quarterdeck.wire.errors import QuarterdeckError

from ..literal import literal, one_line
from ..rendering.code import highlighted
from ..rendering.lines import Line, indented, wrap
from ..rendering.markdown import markdown_lines

__all__ = ["BIGGEST", "BrokenNotebook", "Cell", "Notebook", "cell_lines", "parse_notebook"]

BIGGEST = 20_000_000
"""Bytes of a notebook that are read."""
_MOST_CELLS = 2_000
_MOST_OUTPUT = 20_000


class BrokenNotebook(QuarterdeckError):
    """A file is no notebook; the message says why."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell, as far as it was understood."""

    kind: str
    source: str
    count: int | None = None
    """How many cells had run when it ran."""
    outputs: tuple[tuple[str, str], ...] = ()
    """A role and a text each."""


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """Cells in order, and the language of their code."""

    language: str
    cells: tuple[Cell, ...]
    left_out: int = 0
    """Cells that are not shown."""


def parse_notebook(data: bytes) -> Notebook:
    """Read a notebook; of what it does not understand it keeps the cell's kind.

    Raises:
        BrokenNotebook: it is no JSON, or holds no list of cells.
    """
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenNotebook(f"this is no notebook: {error}. Open it as a file instead.") from error
    whole = _table(found)
    cells = whole.get("cells")
    if not isinstance(cells, list):
        raise BrokenNotebook("this is no notebook of version 4: it has no cells.")
    listed = cast("list[Any]", cells)
    return Notebook(
        language=_language(whole),
        cells=tuple(_cell(_table(cell)) for cell in listed[:_MOST_CELLS]),
        left_out=max(0, len(listed) - _MOST_CELLS),
    )


def cell_lines(cell: Cell, language: str, width: int) -> Iterator[Line]:
    """The lines of a cell: its head, its source, its outputs."""
    number = " " if cell.count is None else str(cell.count)
    head = f"[{number}] code" if cell.kind == "code" else one_line(cell.kind, 40)
    yield ((f"── {head} ", "faint"),)
    if cell.kind == "markdown":
        yield from markdown_lines(literal(cell.source), max(10, width))
    else:
        shown = highlighted(literal(cell.source), language if cell.kind == "code" else "")
        for line in shown:
            yield from wrap(line, width)
    for role, text in cell.outputs:
        for line in literal(text).split("\n"):
            lines = wrap([(line, role)], max(1, width - 2))
            yield from indented(lines, ("│ ", "faint"), ("│ ", "faint"))
    yield ()


def _cell(cell: dict[str, Any]) -> Cell:
    count = cell.get("execution_count")
    outputs = cell.get("outputs")
    listed: list[Any] = cast("list[Any]", outputs) if isinstance(outputs, list) else []
    return Cell(
        kind=str(cell.get("cell_type") or "unknown"),
        source=_text(cell.get("source")),
        count=count if isinstance(count, int) else None,
        outputs=tuple(part for output in listed for part in _output(_table(output))),
    )


def _output(output: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kind = output.get("output_type")
    if kind == "stream":
        role = "warning" if output.get("name") == "stderr" else "terminal"
        yield role, _bounded(_text(output.get("text")))
    elif kind == "error":
        trace = output.get("traceback")
        lines = cast("list[Any]", trace) if isinstance(trace, list) else []
        told = "\n".join(_text(line) for line in lines)
        yield "bad", _bounded(told or f"{output.get('ename')}: {output.get('evalue')}")
    else:
        yield from _data(_table(output.get("data")))


def _data(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, value in data.items():
        if kind.startswith("image/"):
            yield "faint", f"[{kind}, about {len(_text(value)) * 3 // 4:,} bytes; not shown]"
    if "text/plain" in data:
        yield "terminal", _bounded(_text(data["text/plain"]))
    elif others := [kind for kind in data if not kind.startswith("image/")]:
        yield "faint", f"[{', '.join(others[:5])}; not shown]"


def _bounded(text: str) -> str:
    from .tail_model import without_colours

    text = without_colours(text).rstrip("\n")
    if len(text) <= _MOST_OUTPUT:
        return text
    return f"{text[:_MOST_OUTPUT]}\n… {len(text) - _MOST_OUTPUT:,} more characters"


def _language(whole: dict[str, Any]) -> str:
    about = _table(whole.get("metadata"))
    name = _table(about.get("language_info")).get("name")
    return name if isinstance(name, str) else "python"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_pieces(cast("list[Any]", value)))
    return ""


def _pieces(values: Iterable[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
