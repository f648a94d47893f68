"""The file tree: directories read when they are opened, with git's letters."""

import asyncio
import os
from typing import Any, ClassVar, Literal, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.system.errors import GitError, NotARepositoryError
from quarterdeck.system.git.repository import ask_git

from ..rendering.glyphs import CUT, FOLDED, UNFOLDED
from ..rendering.lines import Line
from ..sanitize import sanitize_text
from ..widgets.picker import Picker
from .components import AskBar, HeadLine, PolledPanel
from .panel import Panel, PanelOptions
from .paths import format_path, make_absolute, safe_path
from .tree_model import FileTree, FoundPaths, TreeRow, find_paths, read_directory, read_status_marks

__all__ = ["TreeOptions", "TreePanel"]

_MARK_ROLES = {"M": "warning", "A": "good", "D": "bad", "U": "bad", "?": "good", "R": "warning"}


class TreeOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file tree can be given."""

    root: str | None = None
    """A directory; None: where the person is."""


class _Rows(Picker):
    """The lines of the tree, or what fits the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "step(-20)", "a page up", show=False),
        Binding("pagedown", "step(20)", "a page down", show=False),
    ]

    def __init__(self, panel: "TreePanel") -> None:
        super().__init__(id="rows")
        self._panel = panel

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return self._panel.shown_rows()


class TreePanel(PolledPanel):
    """Files below a directory; enter opens."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = TreeOptions
    EVERY: ClassVar[float | None] = 10.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter by name"),
        Binding("escape", "clear", "clear the filter", show=False),
        Binding("right,l", "unfold(True)", "open", show=False),
        Binding("left,h", "unfold(False)", "close", show=False),
        Binding("e", "hand_on('edit')", "edit"),
        Binding("d", "hand_on('diff')", "show changes"),
        Binding("t", "hand_on('tail')", "follow the end"),
        Binding("r", "reload", "reload"),
    ]

    def __init__(self, context: Any, options: TreeOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.tree_model = FileTree(make_absolute(context.cwd, options.root or "."))
        self.words = ""
        self._rows: dict[str, TreeRow] = {}
        self._found: FoundPaths | None = None
        self._git = ""
        self._is_due = False
        self._unwatch = lambda: None
        self.head: HeadLine = HeadLine()
        self.picker: Picker = _Rows(self)
        self.bar = AskBar()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.picker, self.bar)

    def on_mount(self) -> None:
        """Follow the agents: what they do changes files."""
        self._unwatch = self.context.roster.watch(self._agents_changed)
        self._head()

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return sanitize_text(os.path.basename(self.tree_model.root) or "/").replace("\n", "\\n")  # noqa: PTH119

    def focus_target(self) -> Picker:
        """See ``PolledPanel``."""
        return self.picker

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        return options == self.options

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        opened = [path for path in sorted(self.tree_model.opened)[:200] if safe_path(path)]
        cursor = safe_path(self.picker.cursor) if self.is_mounted else None
        return {"opened": opened, "cursor": cursor, "filter": self.words}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        opened, cursor, words = state.get("opened"), state.get("cursor"), state.get("filter")
        root = self.tree_model.root
        if isinstance(opened, list):
            for path in cast("list[Any]", opened)[:200]:
                if isinstance(path, str) and path.startswith(root.rstrip("/") + "/"):
                    self.tree_model.opened.add(path)
        if isinstance(words, str):
            self.words = words
        if isinstance(cursor, str):
            self.picker.cursor = cursor

    async def look(self) -> None:
        """Read what is open, then ask git."""
        tree = self.tree_model
        for path in [*tree.wanted(), *tree.known()]:
            tree.take(path, *await asyncio.to_thread(read_directory, path))
        self._update()
        if self.words and self._found is None:
            await self._find()
        try:
            tree.take_marks(await asyncio.to_thread(read_status_marks, tree.root))
            self._git = f"{len(tree.marks)} changed" if tree.marks else "no changes"
        except GitError as error:
            tree.take_marks({})
            self._git = "no git" if isinstance(error, NotARepositoryError) else "git failed"
        self._update()

    def shown_rows(self) -> list[tuple[str, Line]]:
        """A key and a line for each row."""
        rows = self._filtered() if self.words else self.tree_model.rows()
        self._rows = {row.key: row for row in rows}
        return [(row.key, _line(row)) for row in rows]

    # What keys do

    @on(Picker.Chosen)
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        row = self._rows.get(event.key)
        if row is None or row.kind == "note":
            return
        if row.kind == "more":
            self.tree_model.more(row.path)
            self._update()
        elif row.kind == "directory":
            self.tree_model.toggle(row.path)
            self._after_toggle()
        else:
            self.post_message(Panel.FileWanted(row.path))

    def action_unfold(self, is_open: bool) -> None:
        """Open the directory of the cursor, or close it or the one around."""
        row = self._rows.get(self.picker.cursor or "")
        if row is None or self.words:
            return
        tree = self.tree_model
        if row.kind == "directory" and row.is_open != is_open:
            tree.toggle(row.path)
        elif not is_open:
            above = os.path.dirname(row.path)  # noqa: PTH120
            if above != tree.root and above in tree.opened:
                tree.toggle(above)
                self.picker.place(above)
        self._after_toggle()

    def action_hand_on(self, how: Literal["edit", "diff", "tail"]) -> None:
        """Show the file of the cursor in some way; changes: also of a directory."""
        row = self._rows.get(self.picker.cursor or "")
        if row is not None and (row.kind == "file" or (how == "diff" and row.kind == "directory")):
            self.post_message(Panel.FileWanted(row.path, None, how))

    def action_reload(self) -> None:
        """Read everything again that is shown."""
        self._found = None
        self.look_now()

    def action_filter(self) -> None:
        """Type a part of a name."""
        self.bar.ask("filter", "part of a name", self.words, back=self.picker)

    def action_clear(self) -> None:
        """Show the tree again."""
        self._filter("")

    @on(AskBar.Typed)
    def _typed(self, event: AskBar.Typed) -> None:
        event.stop()
        self._filter(event.text)

    @on(AskBar.Given)
    def _given(self, event: AskBar.Given) -> None:
        event.stop()
        self._filter(event.text or "")

    # How it is done

    def _filter(self, words: str) -> None:
        self.words = words
        if words and self._found is None:
            self.run_worker(self._find, group="find", exclusive=True)
        self._update()
        if words:
            self.picker.place(next(iter(self._rows), None))

    async def _find(self) -> None:
        root = self.tree_model.root
        self._found = await asyncio.to_thread(find_paths, root, lambda: _listed(root))
        self._update()
        if self.words and self.picker.cursor not in self._rows:
            self.picker.place(next(iter(self._rows), None))

    def _filtered(self) -> list[TreeRow]:
        root = self.tree_model.root
        if self._found is None:
            return [TreeRow(key="…", depth=0, name=f"loading {CUT}", kind="note")]
        paths, more = self._found.matching(self.words)
        marks = self.tree_model.marks
        rows = [
            TreeRow(
                key=f"{root}/{path}",
                path=f"{root}/{path}",
                depth=0,
                name=sanitize_text(path).replace("\n", "\\n"),
                kind="file",
                mark=marks.get(f"{root}/{path}", " "),
            )
            for path in paths
        ]
        if more or self._found.is_cut:
            note = f"… {more:,} more" if more else "… too many files; only the first were searched"
            rows.append(TreeRow(key="…", depth=0, name=note, kind="note"))
        return rows or [TreeRow(key="…", depth=0, name="no matches; esc clears", kind="note")]

    def _after_toggle(self) -> None:
        self._update()
        if self.tree_model.wanted():
            self.look_now()

    def _agents_changed(self) -> None:
        """Look again soon, but not more often than every two seconds."""
        if self.is_seen and not self._is_due:
            self._is_due = True
            self.set_timer(2.0, self._look_due)

    def _look_due(self) -> None:
        self._is_due = False
        if self.is_seen:
            self.look_now()

    def _update(self) -> None:
        if self.is_mounted:
            self.picker.update()
            if self.picker.cursor is None:
                self.picker.place(next(iter(self._rows), None))
            self._head()

    def _head(self) -> None:
        root = format_path("/nowhere", self.tree_model.root)
        words = f"filter: {sanitize_text(self.words)}" if self.words else ""
        self.head.show(root, (words, "text"), (self._git, "faint"))


def _listed(root: str) -> list[str] | None:
    """What git knows or would take; None where it cannot tell."""
    words = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "-z"]
    try:
        answer = ask_git(root, words)
    except GitError:
        return None
    return [os.fsdecode(name) for name in answer.data.split(b"\0")[:-1]]


def _line(row: TreeRow) -> Line:
    mark = (f"{row.mark} ", _MARK_ROLES.get(row.mark, "faint"))
    indent = ("  " * row.depth, "text")
    match row.kind:
        case "directory":
            return (
                mark,
                indent,
                (f"{UNFOLDED if row.is_open else FOLDED} ", "faint"),
                (row.name + "/", "strong"),
            )
        case "file":
            return mark, indent, ("  ", "text"), (row.name, "text")
        case _:
            return mark, indent, ("  ", "text"), (row.name, "faint")
