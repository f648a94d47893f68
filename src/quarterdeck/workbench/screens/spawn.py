"""The form that starts an agent: which, its task, its model and mode, where it works. What has no
field of its own is set in a line of text.
"""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input, Label, TextArea

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering import glyphs
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.select import SelectField, SelectOption
from .dialogs import FieldRow
from .question import FormCheckbox
from .spawn_model import (
    BUDGET_EXAMPLES,
    LIMITS,
    NEW,
    NONE,
    REMEMBERED,
    OptionTextError,
    SpawnAgent,
    SpawnDirectory,
    check_support,
    describe_budgets,
    list_agent_options,
    list_effort_options,
    list_mode_options,
    list_worktree_options,
    parse_budgets,
    parse_limits,
    parse_option_text,
    parse_worktree_choice,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from textual.app import App
    from textual.timer import Timer

    from .spawn_lookup import SpawnSource

__all__ = ["HostRow", "SpawnScreen"]

_SETTLE = 0.3
"""Seconds after the last key in the directory before it is looked at."""
_ROOM = 31
"""Lines of a screen that shows all fields at once."""
_OWN = "native"


class _TaskArea(TextArea):
    """A task; enter starts, as it sends in a chat."""

    class Submitted(Message):
        """It is to be started."""

    def on_key(self, event: events.Key) -> None:
        """Take the keys that the text itself would swallow."""
        if event.key == "enter":
            self.post_message(self.Submitted())
        elif event.key in ("ctrl+j", "shift+enter", "alt+enter"):
            self.insert("\n")
        else:
            return
        event.prevent_default()
        event.stop()


class HostRow(FieldRow):
    """The choice of the host that an agent starts on; the directory is one of that host.

    Args:
        directories: the directory that is offered on each host, by the host's name; empty: it
            cannot be used now.
        problems: why those cannot be used.
    """

    def __init__(self, directories: "Mapping[str, str]", problems: "Mapping[str, str]") -> None:
        self._directories = directories
        options = [
            SelectOption(
                value=label,
                words=sanitize_line(directory, 100),
                problem="" if directory else sanitize_line(problems.get(label, _NOT_YET), 200),
            )
            for label, directory in directories.items()
        ]
        first = next((one.value for one in options if not one.problem), "")
        self._field = SelectField(first, id="host", options=options, is_needed=True)
        super().__init__("host", self._field)

    @property
    def host(self) -> str:
        """The name of the chosen host."""
        return self._field.value

    @on(SelectField.Taken, "#host")
    def _taken(self, event: SelectField.Taken) -> None:
        event.stop()
        directory = self.screen.query_one("#cwd", SelectField)
        directory.set_value(sanitize_line(self._directories.get(event.value, "")))


class SpawnScreen(ModalScreen[None]):
    """Asks for an agent and starts it. What cannot be started stays in the form, with the reason.

    Args:
        cwd: the directory that is offered.
        prompt: what is filled in already.
        source: finds what can be chosen.
        start: starts one; raises QuarterdeckError if that is refused.
        chosen: the values that were chosen last in this project, by field.
        problem: why an agent like the last one was not started; empty: none was tried.
        host: the row in which the host is chosen; None: there is one alone.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "cancel"),
        Binding("ctrl+s", "start", "start"),
        Binding("ctrl+o", "more", "more or fewer fields"),
    ]

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (64, "-wide")]  # noqa: RUF012 - as Textual has it

    def __init__(
        self,
        cwd: str,
        prompt: str,
        source: "SpawnSource",
        *,
        start: "Callable[[SpawnOptions], Awaitable[None]]",
        chosen: "Mapping[str, str] | None" = None,
        problem: str = "",
        host: "HostRow | None" = None,
    ) -> None:
        super().__init__()
        self._host = host
        self._cwd = cwd
        self._prompt = prompt
        self._source = source
        self._start_agent = start
        given = chosen or {}
        self._chosen = {name: sanitize_line(given.get(name, ""), 200) for name in REMEMBERED}
        self._agents: Sequence[SpawnAgent] = ()
        self._known = SpawnDirectory()
        self._looking: Timer | None = None
        self._is_more: bool | None = None
        """Whether all fields are shown; None: if there is room."""
        self._is_starting = False
        self._problem = problem
        self._error = ""
        """Why it was not started; until something is changed."""

    def compose(self) -> ComposeResult:
        """The parts."""
        chosen = self._chosen
        find = self._source.directories
        task = _TaskArea(sanitize_text(self._prompt), id="prompt", compact=True)
        agent = SelectField(chosen["agent"] or _OWN, id="agent", is_needed=True)
        with Vertical(id="box") as box:
            box.border_title = "start an agent"
            with VerticalScroll():
                yield from () if self._host is None else (self._host,)
                yield FieldRow("agent", agent, noted=True)
                yield FieldRow("task", task)
                model = SelectField(chosen["model"], id="model", is_free=True)
                yield FieldRow("model", model, noted=True)
                yield FieldRow("mode", SelectField(chosen["mode"], id="mode"), noted=True)
                with Vertical(id="further"):
                    cwd = SelectField(self._cwd, id="cwd", is_free=True, find=find)
                    yield FieldRow("directory", cwd, begins=True)
                    yield FieldRow("name", Input(id="name", placeholder="chosen for you"))
                    effort = SelectField(chosen["effort"], id="effort")
                    yield FieldRow("effort", effort, noted=True)
                    worktree = SelectField(chosen["worktree"], id="worktree", is_free=True)
                    yield FieldRow("worktree", worktree, begins=True)
                    yield FieldRow("base", SelectField(id="base", is_free=True))
                    yield FieldRow("carry", FormCheckbox("copy my uncommitted changes", id="carry"))
                    budget = Input(id="budget", placeholder=_SETTINGS)
                    yield FieldRow("budget", budget, begins=True, noted=True)
                    yield FieldRow("limits", self._limits())
                    yield FieldRow("options", Input(id="more", placeholder=_EXAMPLE))
                yield Label(id="folded", markup=False)
            yield Label(id="hint", markup=False)

    def _limits(self) -> Horizontal:
        return Horizontal(*(Input(id=f"limit-{name}") for name in LIMITS), id="limits")

    def on_mount(self) -> None:
        """Begin where something is missing."""
        self._fold()
        self._show_agent()
        self._show_worktree()
        self._find_out()
        self.run_worker(self._find_agents, group="agents")
        self.query_one("#agent" if self._prompt else "#prompt").focus()
        if self._problem:  # after the fields are filled in, which are no change of the person's
            self.call_after_refresh(self._show_error, self._problem)

    def on_resize(self) -> None:
        """Show as many fields as there is room for."""
        self._fold()

    def on_descendant_focus(self) -> None:
        """Say what the field is for."""
        self._show_hint()

    @on(_TaskArea.Submitted)
    @on(Input.Submitted)
    def _submitted(self, event: Message) -> None:
        event.stop()
        self.action_start()

    @on(events.Click, "#folded")
    def action_more(self) -> None:
        """Show all fields, or the first alone."""
        self._is_more = not self.query_one("#further").display
        self._fold()

    def _fold(self) -> None:
        is_more = self.size.height >= _ROOM if self._is_more is None else self._is_more
        further = self.query_one("#further")
        is_inside = self.focused is not None and further in self.focused.ancestors
        further.display = is_more
        self.query_one("#folded").display = not is_more
        if is_inside and not is_more:
            self.query_one("#mode").focus()
        box = self.query_one("#box")
        box.border_subtitle = _KEYS.format("fewer fields" if is_more else "more fields")
        self._show_folded()

    def _show_folded(self) -> None:
        """What the fields say that are not shown."""
        names = {"directory": "cwd", "name": "name", "effort": "effort", "worktree": "worktree"}
        facts = [f"{title} {words}" for title, id_ in names.items() if (words := self._given(id_))]
        limits = [words for name in LIMITS if (words := self._given(f"limit-{name}"))]
        facts += [f"budget {words}"] if (words := self._given("budget")) else []
        facts += ["limits"] * bool(limits) + ["options"] * bool(self._given("more"))
        self.query_one("#folded", Label).update(f"{glyphs.FOLDED} {' · '.join(facts)}")

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _typed(self) -> None:
        if self._error:
            self._error = ""
            self._show_hint()

    @on(Input.Changed, "#cwd")
    def _directory_typed(self) -> None:
        if self._looking is not None:
            self._looking.stop()
        self._looking = self.set_timer(_SETTLE, self._find_out)

    @on(Input.Changed, "#worktree")
    def _worktree_typed(self) -> None:
        self._show_worktree()

    @on(Input.Changed)
    def _value_changed(self) -> None:
        self._show_notes()
        self._show_folded()

    @on(SelectField.Taken, "#agent")
    def _agent_taken(self) -> None:
        self._field("model").set_value("")  # it is another agent's name for one
        self._show_agent()
        self._find_models()

    @on(SelectField.Refused)
    def _refused(self, event: SelectField.Refused) -> None:
        event.stop()
        self._show_error(f"{event.option.value}: {event.option.problem}")

    def action_start(self) -> None:
        """Start the agent that the form describes."""
        if self._is_starting:
            return
        for field in self.query(SelectField):
            field.settle()
        try:
            options = self._read()
        except OptionTextError as error:
            self._show_error(str(error))
            return
        self._is_starting = True
        self._error = ""
        self._show_hint()
        # The app's own: a worktree may take a while to make, and who closes the form meanwhile
        # has an agent all the same.
        app = cast("App[object]", self.app)  # pyright: ignore[reportUnknownMemberType]
        app.run_worker(partial(self._start, options), group="spawn")

    async def _start(self, options: SpawnOptions) -> None:
        try:
            await self._start_agent(options)
        except (QuarterdeckError, ValueError) as error:
            self._is_starting = False
            if self.is_current:
                self._show_error(str(error))
            else:
                words = sanitize_line(str(error), 400)
                self.notify(words, severity="error", markup=False)
            return
        if self.is_current:
            self.dismiss(None)

    def _read(self) -> SpawnOptions:
        """What is filled in. Raises OptionTextError."""
        text = self._given("more") or ""
        more = parse_option_text(text)
        worktree = parse_worktree_choice(
            self._given("worktree") or "",
            self._given("base") or "",
            self.query_one("#carry", Checkbox).value,
            self._known,
            self._directory,
        )
        if more.worktree is not None and worktree is not None:
            raise OptionTextError("options: worktree has a field of its own; fill in only one")
        options = parse_option_text(
            text,
            agent=self._given("agent") or _OWN,
            cwd=self._directory,
            model=self._given("model"),
            mode=self._given("mode"),
            **{} if more.effort else {"effort": self._given("effort")},
        )
        limits = parse_limits({name: self._given(f"limit-{name}") for name in LIMITS}, more.limits)
        options = msgspec.structs.replace(
            options, worktree=worktree or more.worktree, limits=limits
        )
        check_support(options, self._agent, self._field("mode").chosen)
        return SpawnOptions(
            options=options,
            budget=parse_budgets(self._given("budget") or ""),
            name=self._given("name"),
            prompt=self.query_one("#prompt", TextArea).text.strip() or None,
        )

    # Agents and models

    @property
    def _agent(self) -> SpawnAgent | None:
        name = self._field("agent").value
        return next((one for one in self._agents if one.name == name), None)

    async def _find_agents(self) -> None:
        """Show the agents at once, and again when their versions are known."""
        for with_versions in (False, True):
            self._agents = await self._source.agents(with_versions=with_versions)
            if not self.display:  # it is being closed, and some of its fields are gone
                return
            field = self._field("agent")
            field.offer(list_agent_options(self._agents))
            chosen = field.chosen
            if chosen is None or chosen.problem:  # gone since it was chosen last
                field.set_value(_OWN)
                self._field("model").set_value("")
            self._show_agent()
            if not with_versions:
                self._find_models()

    def _find_models(self) -> None:
        if (agent := self._agent) is not None:
            self.run_worker(partial(self._offer_models, agent), group="models", exclusive=True)

    async def _offer_models(self, agent: SpawnAgent) -> None:
        models = await self._source.models(agent)
        if self.display:
            self._field("model").offer(models)
            self._show_notes()

    def _show_agent(self) -> None:
        """Offer what the agent takes."""
        agent, known = self._agent, self._known
        is_own = agent is None or agent.name == _OWN
        model = known.model if is_own else ""
        self._field("model").placeholder = sanitize_line(model, 60) or _AGENTS_OWN
        self._field("mode").placeholder = sanitize_line(known.mode, 30) or _DEFAULT
        self._offer("mode", list_mode_options(agent, known))
        problem = agent.explain("effort") if agent is not None else ""
        effort = self._field("effort")
        self._offer("effort", list_effort_options(agent))
        effort.placeholder = "" if problem else sanitize_line(known.effort, 30) or _DEFAULT
        effort.disabled = bool(problem)
        for name, unit in LIMITS.items():
            field = self._input(f"limit-{name}")
            field.disabled = agent is not None and bool(agent.explain(f"limits.{name}"))
            field.placeholder = "cost in $" if name == "cost" else unit
            if field.disabled:
                field.value = ""
        self._show_notes()

    def _offer(self, name: str, options: "Sequence[SelectOption]") -> None:
        """Offer values; one that cannot be chosen any more goes."""
        field = self._field(name)
        field.offer(options)
        if (chosen := field.chosen) is not None and chosen.problem and not field.has_focus:
            field.set_value("")

    def _show_notes(self) -> None:
        """Say beside each field what its value means."""
        for row in self.query(FieldRow):
            for field in row.query(SelectField) if row.noted else ():
                row.note(self._describe(field))
            for _ in row.query("#budget"):
                row.note(describe_budgets(self._given("budget") or ""))

    def _describe(self, field: SelectField) -> str:
        """What the value of a field means, or what none means."""
        agent = self._agent
        if field.id == "effort" and agent is not None and (problem := agent.explain("effort")):
            return problem
        value = field.value or field.placeholder
        found = next((one for one in field.options if one.value == value), None)
        words = (found.problem or found.words) if found is not None else ""
        is_default = not field.value and value not in ("", _AGENTS_OWN) and field.id != "agent"
        return " · ".join(filter(None, (_SETTINGS if is_default else "", words)))

    # Worktrees

    @property
    def _directory(self) -> str:
        cwd = self._given("cwd")
        return self._cwd if cwd is None or cwd == sanitize_line(self._cwd) else cwd

    def _find_out(self) -> None:
        self.run_worker(self._look_again, group="look", exclusive=True)

    async def _look_again(self) -> None:
        self._known = known = await self._source.look(self._directory)
        if not self.display:
            return
        # A name that is no plain text cannot be typed either.
        branches = [name for name in known.branches if name == sanitize_line(name, 100)]
        options = [
            one for one in list_worktree_options(known) if one.value == sanitize_line(one.value)
        ]
        self._field("worktree").offer(options)
        self._field("base").offer([SelectOption(value=name) for name in branches])
        self._show_agent()
        self._show_worktree()

    def _show_worktree(self) -> None:
        """Say what an empty field means, and ask only for what counts."""
        known, choice = self._known, self._given("worktree") or ""
        if known.problem:
            words = f"none: {sanitize_line(known.problem, 200)}"
        else:
            words = f"{NEW if known.has_default else NONE}, {_SETTINGS}"
        self._input("worktree").placeholder = words
        is_new = (known.has_default if not choice else choice != NONE) and not known.problem
        is_new = is_new and choice not in known.worktrees and "/" not in choice
        base, carry = self._field("base"), self.query_one("#carry", Checkbox)
        base.disabled = carry.disabled = not is_new
        base.placeholder = (
            f"{sanitize_line(known.head, 100)}, which is checked out"
            if is_new
            else "of a new worktree"
        )
        if not is_new:
            carry.value = False
            base.set_value("")
        self._show_hint()

    # Words

    def _given(self, name: str) -> str | None:
        return self._input(name).value.strip() or None

    def _input(self, name: str) -> Input:
        return self.query_one(f"#{name}", Input)

    def _field(self, name: str) -> SelectField:
        return self.query_one(f"#{name}", SelectField)

    def _show_hint(self) -> None:
        id_ = (self.focused.id if self.focused is not None else None) or ""
        words = _HINTS.get("limits" if id_.startswith("limit-") else id_, "")
        if self._is_starting:
            words = "starting …"
        hint = self.query_one("#hint", Label)
        hint.set_class(bool(self._error), "-bad")
        hint.update(Content(f"{glyphs.FAILED} {self._error}" if self._error else words))

    def _show_error(self, words: str) -> None:
        """Show why it cannot be started, and go where the cause is."""
        self._error = sanitize_line(words, 400)
        base = self._given("base")
        field = _FIELDS.get(words.partition(":")[0])
        if field is None and base is not None and repr(base) in words:
            field = "base"
        if field is not None:
            widget = self.query_one(f"#{field}")
            if self.query_one("#further") in widget.ancestors:
                self._is_more = True
                self._fold()
            widget.focus()
        self._show_hint()


_SETTINGS = "as the settings say"
_DEFAULT = "default"
_NOT_YET = "not connected yet"
_AGENTS_OWN = "the agent's own"
_KEYS = "ctrl+s start · ctrl+o {} · ↑↓ choose · esc cancel"
_EXAMPLE = "tools=read allow='bash(make:*)'"
_HINTS = {
    "host": "the machine that it works on; its directory, settings and logins are of that one",
    "agent": "type to filter; enter chooses, enter again starts",
    "prompt": "what it is to do; enter starts, ctrl+j new line; empty: it waits",
    "cwd": "where it works, or of which repository it gets a worktree; tab completes a path",
    "name": "how you call it; also names its worktree and branch",
    "model": "one of the list, or any name that the agent takes",
    "mode": "what it may do without asking",
    "effort": "how much the model thinks",
    "worktree": f"{NEW}, {NONE}, one that exists, or a name or path of your own",
    "base": "a branch, a tag or a commit that the new worktree starts from",
    "carry": "space: changed and untracked files come along; yours stay",
    "budget": f"for all its turns and all that it starts: {BUDGET_EXAMPLES}",
    "limits": "where one turn is ended; empty: as the settings say",
    "more": "other options, as name=value",
}
_FIELDS = {
    "options": "more",
    "worktree": "worktree",
    "base": "base",
    "carry": "worktree",
    "mode": "mode",
    "effort": "effort",
    "budget": "budget",
    **{f"limits.{name}": f"limit-{name}" for name in LIMITS},
}
"""The field that an error is about, by its first word."""
