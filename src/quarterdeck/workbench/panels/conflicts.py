"""Conflicts between agents: a matrix of who changes what another changes, and an order to land."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from quarterdeck.fleet.radar.api import ConflictReport, RadarAgent, RepositoryConflicts
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import ChangesLanded, ConflictChanged, WorktreeAssigned
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.terminal_text import count_columns, cut_to_width
from quarterdeck.wire.worktree_events import ChangesCounted, WorktreeReleased
from quarterdeck.wire.worktrees import ConflictFile, ConflictKind

from ..rendering import glyphs
from ..rendering.lines import Line, Span, clip, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LineCanvas
from .components import HeadLine, KeyHints, PolledPanel, empty_lines, problem_lines
from .panel import Panel, PanelOptions

if TYPE_CHECKING:
    from quarterdeck.wire.record import Record

__all__ = [
    "ConflictCell",
    "ConflictMatrix",
    "ConflictsOptions",
    "ConflictsPanel",
    "describe_kind",
    "find_cells",
]

_SETTLE = 0.7
"""Seconds after something happened before conflicts are asked for again."""
_CHANGING = (ConflictChanged, ChangesCounted, ChangesLanded, WorktreeAssigned, WorktreeReleased)
_NAME = 14
_CELL, _NARROW = 12, 6
"""Cells of a column, and where there is little room."""
_RANKS: dict[ConflictKind, int] = {"text": 0, "symbol": 1, "file": 2}
_ROLES: dict[ConflictKind, str] = {"text": "bad", "symbol": "warning", "file": "faint"}
_SIGNS: dict[ConflictKind, str] = {
    "text": glyphs.CONFLICT,
    "symbol": glyphs.WARNING,
    "file": "=",
}
_WORDS: dict[ConflictKind, str] = {
    "text": "cannot be merged",
    "symbol": "same function or class",
    "file": "same file",
}


_COUNTS = 12
"""Cells for the lines that an agent changed."""
_KEYS = [(glyphs.ARROWS, "choose"), ("enter", "files, review"), ("L", "land in this order")]
_MORE_KEYS = [("r", "refresh"), ("a", "all repositories")]


def describe_kind(kind: ConflictKind) -> str:
    """What a conflict is, in words."""
    return _WORDS[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictCell:
    """What an agent and another one, or its base, both change."""

    one: SessionId
    one_name: str
    other: SessionId | None
    """None: the branch that the agent started from."""
    other_name: str
    files: tuple[ConflictFile, ...]
    is_shared: bool = False
    """Both work in the same directory."""

    @property
    def kind(self) -> ConflictKind:
        """The worst of its files."""
        kinds: list[ConflictKind] = [file.kind for file in self.files]
        return min(kinds, key=lambda kind: _RANKS[kind]) if kinds else "file"


def find_cells(repository: RepositoryConflicts) -> dict[tuple[str, str], ConflictCell]:
    """The cells of a repository by row and column; the base's has no name for a column.

    Each pair has two cells, one for each of its agents.
    """
    found: dict[tuple[str, str], ConflictCell] = {}
    for pair in repository.pairs:
        sides = ((pair.one, pair.one_name), (pair.other, pair.other_name))
        for (one, name), (other, other_name) in (sides, sides[::-1]):
            found[one, other] = ConflictCell(
                one=one, one_name=name, other=other, other_name=other_name,
                files=pair.files, is_shared=pair.is_shared,
            )  # fmt: skip
    for base in repository.against_base:
        found[base.session, ""] = ConflictCell(
            one=base.session, one_name=base.name, other=None, other_name=base.base,
            files=base.files,
        )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the page, and what can be done there."""

    line: Line
    repository: int = -1
    agent: str = ""
    """The agent of a row of the matrix."""
    columns: tuple[str, ...] = ()
    """The agents of its cells; the first may be the base's empty name."""
    file: tuple[SessionId, str] | None = None
    """A file, and the agent whose review shows it."""


class ConflictMatrix(LineCanvas, can_focus=True):
    """The matrix, the files of the cell under the cursor, and the order to land in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "up"),
        Binding("down,j", "step(1)", "down"),
        Binding("left,h", "column(-1)", "left"),
        Binding("right,l", "column(1)", "right"),
        Binding("enter", "choose", "go to the files of the cell; on a file: review it"),
        Binding("escape", "back", "back to the matrix", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """A review is wanted: of an agent, and of a file of it."""

        session: SessionId
        file: str | None

    class Left(Message):
        """Escape was pressed where there is nothing to go back to."""

    def __init__(self) -> None:
        super().__init__(id="matrix")
        self.report = ConflictReport()
        self.instead: Callable[[int], list[Line]] = lambda _: []
        """What is said, for a width, where there are no agents to compare."""
        self.cursor = 0
        self.column = 0
        self._cell, self._first = _CELL, 0
        """How wide a column is, and the first that is shown."""
        self._is_placed = False
        """The cursor is where somebody wants it."""
        self._rows: list[_Row] = []
        self._last: tuple[int, ConflictCell] | None = None
        """The repository and the cell whose files are listed."""

    def show(self, report: ConflictReport) -> None:
        """Show another report; the cursor stays on its agent."""
        self.report = report
        self.update()
        if not self._is_placed and self._place_on_worst():
            self._moved()

    def _place_on_worst(self) -> bool:
        """Begin where there is something to see: at the worst conflict."""
        for number, repository in enumerate(self.report.repositories):
            cells = find_cells(repository)
            columns = _columns(repository, cells)
            if not cells:
                continue
            (row, column), _ = min(cells.items(), key=lambda item: _RANKS[item[1].kind])
            at = [
                y
                for y, one in enumerate(self._rows)
                if (one.repository, one.agent) == (number, row)
            ]
            if at:
                self.cursor, self.column = at[0], columns.index(column)
                self._is_placed = True
                return True
        return False

    def update(self) -> None:
        """Work the lines out anew."""
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        at = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        self._rows = self._lay_out(width)
        if at is not None and at.agent:
            same = [n for n, row in enumerate(self._rows) if row.agent == at.agent]
            self.cursor = same[0] if same else self.cursor
        self._settle()
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if y >= len(self._rows):
            return (), False
        row = self._rows[y]
        return row.line, y == self.cursor and self.has_focus and row.file is not None

    @property
    def cell(self) -> ConflictCell | None:
        """The cell under the cursor."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if row is None or not row.agent or not row.columns:
            return None
        repository = self.report.repositories[row.repository]
        column = row.columns[min(self.column, len(row.columns) - 1)]
        return find_cells(repository).get((row.agent, column))

    @property
    def landing_order(self) -> list[SessionId]:
        """The agents of the repository at the cursor, in the order that is proposed."""
        if not self.report.repositories:
            return []
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        number = row.repository if row is not None and row.repository >= 0 else 0
        if row is not None and row.file is not None and self._last is not None:
            number = self._last[0]
        return [one.session for one in self.report.repositories[number].landing_order]

    def action_step(self, step: int) -> None:
        """Go to the next agent, or within the files of a cell to the next of them."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        is_file = row is not None and row.file is not None
        places = [y for y in self._places() if (self._rows[y].file is not None) is is_file]
        if not places:
            return
        at = places.index(self.cursor) + step if self.cursor in places else 0
        if is_file and at < 0:
            self.action_back()
            return
        self.cursor = places[max(0, min(len(places) - 1, at))]
        self._moved()

    def action_back(self) -> None:
        """Go from the files to the cell that they are of; from there, leave."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if row is None or row.file is None:
            self.post_message(self.Left())
        elif self._last is not None:
            number, cell = self._last
            for y, row in enumerate(self._rows):
                if row.repository == number and row.agent == cell.one:
                    self.cursor = y
            self._moved()

    def action_column(self, step: int) -> None:
        """Go to the next agent of the row."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if row is not None and row.columns:
            self.column = max(0, min(len(row.columns) - 1, self.column + step))
            self._moved()

    def action_choose(self) -> None:
        """Go to the files of the cell, or open the review of a file, or of the row's agent."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if row is None:
            return
        if row.file is not None:
            self.post_message(self.Chosen(*row.file))
        elif self.cell is not None:
            files = [y for y, one in enumerate(self._rows) if one.file is not None]
            self.cursor = files[0] if files else self.cursor
            self._moved()
        elif row.agent:
            self.post_message(self.Chosen(SessionId(row.agent), None))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where it was clicked; again chooses."""
        y = self.scroll_offset.y + event.y
        if y not in self._places():
            return
        row = self._rows[y]
        column = self._first + (event.x - _NAME - 2) // self._cell
        is_again = y == self.cursor and (not row.columns or column == self.column)
        self.cursor = y
        if row.columns and 0 <= column < len(row.columns):
            self.column = column
        self._moved()
        if is_again:
            self.action_choose()

    def on_resize(self) -> None:
        """Fit anew; before the first size there was no place for the cursor."""
        self.show(self.report)

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Show the cursor, or hide it. Textual calls ``on_focus`` before it notes the focus."""
        super().watch_has_focus(_has_focus)
        self.update()

    def _moved(self) -> None:
        self._is_placed = True
        self.update()
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if not top <= self.cursor < top + height:
            self.scroll_to(y=max(0, self.cursor - height // 2), animate=False)

    def _places(self) -> list[int]:
        return [y for y, row in enumerate(self._rows) if row.agent or row.file is not None]

    def _settle(self) -> None:
        places = self._places()
        if places and self.cursor not in places:
            self.cursor = min(places, key=lambda y: abs(y - self.cursor))

    def _lay_out(self, width: int) -> list[_Row]:
        rows: list[_Row] = []
        for problem in self.report.problems:
            lines = wrap([(f"{glyphs.CONFLICT} {sanitize_text(problem)}", "warning")], width)
            rows += [_Row(line) for line in lines]
        for number, repository in enumerate(self.report.repositories):
            if rows:
                rows.append(_Row(()))
            rows += self._matrix(number, repository, width)
            rows += self._details(number, width)
            rows += _order(repository, width)
        if not self.report.repositories:
            rows += [_Row(line) for line in self.instead(width)]
        return rows

    def _matrix(self, number: int, repository: RepositoryConflicts, width: int) -> list[_Row]:
        agents, cells = repository.agents, find_cells(repository)
        columns = _columns(repository, cells)
        names = {"": "base", **{agent.session: agent.name for agent in agents}}
        space = max(_NARROW, width - _NAME - 2 - _COUNTS)
        self._cell = max(_NARROW, min(_CELL, space // max(1, len(columns))))
        room = max(1, space // self._cell)
        # Where not all columns fit, those around the selected one are shown.
        self._first = first = max(0, min(self.column - room + 1, len(columns) - room))
        shown = columns[first : first + room]
        title = sanitize_line(repository.repository, 200)
        rows = [_Row(clip(((title, "heading"),), width))]
        head: list[Span] = [(" " * (_NAME + 2), "text")]
        head += [(self._fit(" " + sanitize_line(names[name], 30)), "faint") for name in shown]
        if len(columns) > len(shown):
            head.append((f" +{len(columns) - len(shown)}", "faint"))
        rows.append(_Row(clip(tuple(head), width)))
        for agent in agents:
            line = self._agent_line(agent, shown, cells, self._is_here(number, agent))
            rows.append(_Row(clip(line, width), number, agent.session, tuple(columns)))
        return rows

    def _fit(self, text: str) -> str:
        shown = cut_to_width(text, self._cell - 1)
        return shown + " " * (self._cell - count_columns(shown))

    def _is_here(self, number: int, agent: RadarAgent) -> bool:
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        return (
            self.has_focus and row is not None and row.repository == number
            and row.agent == agent.session
        )  # fmt: skip

    def _agent_line(
        self,
        agent: RadarAgent,
        shown: Sequence[str],
        cells: dict[tuple[str, str], ConflictCell],
        is_here: bool,
    ) -> Line:
        name = cut_to_width(sanitize_line(agent.name, _NAME * 2), _NAME - 1)
        name += " " * (_NAME - count_columns(name))
        spans: list[Span] = [(f"{glyphs.CURSOR} " if is_here else "  ", "key"), (name, "strong")]
        row = self._rows[self.cursor] if is_here else None
        chosen = (
            row.columns[min(self.column, len(row.columns) - 1)] if row and row.columns else None
        )
        for column in shown:
            text, role = _cell_text(agent.session, column, cells)
            is_chosen = is_here and column == chosen
            spans.append((self._fit(f"[{text}]" if is_chosen else f" {text}"), role))
        if agent.is_landed:
            spans.append((" landed", "good"))
        elif agent.changes is not None:
            spans.append(
                (f" +{agent.changes.added} {glyphs.MINUS}{agent.changes.removed}", "faint")
            )
        return tuple(spans)

    def _details(self, number: int, width: int) -> list[_Row]:
        cell = self.cell
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if cell is None or row is None or row.repository != number:
            return self._files_again(number, width)
        self._last = (number, cell)
        return _file_rows(cell, width)

    def _files_again(self, number: int, width: int) -> list[_Row]:
        """While the cursor is in the list of files, that list stays."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if self._last is None or self._last[0] != number or row is None or row.file is None:
            return []
        return _file_rows(self._last[1], width)


def _columns(
    repository: RepositoryConflicts, cells: dict[tuple[str, str], ConflictCell]
) -> list[str]:
    """The base first, if somebody conflicts with it, then the agents."""
    has_base = any(column == "" for _, column in cells)
    return ([""] if has_base else []) + [agent.session for agent in repository.agents]


def _cell_text(one: str, other: str, cells: dict[tuple[str, str], ConflictCell]) -> tuple[str, str]:
    if one == other:
        return glyphs.UNKNOWN, "faint"
    cell = cells.get((one, other))
    if cell is None:
        return glyphs.BETWEEN, "faint"
    return f"{_SIGNS[cell.kind]} {len(cell.files)}", _ROLES[cell.kind]


def _file_rows(cell: ConflictCell, width: int) -> list[_Row]:
    pair = f"{sanitize_line(cell.one_name, 40)} × {sanitize_line(cell.other_name, 40)}"
    more = "  one directory: each has the other's changes" if cell.is_shared else ""
    rows = [_Row(()), _Row(clip(((pair, "strong"), (more, "faint")), width))]
    for file in cell.files:
        symbols = ", ".join(sanitize_line(symbol, 60) for symbol in file.symbols)
        path = sanitize_text(file.path).replace("\n", "\\n")
        line: Line = (
            ("  ", "text"),
            (path, "text"),
            (f"  {describe_kind(file.kind)}", _ROLES[file.kind]),
            (f"  {symbols}" if symbols else "", "code-name"),
        )
        rows.append(_Row(clip(line, width), file=(cell.one, file.path)))
    return rows


def _order(repository: RepositoryConflicts, width: int) -> list[_Row]:
    order = repository.landing_order
    if not order:
        return []
    rows = [_Row(()), _Row((("Proposed landing order, fewest conflicts first", "strong"),))]
    names = [sanitize_line(proposal.name, 40) for proposal in order]
    size = max(map(count_columns, names), default=0)
    for at, (name, proposal) in enumerate(zip(names, order, strict=True), 1):
        facts = [f"{proposal.conflicts} conflict{'s' * (proposal.conflicts != 1)}"]
        if proposal.shared:
            facts.append(f"{proposal.shared} shared file{'s' * (proposal.shared != 1)}")
        role = "bad" if proposal.conflicts else "good"
        line: Line = (
            (f"  {at}. ", "faint"),
            (f"{name}{' ' * (size - count_columns(name))}  ", "text"),
            (", ".join(facts), role),
        )
        rows.append(_Row(clip(line, width)))
    return rows


class ConflictsOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conflicts are shown."""

    everywhere: bool = False
    """Of all repositories, not only of the current directory's."""
    full: bool = False
    """It fills a tab of its own; escape closes it."""


class ConflictsPanel(PolledPanel):
    """Who changes what another changes, as it is now."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = ConflictsOptions
    options: ConflictsOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "reload", "refresh"),
        Binding("a", "everywhere", "all repositories, or only this one"),
        Binding("L", "land", "land the agents in the proposed order"),
    ]

    def __init__(self, context: Any, options: ConflictsOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._everywhere = options.everywhere
        self._is_waiting = False
        self.head: HeadLine = HeadLine()
        self.matrix = ConflictMatrix()
        self.foot = KeyHints()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.matrix, self.foot)

    def on_mount(self) -> None:
        """Listen."""
        self.context.listeners.append(self._hear)
        self.head.show("conflicts")
        back = [("esc", "back")] if self.options.full else []
        self.foot.show([*_KEYS, *back, *_MORE_KEYS])

    def on_unmount(self) -> None:
        """Listen no more."""
        self.context.listeners.remove(self._hear)

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return "conflicts"

    def focus_target(self) -> ConflictMatrix:
        """See ``PolledPanel``."""
        return self.matrix

    async def look(self) -> None:
        """Ask for the conflicts of now."""
        cwd = None if self._everywhere else self.context.cwd
        try:
            report = await self.context.fleet.conflicts(cwd)
        except QuarterdeckError as error:
            self._fail(str(error))
            return
        hints = [] if self._everywhere else [("a", "shows all repositories")]
        words = "Conflicts appear here when two agents work on one repository."
        self.matrix.instead = lambda width: empty_lines(words, hints, width)
        self.head.show_problem(None)
        self.matrix.show(report)
        self._show_head(report)

    def _fail(self, reason: str) -> None:
        """Say why it cannot be known; what was known stays."""
        if self.matrix.report.repositories:
            self.head.show_problem(reason)
        else:
            self.matrix.instead = lambda width: problem_lines(reason, width)
            self.matrix.show(ConflictReport())
            self.head.show("conflicts")

    def action_reload(self) -> None:
        """Ask again."""
        self.look_now()

    def action_everywhere(self) -> None:
        """Show all repositories, or only the one here."""
        self._everywhere = not self._everywhere
        self.look_now()

    def action_land(self) -> None:
        """Land the agents of the repository at the cursor, in the order that is proposed."""
        names = self.matrix.landing_order
        if names:
            self.post_message(Panel.CommandWanted("land", " ".join(names)))
        else:
            self.notify("there is nothing to land", severity="warning", markup=False)

    def on_conflict_matrix_chosen(self, event: ConflictMatrix.Chosen) -> None:
        """Open the review of a file."""
        event.stop()
        words = f"{event.session} {event.file or ''}".rstrip()
        self.post_message(Panel.CommandWanted("review", words))

    def on_conflict_matrix_left(self, event: ConflictMatrix.Left) -> None:
        """Close the panel if it fills a tab."""
        event.stop()
        if self.options.full:
            self.post_message(Panel.CommandWanted("close-panel"))

    def _show_head(self, report: ConflictReport) -> None:
        kinds = [
            file.kind
            for repository in report.repositories
            for pair in (*repository.pairs, *repository.against_base)
            for file in pair.files
        ]
        agents = sum(len(repository.agents) for repository in report.repositories)
        words = {"text": "cannot be merged", "symbol": "same symbol", "file": "same file"}
        spans: list[Span] = []
        for kind, role in _ROLES.items():
            if count := kinds.count(kind):
                spans.append((f"{_SIGNS[kind]} {count} {words[kind]}", role))
        if agents and not kinds:
            spans.append((f"{glyphs.DONE} no conflicts", "good"))
        spans.append((f"{agents} agent{'s' * (agents != 1)}", "faint"))
        self.head.show("conflicts everywhere" if self._everywhere else "conflicts", *spans)

    def _hear(self, records: "Sequence[Record]") -> None:
        is_due = any(isinstance(record.event, _CHANGING) for record in records)
        if is_due and not self._is_waiting:
            self._is_waiting = True
            self.set_timer(_SETTLE, self._settled)

    def _settled(self) -> None:
        self._is_waiting = False
        if self.is_seen:
            self.look_now()
