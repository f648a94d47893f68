"""The budgets in a dialog: all of them with how far each is used, to raise, set or remove."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from quarterdeck.wire.budgets import describe_limit, parse_limit
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering.budget_text import LEVEL_LOOKS, format_budget_part, format_budget_use
from ..rendering.lines import Line, clip, width_of
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.picker import Picker
from .dialogs import AskLineScreen, ConfirmScreen

if TYPE_CHECKING:
    from textual.app import App

    from quarterdeck.fleet.api import Fleet
    from quarterdeck.fleet.budgets.api import BudgetRow

__all__ = ["BudgetsScreen"]

_EXAMPLES = "day 10usd, project 30usd, all 2mtok, or AGENT 5usd"


class _Budgets(Picker):
    def __init__(self) -> None:
        super().__init__(id="budgets")
        self.budgets: Sequence[BudgetRow] = ()
        self.is_read = False

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        if not self.budgets:
            words = "No budgets. n sets one." if self.is_read else "reading …"
            return [("", ((words, "faint"),))]
        uses = [format_budget_use(row) for row in self.budgets]
        parts = [format_budget_part(row) for row in self.budgets]
        wide, part_wide = max(map(cell_len, uses)), max(map(cell_len, parts))
        words = max(cell_len(LEVEL_LOOKS[row.level][1]) for row in self.budgets)
        has_words = words > 0 and width - wide - part_wide - words - 10 >= 16
        room = max(8, width - wide - part_wide - 8 - (words + 2 if has_words else 0))
        rows: list[tuple[str, Line]] = []
        for at, row in enumerate(self.budgets):
            sign, level, role = LEVEL_LOOKS[row.level]
            name = row.name if row.source == "log" else f"{row.name} (settings)"
            shown = clip(((sanitize_line(name, 200), "strong"),), room)
            line: Line = (
                (f"{sign} ", role),
                *shown,
                (" " * (room - width_of(shown)), "text"),
                (f"  {uses[at]:>{wide}}  ", "text"),
                (f"{parts[at]:>{part_wide}}", "faint"),
                (f"  {level}" if has_words else "", role),
            )
            rows.append((str(at), line))
        return rows


class BudgetsScreen(ModalScreen[None]):
    """Lists the budgets, the fullest first.

    Args:
        fleet: keeps them.
        change: carries out a change in words, such as ``day 10usd``, and says what was done.
        changed: called after each change.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "close"),
        Binding("n", "add", "set another budget"),
        Binding("s", "set", "set the selected one to another amount"),
        Binding("x,delete", "remove", "remove it, after confirmation"),
        Binding("r", "reload", "refresh"),
    ]

    def __init__(
        self,
        fleet: "Fleet",
        change: Callable[[str], Awaitable[str]],
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self._fleet = fleet
        self._change = change
        self._changed = changed

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "budgets"
            box.border_subtitle = "enter raise · s set · x remove · n new · esc close"
            yield _Budgets()

    def on_mount(self) -> None:
        """Let keys choose, and read."""
        self.query_one(_Budgets).focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Ask the fleet again."""
        self._work(self._read)

    @on(Picker.Chosen, "#budgets")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        if (row := self._row) is not None:
            self._work(partial(self._put, row, add=True))

    def action_set(self) -> None:
        """Set the selected budget to another amount."""
        if (row := self._row) is not None:
            self._work(partial(self._put, row, add=False))

    def action_remove(self) -> None:
        """Remove the selected budget."""
        if (row := self._row) is not None:
            self._work(partial(self._remove, row))

    def action_add(self) -> None:
        """Set a budget that there is not yet."""
        self._work(self._add)

    @property
    def _row(self) -> "BudgetRow | None":
        shown = self.query_one(_Budgets)
        key = shown.cursor
        return shown.budgets[int(key)] if key and int(key) < len(shown.budgets) else None

    def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        self.run_worker(partial(self._try, work), group="budgets")

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (QuarterdeckError, ValueError) as error:
            self.notify(sanitize_text(str(error)), severity="error", markup=False)

    async def _read(self) -> None:
        rows = (await self._fleet.budgets()).rows
        if not self.is_mounted:
            return
        shown = self.query_one(_Budgets)
        shown.budgets, shown.is_read = rows, True
        shown.update()
        if rows and (shown.cursor is None or not shown.cursor or int(shown.cursor) >= len(rows)):
            shown.place("0")

    @property
    def _app(self) -> "App[object]":
        return cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]

    async def _ask(self, title: str, given: str) -> str | None:
        return await self._app.push_screen_wait(AskLineScreen(title, given))

    async def _put(self, row: "BudgetRow", *, add: bool) -> None:
        given = describe_limit(row.unit, row.amount).replace(" ", "")
        title = f"raise {row.name} by" if add else f"set {row.name} to"
        words = await self._ask(title, given)
        if words is None:
            return
        limit = parse_limit(words)
        if add and limit.unit != row.unit:
            raise ValueError(f"{words!r} is no budget of {row.unit}; this one is")
        await self._fleet.set_budget(row.scope, row.subject, limit, add=add)
        await self._done()

    async def _remove(self, row: "BudgetRow") -> None:
        budget = describe_limit(row.unit, row.amount)
        words = f"{budget} for {row.name}. Agents that it has stopped go on."
        asked = ConfirmScreen("remove this budget?", words, "remove")
        if not await self._app.push_screen_wait(asked):
            return
        if not await self._remove_logged(row):
            raise ValueError(f"it is in the settings: remove budget.{row.scope} there")
        await self._done()

    async def _remove_logged(self, row: "BudgetRow") -> bool:
        """Remove it; a budget of each day may be noted for every day, or for today alone."""
        if await self._fleet.remove_budget(row.scope, row.subject, row.unit):
            return True
        return row.scope == "day" and await self._fleet.remove_budget("day", "", row.unit)

    async def _add(self) -> None:
        words = await self._ask(f"a budget for what: {_EXAMPLES}", "day ")
        if words is not None:
            self.notify(sanitize_text(await self._change(words)), markup=False)
            await self._done()

    async def _done(self) -> None:
        self._changed()
        await self._read()
