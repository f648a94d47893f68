"""The review panel: what an agent changed, to read, accept, reject and comment."""

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from quarterdeck.fleet.review.api import ChangedFile, PlacedComment
from quarterdeck.wire.events import (
    ChangesLanded,
    Checkpointed,
    ReviewCommented,
    ReviewMarked,
    ToolCallEnded,
    TurnEnded,
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.worktree_events import ChangesCounted

from ...rendering.lines import Line
from ...sanitize import sanitize_line
from ...widgets.picker import Picker
from ..components import HeadLine, KeyHints, PolledPanel
from ..panel import Panel, PanelOptions
from .actions import ReviewActionName, ReviewActions
from .document import PatchPlace, RowStyle
from .lines import FILE_MARKS, comment_lines, note_lines
from .model import ReviewModel, conflicting_agents
from .notice import head_line, key_hints, notice_lines
from .pages import PatchPages
from .view import CommentInput, PatchCanvas, ReviewFileList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

__all__ = ["ReviewOptions", "ReviewPanel"]

_WIDE = 70
"""Cells from which on the list of files is beside the changes."""
_SPLIT = 130
"""Cells of the changes from which on old and new stand side by side."""
_SETTLE = 0.5
"""Seconds after something happened before the changes are read again."""
_CHANGING = (
    ChangesCounted, ChangesLanded, Checkpointed, ReviewCommented, ReviewMarked, ToolCallEnded,
    TurnEnded, WorktreeAssigned, WorktreeReleased,
)  # fmt: skip


class ReviewOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a review is about; without an agent: the selected one."""

    agent: str | None = None
    """An agent's name or session."""
    file: str | None = None
    """The file that is shown first, by its path."""
    turn: str | None = None
    """Only what this turn changed."""
    full: bool = False
    """It fills a tab of its own; escape closes it."""


class ReviewPanel(PolledPanel):
    """Files and their changes. The page stays still while the agent works on."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = ReviewOptions
    options: ReviewOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,n,right_square_bracket", "act('next_hunk')", "next hunk"),
        Binding("k,p,left_square_bracket", "act('previous_hunk')", "previous hunk"),
        Binding("N,right_curly_bracket", "file(1)", "next file"),
        Binding("P,left_curly_bracket", "file(-1)", "previous file"),
        Binding("a", "act('accept')", "accept the lines selected, or the hunk, or the file"),
        Binding("x", "act('reject')", "reject them: they become what they were"),
        Binding("A", "act('accept_file')", "accept the whole file"),
        Binding("X", "act('reject_file')", "reject the whole file"),
        Binding("z", "act('undo')", "undo the last accept or reject"),
        Binding("c", "act('comment')", "comment on the line or selection; on a comment: edit it"),
        Binding("s", "act('send')", "send the comments to the agent"),
        Binding("R", "act('resolve')", "resolve the comment, or reopen it"),
        Binding("D", "act('drop')", "delete the comment"),
        Binding("C", "act('list_comments')", "list the comments"),
        Binding("m", "act('mark')", "mark the file as viewed and go to the next"),
        Binding("l", "act('toggle_since')", "show only what changed since you last looked, or all"),
        Binding("u", "split", "unified or side by side"),
        Binding("w", "act('toggle_space')", "show or hide whitespace changes"),
        Binding("o", "act('toggle_all')", "one file or all files"),
        Binding("f", "files", "show or hide the file list"),
        Binding("r", "act('reload')", "refresh"),
        Binding("enter", "act('view_file')", "view the file"),
        Binding("e", "act('edit_file')", "edit the file"),
        Binding("t", "act('open_chat')", "go to the agent's chat"),
        Binding("M", "act('merge')", "merge the agent's work"),
        Binding("escape", "back", "clear the selection; in full screen: close"),
    ]

    def __init__(self, context: Any, options: ReviewOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.model = ReviewModel(fleet=context.fleet, agent="", turn=options.turn)
        self.selected: str | None = None
        """The id of the file that is shown."""
        self.shows_all = False
        self._wanted_file = options.file
        self._split: bool | None = None
        self._shows_files: bool | None = None
        self._is_stale = True
        """The changes must be shown anew, not only their counts."""
        self._is_read = False
        self._is_waiting = False
        self.head: HeadLine = HeadLine()
        self.files = ReviewFileList(self.model, self.conflicts_of)
        self.patch = PatchCanvas(self.conflicts_of)
        self.patch.instead = self._instead
        self.foot = KeyHints()
        self.input = CommentInput()
        self.actions = ReviewActions(self)
        self.pages = PatchPages(
            self.model,
            self.patch,
            style=self._style,
            report=lambda words: self.actions.show(words, is_bad=True),
            reload=self.reload,
        )

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.head
        yield Horizontal(self.files, self.patch, id="sides")
        yield self.foot
        yield self.input

    def on_mount(self) -> None:
        """Listen, and follow which agent is selected."""
        self.context.listeners.append(self._hear)
        self._stops = [
            self.context.watch(self._selected),
            self.context.roster.watch(self._agents_changed),
        ]
        self._find_agent()
        self._arrange()

    def on_unmount(self) -> None:
        """Listen no more."""
        self.context.listeners.remove(self._hear)
        for stop in self._stops:
            stop()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        agent = self.agent
        name = agent.name if agent is not None else self.options.agent
        return f"review {sanitize_line(name, 40)}" if name else "review"

    @property
    def session(self) -> "SessionId | None":
        """See ``Panel``."""
        if self.options.agent is None:
            return None
        return self.context.find_session(self.options.agent)

    @property
    def agent(self) -> "AgentInfo | None":
        """The agent whose work it is."""
        return self.context.roster.find(self.session or self.context.shown)

    @property
    def unsaved(self) -> str | None:
        """See ``Panel``."""
        count = len([text for text in self.actions.texts.values() if text.strip()])
        return f"{count} comment{'s' * (count > 1)} not saved" if count else None

    @property
    def is_split(self) -> bool:
        """Whether old and new stand side by side."""
        if self._split is not None:
            return self._split
        return self.patch.scrollable_content_region.width >= _SPLIT

    def focus_target(self) -> PatchCanvas:
        """See ``PolledPanel``."""
        return self.patch

    def change(self, options: ReviewOptions) -> bool:
        """See ``Panel``."""
        if options != self.options:
            self.options = options
            self.model.turn = options.turn
            self._wanted_file = options.file
            self._find_agent()
            self.reload()
            self.post_message(Panel.Renamed(self))
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {
            "file": self.selected,
            "all": self.shows_all,
            "split": self._split,
            "ignores_space": self.model.ignores_space,
            "since": self.model.since,
            "texts": {key: text for key, text in self.actions.texts.items() if text.strip()},
        }

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        if self._wanted_file is None and isinstance(state.get("file"), str):
            self._wanted_file = state["file"]
        self.shows_all = state.get("all") is True
        self._split = state["split"] if isinstance(state.get("split"), bool) else None
        self.model.ignores_space = state.get("ignores_space") is True
        self.model.since = "viewed" if state.get("since") == "viewed" else None
        texts: Any = state.get("texts")
        if isinstance(texts, dict):
            self.actions.texts = {str(key): str(text) for key, text in texts.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def conflicts_of(self, path: str) -> tuple[str, ...]:
        """Names of the agents whose changes of a file conflict with these."""
        everyone = self.context.roster.everyone
        return conflicting_agents(self.agent, {one.session: one.name for one in everyone}, path)

    # Reading

    def reload(self) -> None:
        """Read the changes and show them anew."""
        self._is_stale = True
        self.look_now()

    async def look(self) -> None:
        """Read what changed; the page itself is made anew only when it was asked for."""
        if not self.model.agent:
            self._find_agent()
        if self.model.agent:
            await self.model.refresh()
        self._is_read = True
        if self._is_stale or not self.patch.document.slots:
            self._is_stale = False
            await self._renew_document()
        else:
            self._show_comments()
        self._arrange()

    def _find_agent(self) -> None:
        found = self.session or (self.context.shown if self.options.agent is None else None)
        wanted = str(found or self.options.agent or "")
        if wanted != self.model.agent:
            self.model.agent = wanted
            self.model.changes, self.model.comments = None, []
            self.selected, self._is_stale, self._is_read = None, True, False

    def _show_document(self, place: PatchPlace | None = None) -> None:
        model = self.model
        place = place or self.patch.place
        if self._wanted_file is not None and model.files:
            found = model.find_path(self._wanted_file)
            self.selected, self._wanted_file = (found.id if found else self.selected), None
        if model.file(self.selected) is None:
            self.selected = model.files[0].id if model.files else None
        files: Sequence[ChangedFile] = model.files
        if not self.shows_all:
            files = [file for file in files if file.id == self.selected]
        if place is None or place.file != self.selected:
            place = PatchPlace(file=self.selected) if self.selected is not None else None
        self.pages.show(files, place)
        self.files.place(self.selected)

    async def _renew_document(self) -> None:
        """The same files as they are now, if they are still there."""
        ids = [file.id for file in self.model.files if self.shows_all or file.id == self.selected]
        if self._wanted_file is None and ids and ids == [f.id for f in self.patch.document.files]:
            await self.pages.exchange([file for file in self.model.files if file.id in ids])
        else:
            self._show_document()

    @on(PatchCanvas.Resized)
    def _show_comments(self) -> None:
        """Comments may be others; the lines stay."""
        style = self._style()
        self.patch.lay_out_again(lambda: self.patch.document.lay_out_again(style))

    def _style(self) -> RowStyle:
        width = self.patch.scrollable_content_region.width
        comments: Sequence[PlacedComment] = self.model.comments
        return RowStyle(
            is_split=self.is_split,
            is_single=not self.shows_all,
            comments=comments,
            draw_comment=lambda placed: comment_lines(placed, width, self.author(placed)),
            draw_notes=note_lines,
        )

    def author(self, placed: PlacedComment) -> str:
        """Who made a comment."""
        author = placed.comment.author
        if author is None:
            return "you"
        agent = self.context.roster.find(author)
        return agent.name if agent is not None else author

    @on(PatchCanvas.PagesWanted)
    def _pages_wanted(self, event: PatchCanvas.PagesWanted) -> None:
        event.stop()
        self.pages.want(event.slots)

    @on(PatchCanvas.PaintWanted)
    def _paint_wanted(self, event: PatchCanvas.PaintWanted) -> None:
        event.stop()
        self.pages.paint()

    def _hear(self, records: "Sequence[Record]") -> None:
        """Read again soon after the agent, or someone else, has done something."""
        mine = self.session or self.context.shown
        if self._is_waiting or not any(
            record.session == mine and isinstance(record.event, _CHANGING) for record in records
        ):
            return
        self._is_waiting = True
        self.set_timer(_SETTLE, self._settled)

    def _settled(self) -> None:
        self._is_waiting = False
        if self.is_seen:
            self.look_now()

    def _selected(self) -> None:
        if self.options.agent is None and self.context.shown != self.model.agent:
            self._find_agent()
            if self.is_seen:
                self.look_now()
            self.post_message(Panel.Renamed(self))

    def _agents_changed(self) -> None:
        if not self.model.agent:
            self._selected()
        self.files.update()
        self._show_head()
        self.patch.refresh()

    # Moving

    def action_file(self, step: int) -> None:
        """Go to the next file, or the one before."""
        files = self.model.files
        ids = [file.id for file in files]
        current = self.patch.place.file if self.shows_all and self.patch.place else self.selected
        at = ids.index(current) + step if current in ids else 0
        if 0 <= at < len(ids):
            self.show_file(ids[at])

    def show_file(self, file: str) -> None:
        """Show a file, by its id."""
        self.select_file(file)
        row = self.patch.document.file_row(file)
        if self.shows_all and row is not None:
            self.patch.move_to(row, top=True)
        else:
            self._show_document()
        self._arrange()

    def go_to_comment(self, placed: PlacedComment) -> None:
        """Show a comment; one that is resolved only with its file."""
        place = PatchPlace(
            file=placed.file, new=placed.line or 0, kind="comment", comment=placed.comment.id
        )
        if self.model.find_comment(placed.comment.id) is None:
            place = PatchPlace(file=placed.file, new=placed.line or 0, kind="line")
        if self.model.file(placed.file) is None:
            self.actions.show(f"{placed.path} is not among the changes", is_bad=True)
        elif self.shows_all or placed.file == self.selected:
            self.pages.go_to(place)
        else:
            self.select_file(placed.file)
            self._show_document(place)
        self.patch.focus()

    def select_file(self, file: str) -> None:
        """Note which file is looked at."""
        self.selected = file
        self.files.place(file)

    @on(Picker.Moved, "#files")
    def _file_moved(self, event: Picker.Moved) -> None:
        event.stop()
        if event.key and event.key != self.selected:
            self.show_file(event.key)

    @on(Picker.Chosen, "#files")
    def _file_chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.patch.focus()

    @on(PatchCanvas.Moved)
    def _cursor_moved(self, event: PatchCanvas.Moved) -> None:
        event.stop()
        self._show_keys()

    # Doing

    def action_act(self, name: ReviewActionName) -> None:
        """Do one of ``ReviewActions``, by its name."""
        getattr(self.actions, name)()

    @on(CommentInput.Changed)
    def _comment_typed(self, event: CommentInput.Changed) -> None:
        event.stop()
        self.actions.keep_comment(self.input.text)

    @on(CommentInput.Given)
    def _comment_given(self, event: CommentInput.Given) -> None:
        event.stop()
        self.input.close()
        self.patch.focus()
        if event.text is not None:
            self.actions.save_comment(event.target, event.text)

    def action_split(self) -> None:
        """Show old and new side by side, or one below the other."""
        self._split = not self.is_split
        self._show_comments()

    def action_files(self) -> None:
        """Show the list of files, or hide it."""
        self._shows_files = not self.files.display
        self._arrange()
        self.patch.focus()

    def action_back(self) -> None:
        """Clear what is selected; close the panel if it fills a tab."""
        if not self.patch.clear() and self.options.full:
            self.post_message(Panel.CommandWanted("close-panel"))

    def on_resize(self) -> None:
        """The list of files needs room, and so do two sides."""
        self._arrange()

    def _arrange(self) -> None:
        if not self.is_mounted:
            return
        has_room = self.size.width >= _WIDE and len(self.model.files) > 1
        shows = has_room if self._shows_files is None else self._shows_files
        self.files.display = shows and bool(self.model.files)
        self.files.update()
        self._show_head()
        self._show_keys()

    def _show_head(self) -> None:
        agent = self.agent
        everyone = self.context.roster.everyone
        path, spans = head_line(self.model, agent, {one.session: one.name for one in everyone})
        shown = {file.id: file.content for file in self.patch.document.files}
        if any(file.content != shown.get(file.id, file.content) for file in self.model.files):
            spans.insert(0, (f"{FILE_MARKS['since']} newer version, r", "warning"))
        self.head.show(path, *spans)

    def _show_keys(self) -> None:
        self.foot.show(key_hints(self.model, self.patch, self.options.full))

    def _instead(self, width: int) -> list[Line]:
        return notice_lines(self.model, self._is_read, width)
