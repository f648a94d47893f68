"""The form that starts an agent: which, where, its task, and its options as a line of text."""

import shlex
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, TextArea

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.session_options import SessionLimits, SessionOptions

from ..sanitize import sanitize_line, sanitize_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OptionTextError", "SpawnScreen", "parse_option_text"]

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


MODES = ("ask", "read-only", "accept-edits", "plan", "full-auto", "deny-all")
EFFORTS = ("off", "low", "medium", "high")


class SpawnScreen(ModalScreen[SpawnOptions | None]):
    """Gives the wish, or None.

    Args:
        cwd: the directory that is offered.
        prompt: what is filled in already.
        agents: the agents that can be used here.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "cancel"),
        Binding("ctrl+s", "start", "start"),
    ]

    def __init__(self, cwd: str, prompt: str, agents: "Sequence[str]") -> None:
        super().__init__()
        self._cwd = cwd
        self._prompt = prompt
        self._agents = agents

    def compose(self) -> ComposeResult:
        """The parts."""
        agents = [sanitize_line(agent, 60) for agent in self._agents]
        found = ", ".join(agents)
        with Vertical(id="box") as box:
            box.border_title = "start an agent"
            box.border_subtitle = "ctrl+s start · tab next field · esc cancel"
            with VerticalScroll():
                yield Label("agent; installed: " + found, markup=False)
                yield Input(
                    agents[0] if agents else "native",
                    id="agent",
                    suggester=SuggestFromList(agents),
                )
                yield Label("task")
                yield TextArea(sanitize_text(self._prompt), id="prompt", compact=True)
                yield Label("directory")
                yield Input(sanitize_line(self._cwd), id="cwd")
                yield Label("name, model, permission mode and effort (optional)")
                yield Input(id="name", placeholder="name")
                yield Input(id="model", placeholder="model")
                yield Input(
                    id="mode",
                    placeholder="mode: " + ", ".join(MODES),
                    suggester=SuggestFromList(MODES),
                )
                yield Input(
                    id="effort",
                    placeholder="effort: " + ", ".join(EFFORTS),
                    suggester=SuggestFromList(EFFORTS),
                )
                yield Label("other options of spawn as name=value (optional)")
                yield Input(
                    id="more",
                    placeholder="worktree=yes tools=read limits.cost=2 allow='bash(make:*)'",
                )

    def on_mount(self) -> None:
        """Begin where something is missing."""
        self.query_one("#agent" if self._prompt else "#prompt").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter starts."""
        event.stop()
        self.action_start()

    def action_start(self) -> None:
        """Give the wish back."""

        def given(name: str) -> str | None:
            return self.query_one(f"#{name}", Input).value.strip() or None

        cwd = given("cwd")
        try:
            session_options = parse_option_text(
                given("more") or "",
                agent=given("agent") or "native",
                cwd=self._cwd if cwd is None or cwd == sanitize_line(self._cwd) else cwd,
                model=given("model"),
                mode=given("mode"),
                effort=given("effort"),
            )
        except OptionTextError as error:
            self.notify(sanitize_line(str(error), 200), severity="error", markup=False)
            self.query_one("#more").focus()
            return
        options = SpawnOptions(
            options=session_options,
            name=given("name"),
            prompt=self.query_one("#prompt", TextArea).text.strip() or None,
        )
        self.dismiss(options)
