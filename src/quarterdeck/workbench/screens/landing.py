"""The dialog that merges the work of an agent: what would happen, how, and what came of it."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input, TextArea

from quarterdeck.fleet.landing.api import (
    LandingConflict,
    LandingOptions,
    LandingPreview,
    LandingResult,
    LandingTarget,
)
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.worktrees import LandingMethod

from ..rendering import glyphs
from ..rendering.lines import Span
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.select import SelectField, SelectOption
from .dialogs import FactsView, FieldRow
from .question import FormCheckbox

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, Fleet

__all__ = ["LandingScreen", "preview_spans", "result_spans"]

METHODS: tuple[LandingMethod, ...] = ("merge", "squash", "rebase")
_METHOD_OPTIONS = (
    SelectOption(value="merge", words="a merge commit with the agent's commits"),
    SelectOption(value="squash", words="one commit"),
    SelectOption(value="rebase", words="the agent's commits on top of the branch"),
)
_KEYS = "ctrl+s merge · ctrl+r preview · tab next field · esc cancel"
_MOST_NAMED = 6
_DONE = ("landed", "unchanged")


def preview_spans(preview: LandingPreview) -> list[Span]:
    """What a landing would do; each is a line of its own."""
    counts = preview.counts
    target = sanitize_line(preview.target.branch, 60)
    if preview.is_empty:
        words = f"{target} has all of this work already; there is nothing to merge."
        more = [(sanitize_text(preview.note), "warning")] if preview.note else []
        return [(words, "warning"), *more]
    lines = f"+{counts.added} {glyphs.MINUS}{counts.removed}"
    words = f"{counts.files} file{'s' * (counts.files != 1)}  {lines}"
    found: list[Span] = [(f"{words} into {target}", "text")]
    if preview.uncommitted:
        count = f"{preview.uncommitted} file{'s' * (preview.uncommitted != 1)}"
        found.append((f"{count} not committed by the agent; merged too", "faint"))
    if preview.target.problem is not None:
        found.append((f"{glyphs.FAILED} {sanitize_text(preview.target.problem)}", "bad"))
    if preview.problem:
        found.append((f"{glyphs.FAILED} {sanitize_text(preview.problem)}", "bad"))
    if preview.note:
        found.append((sanitize_text(preview.note), "faint"))
    return found + _conflict_spans(preview.conflicts)


def result_spans(result: LandingResult) -> list[Span]:
    """What became of a landing, in lines."""
    into = sanitize_line(result.into, 60)
    if result.state == "landed":
        updated = "; your files there are updated" if result.checkout is not None else ""
        return [(f"{glyphs.DONE} merged into {into}: {result.commit[:12]}{updated}", "good")]
    if result.state == "unchanged":
        return [(f"{into} has all of this work already", "good")]
    found: list[Span] = [
        (f"{glyphs.FAILED} nothing was changed: {sanitize_text(result.reason)}", "bad")
    ]
    found += _conflict_spans(result.conflicts)
    if result.output:
        found.append((sanitize_text(result.output[-2_000:]), "terminal"))
    if result.handed_to:
        found.append((f"{sanitize_line(result.handed_to, 40)} was asked to fix it", "text"))
    return found


def _conflict_spans(conflicts: Sequence[LandingConflict]) -> list[Span]:
    found: list[Span] = []
    for one in conflicts[:_MOST_NAMED]:
        words = f"{sanitize_line(one.path, 200)}  {sanitize_line(one.kind, 60)}".rstrip()
        found.append((f"{glyphs.CONFLICT} {words}", "bad"))
    if len(conflicts) > _MOST_NAMED:
        found.append((f"{glyphs.CUT} {len(conflicts) - _MOST_NAMED} more conflicts", "bad"))
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
        Binding("ctrl+o", "hand_back", "send what failed to the agent", priority=True),
    ]

    def __init__(self, fleet: "Fleet", agent: "AgentInfo") -> None:
        super().__init__()
        self._fleet = fleet
        self._agent = agent
        self._proposed: str | None = None
        """The message that was proposed; one that was edited is not replaced."""
        self._tree: str | None = None
        """What was previewed: only that is merged."""
        self._target: LandingTarget | None = None
        self._can_hand_back = False
        self._is_merging = False

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"merge the work of {sanitize_line(self._agent.name, 40)}")
            box.border_subtitle = _KEYS
            with VerticalScroll():
                yield FactsView()
                method = SelectField(id="method", options=_METHOD_OPTIONS, is_free=True)
                yield FieldRow("method", method)
                yield FieldRow("into", Input(id="into"))
                yield FieldRow("message", TextArea(id="message", compact=True))
                yield FieldRow("check", Input(id="check"))
                yield FieldRow("files", FormCheckbox("update my checkout", id="checkout"))

    def on_mount(self) -> None:
        """Find out what would happen."""
        self.query_one(FactsView).show([(f"loading {glyphs.CUT}", "faint")])
        self.query_one("#method").focus()
        self.query_one("#checkout", Checkbox).disabled = True
        self.action_preview()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a field shows what would happen with it."""
        event.stop()
        self.action_preview()

    @on(SelectField.Taken, "#method")
    def _method_taken(self) -> None:
        self.action_preview()

    def action_preview(self) -> None:
        """Find out anew what would happen."""
        if not self._is_merging:
            self.run_worker(self._preview, group="landing", exclusive=True)

    def action_merge(self) -> None:
        """Merge."""
        if not self._is_merging:
            self.run_worker(self._merge, group="landing", exclusive=True)

    def action_hand_back(self) -> None:
        """Send conflicts, or the output of the check, to the agent as a prompt."""
        if self._can_hand_back and not self._is_merging:
            work = partial(self._merge, hand_to=self._agent.session)
            self.run_worker(work, group="landing", exclusive=True)

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
            self.query_one(FactsView).show([(words, "bad")])
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
            checkout=self.query_one("#checkout", Checkbox).value,
        )

    async def _preview(self) -> None:
        self._tree = None
        options = self._options()
        if options is None:
            return
        try:
            preview = await self._fleet.preview_landing(self._agent.session, options)
        except QuarterdeckError as error:
            self._show([(f"{glyphs.FAILED} {sanitize_text(str(error))}", "bad")])
            return
        self._tree = preview.tree
        self._show(preview_spans(preview), can_hand_back=bool(preview.conflicts))
        self._ask_for_checkout(preview.target)
        others = ", ".join(one for one in METHODS if one != preview.method)
        self.query_one("#method", Input).placeholder = f"{preview.method}; ↑↓ {others}"
        self.query_one("#into", Input).placeholder = sanitize_line(preview.target.branch, 60)
        check = sanitize_line(preview.check, 200) if preview.check else "a command, if any"
        self.query_one("#check", Input).placeholder = f"{check}; - runs none"
        area = self.query_one("#message", TextArea)
        if area.text.strip() in ("", self._proposed or ""):
            self._proposed = sanitize_text(preview.message).strip()
            area.text = self._proposed

    async def _merge(self, hand_to: str | None = None) -> None:
        options = self._options()
        if options is None:
            return
        self._is_merging = True
        self._show([(f"merging {glyphs.CUT}", "running")])
        try:
            wanted = replace(options, hand_to=hand_to)
            result = await self._fleet.land(self._agent.session, wanted)
        except QuarterdeckError as error:
            self._show([(f"{glyphs.FAILED} {sanitize_text(str(error))}", "bad")])
            return
        finally:
            self._is_merging = False
        if result.state in _DONE or result.handed_to:
            self.dismiss(result)
        else:
            can_hand_back = result.state in ("conflict", "check")
            self._show(result_spans(result), can_hand_back=can_hand_back)

    def _show(self, facts: list[Span], *, can_hand_back: bool = False) -> None:
        """Say what would happen, or what did."""
        self._can_hand_back = can_hand_back
        if can_hand_back:
            name = sanitize_line(self._agent.name, 40)
            facts = [*facts, (f"ctrl+o asks {name} to resolve it", "key")]
        self.query_one(FactsView).show(facts)

    def _ask_for_checkout(self, target: LandingTarget) -> None:
        """A branch that is checked out is merged into only together with its files."""
        before, self._target = self._target, target
        box = self.query_one("#checkout", Checkbox)
        box.disabled = target.checkout is None or target.problem is not None
        if before is None or before != target:
            box.value = not box.disabled
        place = sanitize_line(target.checkout or "", 200)
        words = f"update those in {place}" if place else "the branch is not checked out anywhere"
        box.label = Content(words)
