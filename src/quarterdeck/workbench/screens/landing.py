"""The dialog that merges the work of an agent: what would happen, how, and what came of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, TextArea

from quarterdeck.fleet.landing.api import (
    LandingConflict,
    LandingOptions,
    LandingPreview,
    LandingResult,
)
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.worktrees import LandingMethod

from ..rendering.lines import Line, Span, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LinesView

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, Fleet

__all__ = ["LandingScreen", "preview_spans", "result_spans"]

METHODS: tuple[LandingMethod, ...] = ("merge", "squash", "rebase")
_MOST_NAMED = 6
_DONE = ("landed", "unchanged")


class _Facts(LinesView):
    def __init__(self) -> None:
        super().__init__(id="facts")
        self._parts: Sequence[Span] = ()

    def show(self, parts: Sequence[Span]) -> None:
        self._parts = parts
        self.update()

    def lines(self, width: int) -> list[Line]:
        lines = [line for part in self._parts for line in wrap([part], width)]
        self.styles.height = max(1, len(lines))
        return lines


def preview_spans(preview: LandingPreview) -> list[Span]:
    """What a landing would do; each is a line of its own."""
    counts = preview.counts
    target = sanitize_line(preview.target.branch, 60)
    if preview.is_empty:
        return [(f"{target} has all of this work already; there is nothing to merge.", "warning")]
    words = f"{counts.files} file{'s' * (counts.files != 1)}  +{counts.added} −{counts.removed}"
    found: list[Span] = [(f"{words} into {target}", "text")]
    if preview.uncommitted:
        found.append((f"{preview.uncommitted} of them not committed; they are merged too", "faint"))
    if preview.target.checkout is not None:
        place = sanitize_line(preview.target.checkout, 200)
        why = f": {sanitize_line(preview.target.problem, 200)}" if preview.target.problem else ""
        state = "cannot be updated" + why if preview.target.problem else "can be updated"
        found.append((f"{target} is checked out in {place}; its files {state}", "faint"))
    if preview.problem:
        found.append((f"✗ {sanitize_text(preview.problem)}", "bad"))
    if preview.note:
        found.append((sanitize_text(preview.note), "faint"))
    return found + _conflict_spans(preview.conflicts)


def result_spans(result: LandingResult) -> list[Span]:
    """What became of a landing, in lines."""
    into = sanitize_line(result.into, 60)
    if result.state == "landed":
        return [(f"✓ merged into {into}: {result.commit[:12]}", "good")]
    if result.state == "unchanged":
        return [(f"{into} has all of this work already", "good")]
    found: list[Span] = [(f"✗ nothing was changed: {sanitize_text(result.reason)}", "bad")]
    found += _conflict_spans(result.conflicts)
    if result.output:
        found.append((sanitize_text(result.output[-2_000:]), "terminal"))
    if result.handed_to:
        found.append((f"{sanitize_line(result.handed_to, 40)} was asked to fix it", "text"))
    return found


def _conflict_spans(conflicts: Sequence[LandingConflict]) -> list[Span]:
    found: list[Span] = [
        (f"⚠ {sanitize_line(one.path, 200)}  {sanitize_line(one.kind, 60)}".rstrip(), "bad")
        for one in conflicts[:_MOST_NAMED]
    ]
    if len(conflicts) > _MOST_NAMED:
        found.append((f"… {len(conflicts) - _MOST_NAMED} more conflicts", "bad"))
    return found


class LandingScreen(ModalScreen[LandingResult | None]):
    """Gives the result of a landing that changed the branch; None: nothing was merged.

    Args:
        fleet: lands.
        agent: whose work it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "cancel"),
        Binding("ctrl+s", "merge", "merge"),
        Binding("ctrl+r", "preview", "preview again"),
    ]

    def __init__(self, fleet: "Fleet", agent: "AgentInfo") -> None:
        super().__init__()
        self._fleet = fleet
        self._agent = agent
        self._proposed: str | None = None
        """The message that was proposed; one that was edited is not replaced."""
        self._tree: str | None = None
        """What was previewed: only that is merged."""
        self._is_merging = False

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"merge the work of {sanitize_line(self._agent.name, 40)}")
            box.border_subtitle = "ctrl+s merge · ctrl+r preview · tab next field · esc cancel"
            with VerticalScroll():
                yield _Facts()
                yield Label("method")
                yield Input(
                    id="method",
                    placeholder="merge, squash or rebase; empty: the project's setting",
                    suggester=SuggestFromList(METHODS),
                )
                yield Label("into the branch")
                yield Input(id="into")
                yield Label("message")
                yield TextArea(id="message", compact=True)
                yield Label("check: a command that must succeed; - runs none")
                yield Input(id="check")

    def on_mount(self) -> None:
        """Find out what would happen."""
        self.query_one(_Facts).show([("reading …", "faint")])
        self.query_one("#method").focus()
        self.action_preview()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a field shows what would happen with it."""
        event.stop()
        self.action_preview()

    def action_preview(self) -> None:
        """Find out anew what would happen."""
        if not self._is_merging:
            self.run_worker(self._preview(), group="landing", exclusive=True)

    def action_merge(self) -> None:
        """Merge."""
        if not self._is_merging:
            self.run_worker(self._merge(), group="landing", exclusive=True)

    def action_close(self) -> None:
        """Close; a merge that runs goes on in the host."""
        self.dismiss(None)

    def _options(self) -> LandingOptions | None:
        def given(name: str) -> str | None:
            return self.query_one(f"#{name}", Input).value.strip() or None

        method = given("method")
        found: LandingMethod | None = next((one for one in METHODS if one == method), None)
        if method is not None and found is None:
            words = f"no method {method!r}; choose merge, squash or rebase"
            self.query_one(_Facts).show([(words, "bad")])
            return None
        check = given("check")
        message = self.query_one("#message", TextArea).text.strip() or None
        return LandingOptions(
            method=found,
            into=given("into"),
            message=None if message == self._proposed else message,
            check=None if check == "-" else check,
            skip_check=check == "-",
            expected=self._tree,
        )

    async def _preview(self) -> None:
        self._tree = None
        options = self._options()
        if options is None:
            return
        try:
            preview = await self._fleet.preview_landing(self._agent.session, options)
        except QuarterdeckError as error:
            self.query_one(_Facts).show([(f"✗ {sanitize_text(str(error))}", "bad")])
            return
        self._tree = preview.tree
        self.query_one(_Facts).show(preview_spans(preview))
        self.query_one("#method", Input).placeholder = f"{preview.method} ({', '.join(METHODS)})"
        self.query_one("#into", Input).placeholder = sanitize_line(preview.target.branch, 60)
        check = sanitize_line(preview.check or "none", 200)
        self.query_one("#check", Input).placeholder = check
        area = self.query_one("#message", TextArea)
        if area.text.strip() in ("", self._proposed or ""):
            self._proposed = sanitize_text(preview.message).strip()
            area.text = self._proposed

    async def _merge(self) -> None:
        options = self._options()
        if options is None:
            return
        self._is_merging = True
        self.query_one(_Facts).show([("merging …", "running")])
        try:
            result = await self._fleet.land(self._agent.session, options)
        except QuarterdeckError as error:
            self.query_one(_Facts).show([(f"✗ {sanitize_text(str(error))}", "bad")])
            return
        finally:
            self._is_merging = False
        if result.state in _DONE:
            self.dismiss(result)
        else:
            self.query_one(_Facts).show(result_spans(result))
