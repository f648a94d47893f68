"""The notebook viewer: cells and their outputs. It runs nothing and writes nothing."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

import msgspec
from textual.binding import Binding, BindingType

from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.terminal_text import count_noun

from ..rendering.code import highlight_code
from ..rendering.glyphs import RULE, WALL
from ..rendering.lines import Line, clip, indented, wrap
from ..rendering.markdown import markdown_lines
from ..sanitize import sanitize_line, sanitize_text
from .components import PagePanel, empty_lines, problem_lines
from .file.model import FilePanelReadError, FileReader
from .panel import Panel, PanelOptions
from .paths import format_path

__all__ = [
    "BIGGEST",
    "Notebook",
    "NotebookCell",
    "NotebookError",
    "NotebookOptions",
    "NotebookPanel",
    "cell_lines",
    "parse_notebook",
]

BIGGEST = 20_000_000
"""Bytes of a notebook that are read."""
_MOST_CELLS = 2_000
_MOST_OUTPUT = 20_000


class NotebookError(QuarterdeckError):
    """A file is no notebook; the message says why."""


class NotebookCell(msgspec.Struct, frozen=True, kw_only=True):
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
    cells: tuple[NotebookCell, ...]
    left_out: int = 0
    """Cells that are not shown."""


def parse_notebook(data: bytes) -> Notebook:
    """Read a notebook; of what it does not understand it keeps the cell's kind.

    Raises:
        NotebookError: it is no JSON, or holds no list of cells.
    """
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotebookError(f"not a notebook: {error}. Open it open as a file instead.") from error
    whole = _table(found)
    cells = whole.get("cells")
    if not isinstance(cells, list):
        raise NotebookError("not a version 4 notebook: it has no cells.")
    listed = cast("list[Any]", cells)
    return Notebook(
        language=_language(whole),
        cells=tuple(_cell(_table(cell)) for cell in listed[:_MOST_CELLS]),
        left_out=max(0, len(listed) - _MOST_CELLS),
    )


def cell_lines(cell: NotebookCell, language: str, width: int) -> Iterator[Line]:
    """The lines of a cell: its head, its source, its outputs."""
    number = " " if cell.count is None else str(cell.count)
    head = f"[{number}] code" if cell.kind == "code" else sanitize_line(cell.kind, 40)
    yield ((f"{RULE * 2} {head} ", "faint"),)
    if cell.kind == "markdown":
        yield from markdown_lines(sanitize_text(cell.source), max(10, width))
    else:
        shown = highlight_code(sanitize_text(cell.source), language if cell.kind == "code" else "")
        for line in shown:
            yield from wrap(line, width)
    for role, text in cell.outputs:
        for line in sanitize_text(text).split("\n"):
            lines = wrap([(line, role)], max(1, width - 2))
            yield from indented(lines, (f"{WALL} ", "faint"), (f"{WALL} ", "faint"))
    yield ()


def _cell(cell: dict[str, Any]) -> NotebookCell:
    count = cell.get("execution_count")
    outputs = cell.get("outputs")
    listed: list[Any] = cast("list[Any]", outputs) if isinstance(outputs, list) else []
    return NotebookCell(
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
        notice = "\n".join(_text(line) for line in lines)
        yield "bad", _bounded(notice or f"{output.get('ename')}: {output.get('evalue')}")
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
    from .tail import strip_colours

    text = strip_colours(text).rstrip("\n")
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


class NotebookOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a notebook viewer can be given."""

    path: str | None = None


class NotebookPanel(PagePanel):
    """Shows a Jupyter notebook."""

    options_type: ClassVar[type[PanelOptions]] = NotebookOptions
    KIND: ClassVar[str] = "notebook"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,right_square_bracket", "cell(1)", "next cell"),
        Binding("p,left_square_bracket", "cell(-1)", "previous cell"),
        Binding("v", "view", "open as a file"),
        Binding("r", "reload", "reload"),
    ]

    def __init__(self, context: Any, options: NotebookOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._notebook: Notebook | None = None
        self._tops: list[int] = []

    @property
    def has_content(self) -> bool:
        """See ``PagePanel``."""
        return self._notebook is not None

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"scroll": self.page.scroll_offset.y if self.is_mounted else 0}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        if isinstance(state.get("scroll"), int):
            self._scroll = state["scroll"]

    async def look(self) -> None:
        """Read the notebook if it is another now."""
        if self.path is None:
            self.update()
            return
        reader = FileReader(self.path)
        try:
            identity = await asyncio.to_thread(reader.look)
            if identity == self._identity:
                return
            if identity[2] > BIGGEST:
                raise NotebookError(f"this notebook is larger than {BIGGEST:,} bytes.")
            self._identity = identity
            self._notebook = await asyncio.to_thread(_read, self.path)
            self._problem = None
        except (FilePanelReadError, NotebookError) as error:
            self._problem = str(error)
        self.update()

    def action_cell(self, step: int) -> None:
        """Go to the next cell, or the one before."""
        top = self.page.scroll_offset.y
        beyond = [at for at in self._tops if (at > top if step > 0 else at < top)]
        if beyond:
            self.page.scroll_to(y=beyond[0] if step > 0 else beyond[-1], animate=False)

    def action_view(self) -> None:
        """Show the file itself."""
        if self.path is not None:
            self.post_message(Panel.FileWanted(self.path))

    def lines(self, width: int) -> list[Line]:
        """See ``PagePanel``."""
        self._tops = []
        if self.path is None:
            hints = [("/open notebook path=PATH", "opens one")]
            return empty_lines("No notebook is open.", hints, width)
        if self._notebook is None:
            return problem_lines(self._problem, width) if self._problem else []
        lines: list[Line] = []
        for cell in self._notebook.cells:
            self._tops.append(len(lines))
            language = self._notebook.language
            lines += [clip(line, width) for line in cell_lines(cell, language, width)]
        if not self._notebook.cells:
            lines += empty_lines("This notebook has no cells.", [("v", "shows the file")], width)
        if self._notebook.left_out:
            lines.append(((f"… {self._notebook.left_out:,} more cells", "faint"),))
        return lines

    def show_head(self) -> None:
        """See ``PagePanel``."""
        path = "notebook" if self.path is None else format_path(self.context.cwd, self.path)
        found = self._notebook
        cells = count_noun(len(found.cells), "cell") if found is not None else ""
        self.head.show_problem(self._problem if found is not None else None)
        self.head.show(path, (cells, "faint"))


def _read(path: str) -> Notebook:
    try:
        return parse_notebook(read_regular_file(path, BIGGEST + 1))
    except (OSError, ValueError) as error:
        raise FilePanelReadError(path, str(error)) from error
