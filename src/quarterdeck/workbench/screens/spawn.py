"""The form that starts an agent: which, where, its task, its worktree, and its options as a line
of text.
"""

import asyncio
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input, Label, TextArea

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.policy.modes import MODES
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from quarterdeck.wire.settings import Effort
from quarterdeck.wire.worktrees import WorktreeOptions

from ..sanitize import sanitize_line, sanitize_text
from .dialogs import ChoiceInput, FieldRow
from .question import FormCheckbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.app import App
    from textual.timer import Timer

    from ..context import WorkbenchContext

__all__ = [
    "OptionTextError",
    "SpawnDirectory",
    "SpawnScreen",
    "look_at_directory",
    "parse_option_text",
    "parse_worktree_choice",
]

_LISTS = ("roots", "allow", "deny", "tools", "denied_tools")
_TEXTS = ("transport", "agent_mode", "effort", "system_prompt", "resume", "fork")
_LIMITS = tuple(f"limits.{name}" for name in SessionLimits.__struct_fields__)
_VARIABLE = "environment."
_WORKTREE = ("worktree", "worktree.base", "worktree.carry", "worktree.path")
_WORDS: dict[str, dict[str, Any]] = {
    "yes": {},
    "true": {},
    "no": {"is_off": True},
    "false": {"is_off": True},
}
"""What a worktree is asked for with, besides its name."""


class OptionTextError(QuarterdeckError):
    """The text is not understood; the message says which part and what there is."""


def parse_option_text(text: str, **fields: Any) -> SessionOptions:
    """The options that a text sets, with these fields besides; a list is one word for each value.

    Words are separated and quoted as in a shell. ``environment.NAME=value`` sets a variable;
    ``worktree`` is ``yes``, ``no`` or a name.

    Raises:
        OptionTextError: there is no such option, or it has no such value.
    """
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionTextError(f"options: {str(error).lower()} in {text!r}") from error
    for word in words:
        name, is_set, value = word.partition("=")
        if not is_set:
            raise OptionTextError(f"options: write {word!r} as name=value")
        _put(given, name, value)
    try:
        return msgspec.convert(given, SessionOptions, strict=False)
    except msgspec.ValidationError as error:
        raise OptionTextError(f"options: {error}") from error


def _put(given: dict[str, Any], name: str, value: str) -> None:
    if name in _LISTS:
        given.setdefault(name, []).append(value)
    elif name in _TEXTS:
        given[name] = value
    elif name in _LIMITS:
        given.setdefault("limits", {})[name.removeprefix("limits.")] = value
    elif name == "worktree":
        given.setdefault("worktree", {}).update(_WORDS.get(value, {"name": value}))
    elif name in _WORKTREE:
        given.setdefault("worktree", {})[name.removeprefix("worktree.")] = value
    elif name.startswith(_VARIABLE) and name != _VARIABLE:
        given.setdefault("environment", {})[name.removeprefix(_VARIABLE)] = value
    else:
        known = ", ".join((*_TEXTS, *_LISTS, *_WORKTREE, *_LIMITS, f"{_VARIABLE}NAME"))
        raise OptionTextError(f"options: there is no {name!r}; there are {known}")


EFFORTS: tuple[str, ...] = get_args(Effort)
_NEW, _NONE = "new", "none"
_MOST_BRANCHES = 200
_SETTLE = 0.3
"""Seconds after the last key in the directory before it is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnDirectory:
    """What the form has to know of a directory for its worktrees."""

    problem: str = ""
    """Why no worktree can be made here; empty: one can."""
    head: str = ""
    """What is checked out: a new worktree starts from it."""
    has_default: bool = False
    """A new agent gets a worktree here unless somebody says otherwise."""
    worktrees: tuple[str, ...] = ()
    """The names of those that agents have already."""
    branches: tuple[str, ...] = ()


def parse_worktree_choice(
    choice: str, base: str, carry: bool, known: SpawnDirectory, cwd: str = "/"
) -> WorktreeOptions | None:
    """The worktree that the fields of the form ask for; None: what the settings say.

    Raises:
        OptionTextError: they do not fit together, or there is no repository.
    """
    makes_new = choice == _NEW or (not choice and known.has_default)
    is_path = "/" in choice or choice.startswith(("~", "."))
    exists = is_path or choice in known.worktrees
    if choice in ("", _NONE) and not makes_new:
        if base or carry:
            field = "base" if base else "carry"
            raise OptionTextError(f"{field}: needs a worktree; choose {_NEW!r} for it")
        return WorktreeOptions(is_off=True) if choice else None
    if known.problem and not is_path:
        raise OptionTextError(f"worktree: {known.problem}")
    if exists and (base or carry):
        field = "base" if base else "carry"
        raise OptionTextError(f"{field}: only for a new worktree, and {choice!r} exists")
    if is_path:
        return WorktreeOptions(path=str(Path(cwd, Path(choice).expanduser())))
    if exists:
        return WorktreeOptions(path=choice)
    if not choice and not base and not carry:
        return None
    return WorktreeOptions(name=None if makes_new else choice, base=base or None, carry=carry)


async def look_at_directory(context: "WorkbenchContext", cwd: str) -> SpawnDirectory:
    """What there is for worktrees in a directory."""
    try:
        found = await asyncio.to_thread(_read_directory, cwd)
        if found.problem:
            return found
        listed = await context.fleet.worktrees(repository=cwd)
        names = tuple(one.name for one in listed if one.problem is None)
        return replace(found, worktrees=names, has_default=await _has_default(context, cwd))
    except QuarterdeckError as error:
        return SpawnDirectory(problem=str(error))


async def _has_default(context: "WorkbenchContext", cwd: str) -> bool:
    places = context.discovery.places
    if places is None:
        return False
    from quarterdeck.agent.environment import prepare_environment

    session_environment = await prepare_environment(places, context.discovery.environment, cwd)
    return session_environment.settings.worktrees.default


def _read_directory(cwd: str) -> SpawnDirectory:
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.references import BRANCHES, list_references
    from quarterdeck.system.git.repository import find_repository

    if not Path(cwd).is_dir():
        return SpawnDirectory(problem=f"there is no directory {cwd!r}")
    try:
        repository = find_repository(cwd)
        if repository is None:
            return SpawnDirectory(problem="the directory is not in a git repository")
        names = [name.removeprefix(BRANCHES) for name in list_references(repository, BRANCHES)]
        head = repository.branch if repository.is_on_branch else "HEAD"
    except GitError as error:
        return SpawnDirectory(problem=str(error))
    return SpawnDirectory(head=head or "HEAD", branches=tuple(names[:_MOST_BRANCHES]))


class SpawnScreen(ModalScreen[None]):
    """Asks for an agent and starts it. What cannot be started stays in the form, with the reason.

    Args:
        cwd: the directory that is offered.
        prompt: what is filled in already.
        agents: the agents that can be used here.
        start: starts one; raises QuarterdeckError if that is refused.
        look: what there is for worktrees in a directory.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "cancel"),
        Binding("ctrl+s", "start", "start"),
    ]

    def __init__(
        self,
        cwd: str,
        prompt: str,
        agents: "Sequence[str]",
        *,
        start: "Callable[[SpawnOptions], Awaitable[None]]",
        look: "Callable[[str], Awaitable[SpawnDirectory]]",
    ) -> None:
        super().__init__()
        self._cwd = cwd
        self._prompt = prompt
        self._agents = [sanitize_line(agent, 60) for agent in agents]
        self._start_agent = start
        self._look = look
        self._known = SpawnDirectory()
        self._looking: Timer | None = None
        self._is_starting = False
        self._error = ""
        """Why it was not started; until something is changed."""

    def compose(self) -> ComposeResult:
        """The parts."""
        agents = self._agents
        task = TextArea(sanitize_text(self._prompt), id="prompt", compact=True)
        agent = ChoiceInput(agents[0] if agents else "native", id="agent", choices=agents)
        with Vertical(id="box") as box:
            box.border_title = "start an agent"
            box.border_subtitle = _KEYS
            with VerticalScroll():
                yield FieldRow("agent", agent)
                yield FieldRow("task", task)
                yield FieldRow("directory", Input(sanitize_line(self._cwd), id="cwd"))
                yield FieldRow("name", Input(id="name", placeholder="chosen for you"), begins=True)
                yield FieldRow("model", Input(id="model", placeholder="the agent's own"))
                yield FieldRow("mode", ChoiceInput(id="mode", choices=MODES))
                yield FieldRow("effort", ChoiceInput(id="effort", choices=EFFORTS))
                worktree = ChoiceInput(id="worktree", choices=(_NEW, _NONE))
                yield FieldRow("worktree", worktree, begins=True)
                yield FieldRow("base", ChoiceInput(id="base"))
                yield FieldRow("carry", FormCheckbox("copy my uncommitted changes", id="carry"))
                yield FieldRow("options", Input(id="more", placeholder=_EXAMPLE), begins=True)
            yield Label(id="hint", markup=False)

    def on_mount(self) -> None:
        """Begin where something is missing."""
        for name in ("mode", "effort"):
            self._input(name).placeholder = "as the settings say"
        self._show_worktree()
        self._find_out()
        self.query_one("#agent" if self._prompt else "#prompt").focus()

    def on_descendant_focus(self) -> None:
        """Say what the field is for."""
        self._show_hint()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter starts."""
        event.stop()
        self.action_start()

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

    def action_start(self) -> None:
        """Start the agent that the form describes."""
        if self._is_starting:
            return
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
        app.run_worker(self._start(options), group="spawn")

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
        more = parse_option_text(self._given("more") or "")
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
            self._given("more") or "",
            agent=self._given("agent") or "native",
            cwd=self._directory,
            model=self._given("model"),
            mode=self._given("mode"),
            **{} if more.effort else {"effort": self._given("effort")},
        )
        return SpawnOptions(
            options=msgspec.structs.replace(options, worktree=worktree or more.worktree),
            name=self._given("name"),
            prompt=self.query_one("#prompt", TextArea).text.strip() or None,
        )

    # Worktrees

    @property
    def _directory(self) -> str:
        cwd = self._given("cwd")
        return self._cwd if cwd is None or cwd == sanitize_line(self._cwd) else cwd

    def _find_out(self) -> None:
        self.run_worker(self._look_again(), group="look", exclusive=True)

    async def _look_again(self) -> None:
        self._known = known = await self._look(self._directory)
        # A name that is no plain text cannot be typed either.
        names = [name for name in known.worktrees if name == sanitize_line(name, 100)]
        branches = [name for name in known.branches if name == sanitize_line(name, 100)]
        self.query_one("#worktree", ChoiceInput).offer((_NEW, _NONE, *names))
        self.query_one("#base", ChoiceInput).offer(branches)
        self._show_worktree()

    def _show_worktree(self) -> None:
        """Say what an empty field means, and ask only for what counts."""
        known, choice = self._known, self._given("worktree") or ""
        if known.problem:
            words = f"none: {sanitize_line(known.problem, 200)}"
        elif known.has_default:
            words = "new, as the settings say"
        else:
            words = "none, as the settings say"
        self._input("worktree").placeholder = words
        is_new = (known.has_default if not choice else choice != _NONE) and not known.problem
        is_new = is_new and choice not in known.worktrees and "/" not in choice
        base, carry = self._input("base"), self.query_one("#carry", Checkbox)
        base.disabled = not is_new
        base.placeholder = (
            f"{sanitize_line(known.head, 100)}, which is checked out"
            if is_new
            else "of a new worktree"
        )
        carry.disabled = not is_new
        if not is_new:
            base.value, carry.value = "", False
        self._show_hint()

    # Words

    def _given(self, name: str) -> str | None:
        return self._input(name).value.strip() or None

    def _input(self, name: str) -> Input:
        return self.query_one(f"#{name}", Input)

    def _show_hint(self) -> None:
        lists = {
            "agent": f"↑↓ choose; installed: {', '.join(self._agents)}",
            "mode": f"↑↓ choose: {', '.join(MODES)}",
            "effort": f"↑↓ choose: {', '.join(EFFORTS)}",
        }
        field = self.focused.id if self.focused is not None else None
        words = lists.get(field or "") or _HINTS.get(field or "", "")
        if self._is_starting:
            words = "starting …"
        hint = self.query_one("#hint", Label)
        hint.set_class(bool(self._error), "-bad")
        hint.update(f"✗ {self._error}" if self._error else words)

    def _show_error(self, words: str) -> None:
        """Show why it cannot be started, and go where the cause is."""
        self._error = sanitize_line(words, 400)
        base = self._given("base")
        field = _FIELDS.get(words.partition(":")[0])
        if field is None and base is not None and repr(base) in words:
            field = "base"
        if field is not None:
            self.query_one(f"#{field}").focus()
        self._show_hint()


_KEYS = "ctrl+s start · tab next field · ↑↓ choose · esc cancel"
_EXAMPLE = "tools=read limits.cost=2 allow='bash(make:*)'"
_HINTS = {
    "prompt": "what it is to do; empty: it waits for a prompt",
    "cwd": "where it works, or of which repository it gets a worktree",
    "name": "how you call it; also names its worktree and branch",
    "model": "by the agent's own name for it",
    "worktree": "↑↓ choose: new, none or one that exists; or type a name or a path",
    "base": "↑↓ choose: a branch; or type a tag or a commit to start from",
    "carry": "space: changed and untracked files come along; yours stay",
    "more": "other options of spawn, as name=value",
}
_FIELDS = {"options": "more", "worktree": "worktree", "base": "base", "carry": "worktree"}
"""The field that an error is about, by its first word."""
