"""A permission request on the screen: a card in the agent's own conversation, or the same card in
a dialog for the request of another agent. One key for each answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.permissions import option_of_kind

from ..rendering.lines import Line
from ..sanitize import sanitize_line
from ..widgets.lines_view import LinesView
from .key_guard import KeyGuard
from .permission_group import GROUP_KEYS, approval_lines, group_choice_lines, member_lines
from .permission_lines import (
    RequestQueue,
    back_test_line,
    choice_lines,
    hint_words,
    more_lines,
    request_lines,
    risk_lines,
)
from .permission_model import PermissionSummary, merge_options, summarize_request

if TYPE_CHECKING:
    from textual import events

    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.fleet.permissions.api import BackTest, RequestGroup
    from quarterdeck.wire.ids import RequestId

    from ..context import WorkbenchContext

__all__ = [
    "KEYS",
    "PermissionCard",
    "PermissionScreen",
    "RequestSetting",
    "RuleScope",
    "describe_queue",
    "describe_setting",
]

RuleScope: TypeAlias = Literal["project", "user"]
KEYS = {
    "y": "allow once",
    "s": "allow it for this session",
    "p": "allow it in this project",
    "n": "deny",
}
"""The keys of the four choices."""
_OTHER_KEYS = {"a": "allow_always", "x": "reject_always"}
_SCOPE_WORDS: dict[RuleScope, str] = {"project": "in this project", "user": "everywhere"}
_LEAST = 3
"""Lines of what is asked; below that the choices have one line each."""
_NOT_YET = PermissionSummary(heading="")
_WEEK = 7 * 86_400 * 1_000_000
"""Microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSetting:
    """What surrounds a request."""

    cwd: str | None = None
    """Where its agent works."""
    home: str = ""
    is_own: bool = False
    """It stands in the agent's own conversation: who asks is clear."""
    try_rules: "Callable[[tuple[str, ...]], Awaitable[BackTest]] | None" = None
    """Tries rules on the requests of this week in the agent's project."""


def describe_setting(
    context: "WorkbenchContext", item: "InboxItem", *, is_own: bool = False
) -> RequestSetting:
    """What surrounds a request."""
    agent = context.roster.find(item.session)
    home = context.discovery.environment.get("HOME", "")
    if agent is None:
        return RequestSetting(home=home, is_own=is_own)
    repository = agent.worktree.repository if agent.worktree is not None else None

    async def try_rules(rules: tuple[str, ...]) -> "BackTest":
        project = repository or await asyncio.to_thread(_find_project, agent.cwd)
        since = context.clock() - _WEEK
        return await context.fleet.back_test(rules, since=since, project=project, limit=0)

    return RequestSetting(cwd=agent.cwd, home=home, is_own=is_own, try_rules=try_rules)


def _find_project(cwd: str) -> str:
    from quarterdeck.config.workspace import find_workspace

    return str(find_workspace(Path(cwd)).project)


def describe_queue(context: "WorkbenchContext", item: "InboxItem") -> RequestQueue:
    """Where a request stands among those that wait."""
    inbox = context.inbox
    group = inbox.find_group(item.request) if item.permission is not None else None
    members = group.members if group is not None else ()
    alike = tuple(one.name for one in members if one.request != item.request)
    return RequestQueue(
        place=max(1, inbox.place(item.request)),
        count=max(1, len(inbox.items)),
        alike=alike,
        group=group if alike else None,
    )


class _Details(LinesView, can_focus=False):
    def __init__(self, card: "PermissionCard") -> None:
        super().__init__(id="details")
        self._card = card

    def lines(self, width: int) -> list[Line]:
        card = self._card
        lines = request_lines(card.summary, width, card.setting.home)
        if (group := card.group) is not None:
            lines += member_lines(group, card.item.request, width, card.setting.home)
        return lines


class _Choices(LinesView, can_focus=False):
    def __init__(self, card: "PermissionCard") -> None:
        super().__init__(id="choices")
        self._card = card
        self.is_tight = self.is_apart = False

    def lines(self, width: int) -> list[Line]:
        card = self._card
        risks = [*risk_lines(card.summary, width), *approval_lines(card.item, width)]
        if self.is_apart:
            risks.append(())
        return [*risks, *self._tried(width), *self._choices(width)]

    def _tried(self, width: int) -> list[Line]:
        """What the rule of the choices would have answered; in scarce room only a warning."""
        rule = self._card.choices.rule
        found = self._card.tried.get(rule)
        if found is None or (self.is_tight and not found.allowed_denied):
            return []
        lines = back_test_line(rule, found, width)
        return lines[:1] if self.is_tight else lines

    def on_click(self, event: "events.Click") -> None:
        """Choose what was clicked: a line that goes on belongs to the choice above it."""
        from ..mouse import find_key_at

        event.stop()
        width = self.scrollable_content_region.width
        lines = self._choices_with_keys(width)
        at = event.y - (self.virtual_size.height - len(lines))
        while at > 0 and not any(role == "key" for _, role in lines[at]):
            at -= 1
        if 0 <= at < len(lines) and (key := find_key_at(lines[at], event.x)) is not None:
            self._card.click(key)

    def _choices_with_keys(self, width: int) -> list[Line]:
        card = self._card
        lines = choice_lines(card.choices, width, is_tight=self.is_tight)
        if card.group is not None:
            lines += group_choice_lines(card.choices, len(card.group.members), width)
        if card.is_more:
            lines += more_lines(card.choices, width, card.tried, is_tight=self.is_tight)
        return lines

    def _choices(self, width: int) -> list[Line]:
        card = self._card
        lines = self._choices_with_keys(width)
        if not card.has_focus and not card.is_writing:  # its keys do nothing now
            lines = [tuple((words, "faint") for words, _ in line) for line in lines]
        return lines


class PermissionCard(Vertical, can_focus=True):
    """Asks a person for permission. Keys count only after a moment without any.

    Args:
        item: the request.
        setting: what surrounds it.
        queue: where it stands among those that wait.
        room: how many lines the card may take, as it is when the card is drawn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"choose('{key}')", words) for key, words in KEYS.items()),
        Binding("m", "more", "more choices"),
        Binding("d", "deny", "deny with words"),
        Binding("A", "choose_all('y')", "allow this and all that ask for the same"),
        *(
            Binding(key, f"choose_all('{own}')", f"{KEYS[own]}, for all that ask for the same")
            for key, own in GROUP_KEYS.items()
        ),
        Binding("e", "rule", "write a rule of your own"),
        Binding("escape", "later", "decide later"),
        Binding("f", "deny", "deny with words", show=False),
        *(
            Binding(key, f"kind('{kind}')", kind.replace("_", " "), show=False)
            for key, kind in _OTHER_KEYS.items()
        ),
        *(Binding(str(n), f"number({n})", f"option {n}", show=False) for n in range(1, 10)),
        Binding("tab", "scope", "change the scope", show=False),
        Binding("up", "scroll(-1)", "scroll", show=False),
        Binding("down", "scroll(1)", "scroll", show=False),
        Binding("pageup", "scroll(-8)", "scroll", show=False),
        Binding("pagedown", "scroll(8)", "scroll", show=False),
    ]

    @dataclass
    class Answered(Message):
        """A person has decided."""

        item: "InboxItem"
        choice: str
        feedback: str | None = None
        requests: "tuple[RequestId, ...]" = ()
        """All requests that are answered alike, as the card showed them; empty: this one alone."""
        rule: str = ""
        """A rule that the person wrote, to record before; empty: none."""
        scope: RuleScope = "project"
        """Where that rule holds."""

    @dataclass
    class PutOff(Message):
        """A person wants to decide later."""

        item: "InboxItem"

    def __init__(
        self,
        item: "InboxItem",
        setting: RequestSetting,
        queue: RequestQueue,
        room: Callable[[], int],
    ) -> None:
        super().__init__()
        assert item.permission is not None
        self.item: InboxItem = item
        self.setting = setting
        self.summary = _NOT_YET
        self.choices = merge_options(item.permission.options)
        self.is_more = False
        """Whether all choices are shown."""
        self.tried: dict[str, BackTest] = {}
        """What rules of choices would have answered, as far as that is known."""
        self._queue = queue
        self._room = room
        self._guard = KeyGuard(monotonic)
        self._click_guard = KeyGuard(monotonic)
        """Closed when what can be clicked is another; the focus comes with the click itself."""
        self._group_guard = KeyGuard(monotonic)
        """Closed when more requests came that an answer to all would decide."""
        self._is_sent = False
        self._writes: Literal["words", "rule"] | None = None
        self._scope: RuleScope = "project"

    def compose(self) -> ComposeResult:
        """The parts."""
        yield _Details(self)
        yield _Choices(self)
        words = Input(id="words")
        words.display = False
        yield words

    def on_mount(self) -> None:
        """Read the request; that takes time, as commands are parsed."""
        self._read()

    def show(self, item: "InboxItem", setting: RequestSetting, queue: RequestQueue) -> None:
        """Show another request, or where the same one stands now; the focus stays."""
        before, self._queue = self._queue, queue
        if {*self._list_requests(queue)} - {*self._list_requests(before)}:
            self._group_guard.close()
        if item.request != self.item.request:
            assert item.permission is not None
            self.item = item
            self.setting = setting
            self.choices = merge_options(item.permission.options)
            self.summary = _NOT_YET
            self.tried = {}
            self.is_more = self._is_sent = False
            self._close_guards()
            self._stop_writing()
            self._read()
        elif queue.group != before.group or item.approved != self.item.approved:
            self.item = item
            self.fit()
        self._tell()

    @property
    def group(self) -> "RequestGroup | None":
        """The requests that one answer may decide; None: this one alone."""
        return self._queue.group

    @staticmethod
    def _list_requests(queue: RequestQueue) -> "tuple[RequestId, ...]":
        return queue.group.requests if queue.group is not None else ()

    @property
    def is_writing(self) -> bool:
        """Whether a person writes why not, or a rule."""
        return self._writes is not None

    def reopen(self) -> None:
        """An answer was not taken: the request is still open."""
        self._is_sent = False
        self._close_guards()

    def _close_guards(self) -> None:
        """Something else is asked: neither a key nor a click counts for a moment."""
        self._guard.close()
        self._click_guard.close()

    def click(self, key: str) -> None:
        """Answer with the choice of a key that was clicked, unless it came there just now."""
        if self._click_guard.holds or self._is_sent or self.summary is _NOT_YET or self.is_writing:
            return
        if key == "e":
            self._guard.open()
            self.action_rule()
        elif key in GROUP_KEYS:
            self._guard.open()
            self.action_choose_all(GROUP_KEYS[key])
        elif (option := self.choices.option(key)) is not None:
            self._answer(option)

    def take_focus(self) -> None:
        """Let keys reach the card; at once, so that none is for something else."""
        self.screen.set_focus(self)

    def _read(self) -> None:
        self.run_worker(partial(self._summarize, self.item), exclusive=True)
        self._try_rules()

    def _try_rules(self) -> None:
        """Ask what the rules of choices would have answered; nothing waits for that."""
        rules = self.choices.find_rules(with_more=self.is_more)
        wanted = {rule: allows for rule, allows in rules.items() if rule not in self.tried}
        if wanted and self.setting.try_rules is not None:
            back_test = partial(self._back_test, self.item, wanted)
            self.run_worker(back_test, group="back test", exclusive=True)

    async def _back_test(self, item: "InboxItem", wanted: dict[str, tuple[str, ...]]) -> None:
        ask = self.setting.try_rules
        if ask is None:
            return
        for rule, allows in wanted.items():
            try:
                found = await ask(allows)
            except (QuarterdeckError, OSError):  # a rule that cannot be read, a host that is gone
                continue
            if item.request != self.item.request or not self.is_attached:
                return
            self.tried[rule] = found
            if found.requests:
                self._click_guard.close()  # the choices may move
                self.fit()

    async def _summarize(self, item: "InboxItem") -> None:
        assert item.permission is not None
        setting = self.setting
        found = await asyncio.to_thread(
            summarize_request, item.permission, setting.cwd, setting.home
        )
        if item.request == self.item.request and self.is_attached:
            self.summary = found
            self._close_guards()
            for details in self.query(_Details):
                details.scroll_home(animate=False)
            self._tell()
            self.fit()

    def on_focus(self) -> None:
        """Keys are for the card now, after a moment."""
        self._guard.close()
        self.call_later(self._tell)  # Textual notes the focus after this

    def on_blur(self) -> None:
        """Keys are for something else."""
        self.call_later(self._tell)

    def on_resize(self) -> None:
        """Give the choices the room that they need; what is asked can be scrolled."""
        self.call_after_refresh(self.fit)

    def fit(self) -> None:
        """Take as much room as there is and as it needs."""
        # Its parts are gone before it is when it is taken away, here and below.
        if not self.is_attached or not self.query(_Choices) or not self.query(_Details):
            return
        details, choices = self.query_one(_Details), self.query_one(_Choices)
        room = self._room() - 2 - (1 if self._writes else 0)
        choices.is_tight = choices.is_apart = False
        choices.update()
        if room - choices.virtual_size.height < _LEAST:
            choices.is_tight = True
            choices.update()
        details.update()
        most = max(1, room - choices.virtual_size.height)
        if details.virtual_size.height < most:  # nothing is lost by a line between the two
            choices.is_apart = True
            choices.update()
        details.styles.height = max(1, min(details.virtual_size.height, most))
        choices.styles.height = choices.virtual_size.height
        self._is_cut = details.virtual_size.height > most
        self._tell()

    _is_cut = False

    def _tell(self) -> None:
        """Say who asks, where it stands, and which keys there are."""
        name = "" if self.setting.is_own else f"{sanitize_line(self.item.name, 40)} wants to "
        words = [f"{name}{sanitize_line(self.summary.heading, 60)}", self._queue.words]
        parts = self.query(_Details) if self._is_cut else ()
        words.extend(f"{details.virtual_size.height} lines, ↑ ↓" for details in parts)
        for choices in self.query(_Choices):
            choices.update()
        self.border_title = Content(" · ".join(filter(None, words)))
        self.border_subtitle = Content(self._hint())

    def _hint(self) -> str:
        match self._writes:
            case "words":
                return "enter deny · esc back"
            case "rule":
                other = "everywhere" if self._scope == "project" else "in this project"
                return f"enter allow {_SCOPE_WORDS[self._scope]} · tab {other} · esc back"
            case None:
                if not self.has_focus:
                    return "ctrl+g answer"
                return hint_words(self.choices, is_more=self.is_more)

    # Answers

    @property
    def _is_held(self) -> bool:
        """Whether a key that comes now decides nothing."""
        return self._guard.holds or self._is_sent or self.summary is _NOT_YET

    def action_choose(self, key: str) -> None:
        """Answer with one of the four choices."""
        option = self.choices.option(key)
        if not self._is_held and option is not None:
            self._answer(option)

    def action_kind(self, kind: str) -> None:
        """Answer with the first option of ours of a kind; one that is not shown is shown first."""
        assert self.item.permission is not None
        option = option_of_kind(self.item.permission.options, kind)
        if not self._is_held and option is not None:
            self._pick(option)

    def action_number(self, number: int) -> None:
        """Answer with an option by its number; one that is not shown is shown first."""
        assert self.item.permission is not None
        options = self.item.permission.options
        if not self._is_held and number <= len(options):
            self._pick(options[number - 1].option_id)

    def _pick(self, option: str) -> None:
        if self.is_more or self.choices.is_shown(option):
            self._answer(option)
        else:
            self._show_more(True)

    def action_choose_all(self, key: str) -> None:
        """Give one of the four choices to all requests of the group that are shown here."""
        option = self.choices.option(key)
        if self._is_held or option is None or self.group is None or self._group_guard.holds:
            return
        self._answer(option, requests=self._list_requests(self._queue))

    def action_more(self) -> None:
        """Show all choices, or the four again."""
        if not self._is_held:
            self._show_more(not self.is_more)

    def _show_more(self, is_more: bool) -> None:
        self._click_guard.close()  # other choices are below the pointer now
        self.is_more = is_more
        self.fit()
        self._try_rules()

    def action_deny(self) -> None:
        """Write why not."""
        if self._is_held:
            return
        if self.choices.deny is None:
            self.notify(
                "this agent offers no way to deny; press esc to go back", severity="warning"
            )
            return
        self._write("words", "", "why not, and what to do instead")

    def action_rule(self) -> None:
        """Write a rule, beginning with the narrowest that is offered."""
        if not self._is_held and self.choices.once is not None:
            self._scope = "project"
            self._write("rule", self.choices.rule, "a rule, such as bash(pytest:*)")

    def action_scope(self) -> None:
        """Change where the rule holds; elsewhere the key moves the focus."""
        if self._writes != "rule":
            raise SkipAction
        self._scope = "user" if self._scope == "project" else "project"
        self._tell()

    def action_later(self) -> None:
        """Leave the request open; from the words go back to the choice."""
        if self._writes is not None:
            self._stop_writing()
            self.fit()
            self.take_focus()
        elif self.is_more:
            self._show_more(False)
        elif not self._guard.holds and not self._is_sent:
            self.post_message(self.PutOff(self.item))

    def action_scroll(self, step: int) -> None:
        """Look at other lines."""
        for details in self.query(_Details):
            details.scroll_relative(y=step, animate=False)

    def _write(self, what: Literal["words", "rule"], value: str, hint: str) -> None:
        self._writes = what
        words = self.query_one("#words", Input)
        words.value, words.placeholder = value, hint
        words.display = True
        self.fit()
        words.focus()

    def _stop_writing(self) -> None:
        self._writes = None
        for words in self.query("#words").results(Input):
            words.display = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Deny with what was written, or allow with the rule."""
        event.stop()
        text = event.value.strip()
        if self._is_sent:
            return
        if self._writes == "words" and self.choices.deny is not None:
            self._answer(self.choices.deny, text or None)
        elif self._writes == "rule" and text and self.choices.once is not None:
            self._is_sent = True
            answered = self.Answered(self.item, self.choices.once, rule=text, scope=self._scope)
            self.post_message(answered)

    def on_key(self, event: "events.Key") -> None:
        """A key that means nothing here still shows that someone types."""
        if self._writes is None:
            _ = self._guard.holds, self._group_guard.holds

    def _answer(
        self, choice: str, feedback: str | None = None, *, requests: "tuple[RequestId, ...]" = ()
    ) -> None:
        self._is_sent = True
        self.post_message(self.Answered(self.item, choice, feedback, requests))


class PermissionScreen(ModalScreen[None]):
    """The request of an agent that is not in view; its card alone."""

    AUTO_FOCUS = "PermissionCard"

    def __init__(self, item: "InboxItem", setting: RequestSetting, queue: RequestQueue) -> None:
        super().__init__()
        self.card = PermissionCard(item, setting, queue, lambda: self.size.height)

    @property
    def item(self) -> "InboxItem":
        """The request."""
        return self.card.item

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.card

    def on_resize(self) -> None:
        """Fit the card anew."""
        self.call_after_refresh(self.card.fit)
