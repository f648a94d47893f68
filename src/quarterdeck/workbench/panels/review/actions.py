"""What a reviewer does: decisions, comments, marks. Each is a call of the fleet."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from textual.geometry import Offset

from quarterdeck.fleet.review.api import PlacedComment, ReviewSelection
from quarterdeck.wire.errors import QuarterdeckError

from ...sanitize import sanitize_text
from ..panel import Panel
from .model import CommentTarget, ReviewModel, describe_outcome
from .pages import PatchPages
from .view import CommentInput, PatchCanvas, ReviewFileList

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.review.api import ChangedFile

__all__ = ["ReviewActionName", "ReviewActions", "ReviewSurface"]

ReviewActionName: TypeAlias = Literal[
    "accept", "accept_file", "reject", "reject_file", "undo", "mark", "comment", "list_comments",
    "send", "resolve", "drop", "toggle_since", "toggle_space", "toggle_all", "reload", "view_file",
    "edit_file", "open_chat", "merge", "next_hunk", "previous_hunk",
]  # fmt: skip
"""What keys and commands can do; each is a method of ``ReviewActions``."""


class ReviewSurface(Protocol):
    """The panel, as actions need it."""

    model: ReviewModel
    patch: PatchCanvas
    files: ReviewFileList
    input: CommentInput
    pages: PatchPages
    selected: str | None
    shows_all: bool

    @property
    def agent(self) -> "AgentInfo | None":
        """The agent whose work it is."""
        ...

    def reload(self) -> None:
        """Read the changes and show them anew."""
        ...

    def show_file(self, file: str) -> None:
        """Show a file, by its id."""
        ...

    def action_file(self, step: int) -> None:
        """Go to the next file, or the one before."""
        ...

    def select_file(self, file: str) -> None:
        """Note which file is looked at."""
        ...

    def go_to_comment(self, placed: PlacedComment) -> None:
        """Show a comment."""
        ...

    def author(self, placed: PlacedComment) -> str:
        """Who made a comment."""
        ...


class ReviewActions:
    """Carries out what is done in a panel, and tells what came of it."""

    def __init__(self, panel: ReviewSurface) -> None:
        self._panel = panel
        self.texts: dict[str, str] = {}
        """Comments that were typed and not saved, by their target."""

    @property
    def _widget(self) -> PatchCanvas:
        """Runs workers, and posts messages as the panel does."""
        return self._panel.patch

    def run(self, action: Callable[[], Awaitable[str]]) -> None:
        """Do something; its words, or its error, are shown, and the changes read again."""
        self._widget.run_worker(partial(self._run, action), group="act")

    async def _run(self, action: Callable[[], Awaitable[str]]) -> None:
        try:
            words = await action()
        except QuarterdeckError as error:
            self.show(str(error), is_bad=True)
        else:
            if words:
                self.show(words)
        self._panel.reload()

    def show(self, words: str, *, is_bad: bool = False) -> None:
        """Show a line for some time."""
        severity = "error" if is_bad else "information"
        timeout = 8 if is_bad else 3
        self._widget.notify(sanitize_text(words), severity=severity, timeout=timeout, markup=False)

    # Moving

    def next_hunk(self) -> None:
        """Go to the next hunk; after the last one to the next file."""
        self._move(1)

    def previous_hunk(self) -> None:
        """Go to the hunk before; from the first one to the file before."""
        self._move(-1)

    def _move(self, step: int) -> None:
        found = self._panel.patch.find_hunk(step)
        if found is not None:
            self._go_to_hunk(found)
        else:
            self._widget.run_worker(partial(self._seek_hunk, step), group="seek", exclusive=True)

    async def _seek_hunk(self, step: int) -> None:
        """The same where pages have to be read on the way."""
        row = await self._panel.pages.find_hunk(step)
        if row is not None:
            self._go_to_hunk(row)
        elif not self._panel.shows_all:
            self._panel.action_file(step)

    def _go_to_hunk(self, row: int | None) -> None:
        if row is None:
            return
        patch = self._panel.patch
        patch.move_to(row)
        patch.reveal_below(min(8, patch.size.height - 2))
        found = patch.document.row(row)
        if found is not None and self._panel.shows_all:
            self._panel.select_file(found[0].file.id)

    # Decisions

    def accept(self) -> None:
        """Accept the lines that are selected, the hunk at the cursor, or its file."""
        self._decide("accept", whole=self._panel.files.has_focus)

    def accept_file(self) -> None:
        """Accept the file at the cursor."""
        self._decide("accept", whole=True)

    def reject(self) -> None:
        """Reject the lines that are selected, the hunk at the cursor, or its file."""
        self._decide("reject", whole=self._panel.files.has_focus)

    def reject_file(self) -> None:
        """Reject the file at the cursor."""
        self._decide("reject", whole=True)

    def _decide(self, how: Literal["accept", "reject"], *, whole: bool) -> None:
        patch, model = self._panel.patch, self._panel.model
        lines = [] if whole else patch.selected_lines()
        found = patch.row
        if not whole and patch.has_selection and not lines:
            self.show("no changed lines are selected", is_bad=True)
        elif lines:
            patch.clear()
            self._send(how, model.select(patch.document, lines))
        elif whole or found is None or found[1].kind in ("file", "note", "blank"):
            self._decide_file(how)
        elif found[1].kind == "comment":
            self.show("move to a line of the change, or press A or X for the file", is_bad=True)
        else:
            slot, row = found
            self.run(lambda: self._decide_hunk(how, slot.file.id, row.hunk))

    @property
    def current_file(self) -> "ChangedFile | None":
        """The file at the cursor."""
        place = self._panel.patch.place
        return self._panel.model.file(place.file if place is not None else self._panel.selected)

    def _decide_file(self, how: Literal["accept", "reject"]) -> None:
        file = self.current_file
        if file is None:
            self.show("there are no changes", is_bad=True)
            return
        self._send(how, (ReviewSelection(file=file.id, content=file.content),))

    async def _decide_hunk(self, how: Literal["accept", "reject"], file: str, hunk: int) -> str:
        patch, model = self._panel.patch, self._panel.model
        found = patch.row
        if found is None or found[0].file.id != file or hunk >= len(found[0].hunks):
            return "the page has changed; press the key again"
        document = patch.document
        lines = await model.collect_hunk(document, found[0], hunk)
        outcome = await model.decide(how, model.select(document, lines))
        if how == "accept" and patch.document is document:
            self._go_to_hunk(patch.find_hunk(1))
        return describe_outcome(outcome)

    def _send(
        self, how: Literal["accept", "reject"], selections: tuple[ReviewSelection, ...]
    ) -> None:
        async def decide() -> str:
            return describe_outcome(await self._panel.model.decide(how, selections))

        self.run(decide)

    def undo(self) -> None:
        """Revert the last acceptance or rejection."""

        async def undo() -> str:
            return describe_outcome(await self._panel.model.undo())

        self.run(undo)

    def mark(self) -> None:
        """Mark the file as viewed and go to the next that is not, or take the mark away."""
        panel, file = self._panel, self.current_file
        if file is None:
            return

        async def mark() -> str:
            is_marked = await panel.model.mark(file)
            ids = [one.id for one in panel.model.files]
            at = ids.index(file.id) if file.id in ids else -1
            after = [*panel.model.files[at + 1 :], *panel.model.files[: at + 1]]
            left = [one.id for one in after if one.mark == "none" and one.id != file.id]
            if is_marked and left:
                panel.show_file(left[0])
            return "" if not is_marked or left else "all files are viewed"

        self.run(mark)

    # Comments

    def comment(self) -> None:
        """Write a comment below the line, or edit the one at the cursor."""
        panel, patch = self._panel, self._panel.patch
        target = self._find_target()
        if target is None:
            return
        known = panel.model.find_comment(target.comment)
        text = self.texts.get(target.key) or (known.comment.text if known is not None else "")
        patch.go_to_line()
        patch.reveal_below(CommentInput.LINES + 2)
        y = patch.region.y + patch.cursor - round(patch.scroll_target_y) + 1
        width = max(20, patch.scrollable_content_region.width)
        panel.input.open(target, text, Offset(patch.region.x, y), width)

    def _find_target(self) -> CommentTarget | None:
        """What a comment would be about; tells why if there is nothing."""
        patch, model = self._panel.patch, self._panel.model
        found = patch.row
        if found is not None and found[1].kind == "comment":
            placed = model.find_comment(found[1].comment)
            if placed is None or placed.comment.state != "open":
                self.show("this comment is sent already; R resolves it", is_bad=True)
                return None
            return CommentTarget(file=placed.file, comment=placed.comment.id)
        target = patch.comment_target()
        if target is None:
            self.show("there is no line to comment on here", is_bad=True)
        return target

    def keep_comment(self, text: str) -> None:
        """Keep what is typed until it is saved."""
        target = self._panel.input.target
        if target is not None and self.texts.get(target.key, "") != text:
            self.texts[target.key] = text
            self._widget.post_message(Panel.Altered())

    def save_comment(self, target: CommentTarget, text: str) -> None:
        """Save a comment; the text is kept until it is."""

        async def save() -> str:
            await self._panel.model.comment(target, text)
            self.texts.pop(target.key, None)
            self._panel.patch.clear()
            return ""

        self.run(save)

    def send(self) -> None:
        """Send the open comments to the agent."""
        model = self._panel.model
        count = model.unsent
        if not count:
            self.show("there are no comments to send; c writes one", is_bad=True)
            return

        async def send() -> str:
            await model.send()
            return f"sent {count} comment{'s' * (count != 1)}"

        self.run(send)

    def resolve(self) -> None:
        """Resolve the comment at the cursor, or all whose lines have changed since."""
        model, found = self._panel.model, self._panel.patch.row

        async def resolve() -> str:
            if found is not None and found[1].kind == "comment":
                done = await model.resolve(found[1].comment)
                return "resolved" if done else "reopened"
            count = await model.resolve_changed()
            if not count:
                return "no comment at the cursor, and none whose lines have changed"
            return f"resolved {count} comment{'s' * (count != 1)} whose lines have changed"

        self.run(resolve)

    def drop(self) -> None:
        """Delete the comment at the cursor."""
        found = self._panel.patch.row
        if found is None or found[1].kind != "comment":
            self.show("move to a comment to delete it", is_bad=True)
            return

        async def drop() -> str:
            await self._panel.model.drop(found[1].comment)
            return "deleted the comment"

        self.run(drop)

    def list_comments(self) -> None:
        """Choose one of all comments, and go there."""
        self._widget.run_worker(self._choose_comment, group="act")

    async def _choose_comment(self) -> None:
        from ...screens.review import CommentsScreen

        panel = self._panel
        every = await panel.model.all_comments()
        app = cast("App[None]", self._widget.app)  # pyright: ignore[reportUnknownMemberType]
        chosen = await app.push_screen_wait(CommentsScreen(every, panel.author))
        found = next((one for one in every if one.comment.id == chosen), None)
        if found is not None:
            panel.go_to_comment(found)

    # What is shown

    def toggle_since(self) -> None:
        """Show what changed since the reviewer last looked, or all."""
        self._panel.model.since = None if self._panel.model.since else "viewed"
        self.reload()

    def toggle_space(self) -> None:
        """Count changes of white space, or not."""
        self._panel.model.ignores_space = not self._panel.model.ignores_space
        self.reload()

    def toggle_all(self) -> None:
        """Show all files below each other, or one."""
        self._panel.shows_all = not self._panel.shows_all
        self.reload()

    def reload(self) -> None:
        """Read the changes again."""
        self._panel.reload()

    def view_file(self) -> None:
        """Show the file at the cursor."""
        self._open("view")

    def edit_file(self) -> None:
        """Edit the file at the cursor."""
        self._open("edit")

    def _open(self, how: Literal["view", "edit"]) -> None:
        place, changes, file = self._panel.patch.place, self._panel.model.changes, self.current_file
        if file is not None and changes is not None:
            line = place.new if place is not None else 0
            path = f"{changes.root}/{file.path}"
            self._widget.post_message(Panel.FileWanted(path, line or None, how))

    def open_chat(self) -> None:
        """Go to the conversation with the agent."""
        if (agent := self._panel.agent) is not None:
            self._widget.post_message(Panel.AgentWanted(agent.session))

    def merge(self) -> None:
        """Merge the agent's work; a dialog asks how."""
        if (agent := self._panel.agent) is not None:
            self._widget.post_message(Panel.CommandWanted("merge", agent.session))
