"""The inbox panel: a row for each group of open requests; no room while the inbox is empty."""

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from quarterdeck.wire.clock import WallClock
from quarterdeck.wire.ids import RequestId
from quarterdeck.wire.terminal_text import format_age

from ..rendering import glyphs
from ..rendering.lines import Line, Span
from ..sanitize import sanitize_line
from ..stores.inbox import InboxStore
from ..widgets.picker import Picker
from .panel import Panel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.fleet.permissions.api import GroupMember, RequestGroup

__all__ = ["InboxList", "InboxPanel"]


class InboxList(Picker):
    """A row for each group of open requests; choosing one opens it, and right shows its members."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "fold(True)", "show the members of a group"),
        Binding("left,h", "fold(False)", "hide the members of a group"),
    ]
    VIM_KEYS: ClassVar[frozenset[str]] = Picker.VIM_KEYS | {"h", "l"}

    class Folded(Message):
        """There are more rows, or fewer."""

    def __init__(self, inbox: InboxStore, clock: WallClock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._inbox = inbox
        self._clock = clock
        self._unwatch = lambda: None
        self._ages: list[str] = []
        self._open: set[RequestId] = set()
        """The groups whose members are shown, by their first requests."""

    def on_mount(self) -> None:
        """Follow the store, and the clock while something waits."""
        self._unwatch = self._inbox.watch(self.update)
        self._timer = self.set_interval(1.0, self._tick, pause=not self._inbox.items)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def update(self) -> None:
        """See ``Picker``."""
        groups = self._inbox.groups
        if self.cursor is None and groups:
            self.cursor = groups[0].first
        if groups:
            self._timer.resume()
        else:
            self._timer.pause()
        self._open &= {group.first for group in groups}
        self._ages = self._read_ages()
        super().update()

    def action_fold(self, is_open: bool) -> None:
        """Show the members of the group under the cursor, or only their number."""
        group = self._inbox.find_group(RequestId(self.cursor)) if self.cursor else None
        if group is None or len(group.members) < 2 or (group.first in self._open) == is_open:
            return
        if is_open:
            self._open.add(group.first)
        else:
            self._open.discard(group.first)
            self.cursor = group.first
        self.post_message(self.Folded())
        self.update()

    @property
    def height(self) -> int:
        """How many rows there are."""
        groups = self._inbox.groups
        return sum(1 + (len(one.members) if one.first in self._open else 0) for one in groups)

    def _tick(self) -> None:
        """Show how long each request waits; nothing is drawn while that is the same."""
        if self.is_on_screen and self._read_ages() != self._ages:
            self.update()

    def _read_ages(self) -> list[str]:
        now = self._clock()
        return [format_age(group.members[0].since, now) for group in self._inbox.groups]

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        now = self._clock()
        rows: list[tuple[str, Line]] = []
        for group in self._inbox.groups:
            is_open = group.first in self._open
            rows.append((group.first, self._group_row(group, is_open, now)))
            if is_open:
                rows += ((one.request, line) for one, line in _member_rows(group, now))
        return rows

    def _group_row(self, group: "RequestGroup", is_open: bool, now: int) -> Line:
        first = self._inbox.find(group.first)
        count = len(group.members)
        sign, who = "", sanitize_line(group.members[0].name, 30)
        if count > 1:
            sign = f"{glyphs.UNFOLDED if is_open else glyphs.FOLDED} "
            who = f"{group.agents} agents" if group.agents > 1 else f"{who}, {count} times"
        return (
            (f"{glyphs.NEEDS_YOU} ", "asking"),
            (sign, "faint"),
            (f"{who} ", "strong"),
            (f"{format_age(group.members[0].since, now)}  ", "faint"),
            *((f"{risk}  ", "warning") for risk in group.risks[:1]),
            *_approval_words(first),
            (_what(first), "text"),
        )


def _member_rows(group: "RequestGroup", now: int) -> "Iterator[tuple[GroupMember, Line]]":
    """A row for each member, with what of it is not as in the others."""
    from quarterdeck.fleet.permissions.request_groups import list_differences

    for member, words in list_differences(group):
        yield (
            member,
            (
                ("    ", "text"),
                (f"{sanitize_line(member.name, 30)} ", "strong"),
                (f"{format_age(member.since, now)}  ", "faint"),
                (sanitize_line(words), "text"),
            ),
        )


def _what(item: "InboxItem | None") -> str:
    if item is None:
        return ""
    if (asked := item.permission) is not None:
        return f"{sanitize_line(asked.name or asked.kind, 30)}: {sanitize_line(asked.title)}"
    return sanitize_line(item.question.text) if item.question else ""


def _approval_words(item: "InboxItem | None") -> "Iterator[Span]":
    if item is not None and item.permission is not None and item.permission.approvals:
        from quarterdeck.policy.approvers import describe_approvals

        words = describe_approvals(item.permission.approvals, item.approved)
        yield f"{sanitize_line(words, 60)}  ", "asking"


class InboxPanel(Panel):
    """A row for each group of open requests; choosing one opens it."""

    def compose(self) -> ComposeResult:
        """The parts."""
        yield InboxList(self.context.inbox, self.context.clock, id="inbox")

    def on_mount(self) -> None:
        """Follow the store."""
        self._stop = self.context.inbox.watch(self._changed)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._stop()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        count = len(self.context.inbox.items)
        return f"{count} {'needs' if count == 1 else 'need'} you · ctrl+g"

    def wanted(self, width: int) -> int | None:
        """See ``Panel``."""
        found = next(iter(self.query(InboxList)), None)
        return found.height if found is not None else len(self.context.inbox.groups)

    def on_inbox_list_folded(self) -> None:
        """Take the room that the rows need now."""
        self.refresh(layout=True)

    def _changed(self) -> None:
        self.post_message(self.Renamed(self))
        self.refresh(layout=True)
