"""The notebook viewer: cells and their outputs; nothing is run and nothing is written."""

import asyncio
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from quarterdeck.system.plain_file import read_plain_file

from ..rendering.lines import Line, clip
from .file_model import FileReader, Unreadable
from .notebook_model import BIGGEST, BrokenNotebook, Notebook, cell_lines, parse_notebook
from .page_panel import PagePanel
from .panel import Panel, PanelOptions
from .parts import problem_lines
from .paths import spelled

__all__ = ["NotebookOptions", "NotebookPanel"]


class NotebookOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a notebook viewer can be told."""

    path: str | None = None


class NotebookPanel(PagePanel):
    """Shows a Jupyter notebook."""

    options_type: ClassVar[type[PanelOptions]] = NotebookOptions
    KIND: ClassVar[str] = "notebook"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,right_square_bracket", "cell(1)", "next cell"),
        Binding("p,left_square_bracket", "cell(-1)", "cell before"),
        Binding("v", "view", "as a file"),
        Binding("r", "reload", "read again"),
    ]

    def __init__(self, desk: Any, options: NotebookOptions, *, id: str | None = None) -> None:
        super().__init__(desk, options, id=id)
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
                raise BrokenNotebook(f"this notebook has more than {BIGGEST:,} bytes.")
            self._identity = identity
            self._notebook = await asyncio.to_thread(_read, self.path)
            self._problem = None
        except (Unreadable, BrokenNotebook) as error:
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
            return [(("no notebook", "faint"),)]
        if self._notebook is None:
            told = [(("reading …", "faint"),)]
            return problem_lines(self._problem, width) if self._problem else told
        lines: list[Line] = problem_lines(self._problem, width) if self._problem else []
        for cell in self._notebook.cells:
            self._tops.append(len(lines))
            language = self._notebook.language
            lines += [clip(line, width) for line in cell_lines(cell, language, width)]
        if not self._notebook.cells:
            lines.append((("this notebook has no cells", "faint"),))
        if self._notebook.left_out:
            lines.append(((f"… {self._notebook.left_out:,} more cells", "faint"),))
        return lines

    def tell_head(self) -> None:
        """See ``PagePanel``."""
        path = "no notebook" if self.path is None else spelled(self.desk.cwd, self.path)
        cells = f"  {len(self._notebook.cells)} cells" if self._notebook is not None else ""
        self.head.show(path, (cells, "faint"))


def _read(path: str) -> Notebook:
    try:
        return parse_notebook(read_plain_file(path, BIGGEST + 1))
    except (OSError, ValueError) as error:
        raise Unreadable(path, str(error)) from error
