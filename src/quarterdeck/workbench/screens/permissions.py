"""What was said beforehand about calls, in a dialog: rules, the people who have to allow requests,
and grants with their use, which can be revoked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.terminal_text import count_noun, format_age

from ..rendering import glyphs
from ..rendering.lines import Line, Span
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.picker import Picker
from .dialogs import ConfirmScreen

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.config.places import Places
    from quarterdeck.fleet.api import Fleet
    from quarterdeck.fleet.permissions.explanation import (
        EffectiveApprovers,
        EffectivePermissions,
        EffectiveRule,
    )
    from quarterdeck.fleet.permissions.grant_uses import GrantUse
    from quarterdeck.policy.grants import Grant

__all__ = ["PermissionsScreen"]

_WIDEST = 48
"""Cells of the first column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One row: a rule, a policy, or a grant."""

    key: str
    effect: str = ""
    what: str
    details: str
    problem: str = ""
    """Why it is not in force."""

    def draw(self, wide: int) -> Line:
        effect: tuple[Span, ...] = ()
        if self.effect:
            effect = ((f"{self.effect:<6}", "text"),)
        room = wide - (6 if self.effect else 0)
        shown = sanitize_line(self.what, room)
        gap = " " * max(2, room - cell_len(shown) + 2)
        why: tuple[Span, ...] = ()
        if self.problem:
            why = ((f"{glyphs.WARNING} {sanitize_line(self.problem, 120)}  ", "warning"),)
        details = (sanitize_line(self.details, 300), "faint")
        return (("  ", "text"), *effect, (shown, "strong"), (gap, "text"), *why, details)


class _Permissions(Picker):
    def __init__(self) -> None:
        super().__init__(id="permissions")
        self.parts: Sequence[tuple[str, Sequence[_Entry]]] = ()
        """Titles, and what stands below each."""

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        if not self.parts:
            return [("", (("reading …", "faint"),))]
        entries = [one for _, part in self.parts for one in part]
        longest = max((cell_len(one.what) + 6 for one in entries), default=0)
        wide = max(12, min(longest, _WIDEST, width // 2))
        found: list[tuple[str, Line]] = []
        for title, part in self.parts:
            if found:
                found.append(("", ()))
            found.append(("", ((sanitize_line(title, 300), "faint"),)))
            found += [(one.key, one.draw(wide)) for one in part]
        return found


class PermissionsScreen(ModalScreen[None]):
    """Lists what stands in a directory.

    Args:
        fleet: has the grants.
        places: where settings and logs are.
        environment: the variables that count as settings.
        directory: whose rules.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "close"),
        Binding("x,delete", "revoke", "revoke the selected grant, after confirmation"),
        Binding("r", "reload", "refresh"),
    ]

    def __init__(
        self, fleet: "Fleet", places: "Places", environment: Mapping[str, str], directory: str
    ) -> None:
        super().__init__()
        self._fleet = fleet
        self._places = places
        self._environment = environment
        self._directory = directory
        self._grants: dict[str, Grant] = {}

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "permissions"
            box.border_subtitle = "x revoke a grant · r refresh · esc close"
            yield _Permissions()

    def on_mount(self) -> None:
        """Let keys choose, and read."""
        self.query_one(_Permissions).focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Read the files and ask the fleet again."""
        self._work(self._read)

    def action_revoke(self) -> None:
        """Revoke the selected grant."""
        grant = self._grants.get(self.query_one(_Permissions).cursor or "")
        if grant is None:
            words = "only grants are revoked here; rules and people are changed in the settings"
            self.notify(words, markup=False)
            return
        self._work(partial(self._revoke, grant))

    def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        self.run_worker(partial(self._try, work), group="permissions")

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (QuarterdeckError, OSError) as error:
            self.notify(sanitize_text(str(error)), severity="error", markup=False)

    async def _read(self) -> None:
        from quarterdeck.fleet.permissions.explanation import find_effective_permissions
        from quarterdeck.fleet.permissions.grant_uses import load_grant_uses

        grants, agents = await asyncio.gather(self._fleet.grants(), self._fleet.agents())
        found = await find_effective_permissions(
            self._places, self._environment, self._directory, grants
        )
        names: dict[str, str] = {one.session: one.name for one in agents}
        self._show(found, names, {})
        # All logs are read for it, which can take a while.
        self._show(found, names, await load_grant_uses(self._places, found.grants))

    def _show(
        self,
        found: "EffectivePermissions",
        names: Mapping[str, str],
        uses: "Mapping[str, GrantUse]",
    ) -> None:
        if not self.is_mounted:
            return
        self._grants = {one.id: one for one in found.grants}
        shown = self.query_one(_Permissions)
        parts = _list_parts(found, names, uses, self._environment.get("HOME", ""))
        shown.parts = tuple(parts)
        shown.update()
        keys = [one.key for _, part in shown.parts for one in part]
        if shown.cursor not in keys:
            shown.place(keys[0] if keys else None)

    @property
    def _app(self) -> "App[object]":
        return cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]

    async def _revoke(self, grant: "Grant") -> None:
        words = f"{grant.effect} {grant.pattern}: agents ask again on their next call."
        asked = ConfirmScreen("revoke this grant?", words, "revoke")
        if not await self._app.push_screen_wait(asked):
            return
        if not await self._fleet.revoke(grant.id, by="workbench"):
            self.notify("it was revoked already", markup=False)
        await self._read()


def _list_parts(
    found: "EffectivePermissions",
    names: Mapping[str, str],
    uses: "Mapping[str, GrantUse]",
    home: str,
) -> Iterator[tuple[str, Sequence[_Entry]]]:
    def place(one: "EffectiveRule | EffectiveApprovers") -> str:
        where = _shorten(one.place or one.layer, home)
        return f"{where}:{one.line}" if one.line else where

    trust = "trusted" if found.trusted else "not trusted"
    title = f"rules in {_shorten(found.project, home)} ({trust}), mode {found.mode}"
    rules = [
        _Entry(
            key=f"rule {number}",
            effect=one.effect,
            what=one.pattern,
            details=place(one),
            problem=one.idle or "",
        )
        for number, one in enumerate(found.rules)
    ]
    yield title, rules or [_Entry(key="no rules", what="none", details="")]
    policies = [
        _Entry(
            key=f"people {number}",
            what=one.match or "every request",
            details=f"needs {one.who}, {place(one)}",
            problem=one.idle or "",
        )
        for number, one in enumerate(found.approvers)
    ]
    if all(one.match is not None or one.idle for one in found.approvers):
        other = "all other requests" if policies else "every request"
        policies.append(_Entry(key="people", what=other, details="the first answer decides"))
    yield "who has to allow requests", policies
    grants = [
        _Entry(
            key=one.id,
            effect=one.effect,
            what=one.pattern,
            details=_describe_grant(one, names, uses.get(one.id)),
        )
        for one in found.grants
    ]
    yield f"grants ({len(grants)})", grants


def _shorten(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _describe_grant(grant: "Grant", names: Mapping[str, str], use: "GrantUse | None") -> str:
    subject = grant.session or grant.tree or ""
    reach = {
        "agent": f"agent {names.get(subject, subject)}",
        "tree": f"tree of {names.get(subject, subject)}",
        "project": "this project",
        "all": "everywhere",
    }[grant.subject]
    words, now = [reach, f"by {grant.by}"], read_wall_clock()
    if grant.uses is not None:
        words.append(f"ends after {count_noun(grant.uses, 'call')}")
    if grant.expires is not None:
        ends = grant.expires > now
        words.append(f"ends in {format_age(now, grant.expires)}" if ends else "has ended")
    if use is not None:
        times = "once" if use.uses == 1 else f"{use.uses:,} times"
        ago = f"used {times}, {format_age(use.last, now)} ago" if use.last else "never used"
        words.append(ago)
    return ", ".join([*words, *([grant.reason] if grant.reason else [])])
