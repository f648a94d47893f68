"""Every key and every command, from the bindings themselves; can be searched."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from ..commands.registry import COMMANDS
from ..rendering.lines import Line, clip, indented, plain, wrap
from ..sanitize import sanitize_line
from ..widgets.lines_view import LinesView

if TYPE_CHECKING:
    from ..preferences.store import Preferences
    from .main import MainScreen

__all__ = [
    "HelpScreen",
    "HelpSection",
    "collect_command_keys",
    "collect_key_help",
]

HelpSection: TypeAlias = tuple[str, list[tuple[str, str]]]
"""A title, and below it keys and what they do."""

_NAMES = {
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "question_mark": "?",
    "slash": "/",
    "backslash": "\\",
    "plus": "+",
    "minus": "-",
    "full_stop": ".",
    "comma": ",",
    "colon": ":",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


_TITLES = {
    "ChatInput": "In the input",
    "TranscriptView": "In the transcript",
    "AgentTable": "In the agent table",
}


def collect_command_keys(
    preferences: "Preferences", bindings: "Mapping[str, Binding]"
) -> dict[str, str]:
    """The key of each command that has one, as a person calls it.

    Args:
        preferences: the person's own keys come before ours.
        bindings: ours that work now, by their keys.
    """
    from ..keyboard import find_command_of_action

    found: dict[str, str] = {}
    mine = {bound.key for bound in preferences.keymap if bound.when == "main"}
    for bound in preferences.keymap:
        if bound.when == "main" and bound.command and not bound.words:
            found.setdefault(bound.command, format_key(bound.key))
    for key, binding in bindings.items():
        name = find_command_of_action(binding.action.removeprefix("app."))
        if name is not None and key not in mine and " " not in name:
            found.setdefault(name, format_key(key))
    return found


def collect_key_help(
    preferences: "Preferences | None" = None, main: "MainScreen | None" = None
) -> list[HelpSection]:
    """Titles, and below each the keys and what they do, as they are at the moment.

    Args:
        preferences: the person's own keys; None: the defaults.
        main: the widgets that are shown, and the one with the focus, whose keys come first; None:
            no widget is.
    """
    from ..keyboard import WORKBENCH_BINDINGS
    from .permission import PermissionCard
    from .question import QuestionForm

    keymap = preferences.keymap if preferences is not None else ()
    mine = {bound.key for bound in keymap if bound.when == "main"}
    shown = _shown_parts(main, mine)
    here = _title_of_focus(main)
    parts: list[HelpSection] = [
        *(
            (f"Here, {title[:1].lower()}{title[1:]}", rows)
            for title, rows in shown
            if title in here
        ),
        ("Everywhere", [*_keys(WORKBENCH_BINDINGS, without=mine), *_palette(mine)]),
        *(_person(preferences) if preferences is not None else ()),
        *((title, rows) for title, rows in shown if title not in here),
        *_panel_parts(main, mine),
        ("When an agent needs permission", _keys(PermissionCard.BINDINGS, hidden=False)),
        ("When an agent asks a question", _keys(QuestionForm.BINDINGS)),
        ("Commands", [(f"/{command.name}", command.help) for command in COMMANDS]),
    ]
    return [part for part in parts if part[1]]


def _palette(mine: set[str]) -> list[tuple[str, str]]:
    return [] if "ctrl+p" in mine else [("ctrl+p", "search all commands")]


def _person(preferences: "Preferences") -> list[HelpSection]:
    rows = [
        (format_key(bound.key), bound.shown + (f" in {bound.when}" if bound.when != "main" else ""))
        for bound in preferences.keymap
    ]
    how = [
        ("/bind KEY COMMAND", "bind a key; add @transcript, @agents, … to bind it only there"),
        ("/unbind KEY", "unbind a key; /rebind KEY restores the default"),
    ]
    if preferences.keys_file is not None:
        how.append(("keys.toml", f"{preferences.keys_file}"))
    return [("Your own keys", rows + how)]


def _shown_parts(main: "MainScreen | None", mine: set[str]) -> list[HelpSection]:
    """The keys of what is on the screen; what has the focus comes first."""
    from ..widgets.agent_table import AgentTable
    from ..widgets.chat_input import ChatInput
    from ..widgets.transcript import TranscriptView

    parts: dict[str, list[tuple[str, str]]] = {}
    if main is not None:
        nodes = [*(main.focused.ancestors_with_self if main.focused else ())]
        for node in [*nodes, *main.query("*")]:
            kind = type(node)
            if "BINDINGS" in vars(kind) and _is_ours(kind) and not issubclass(kind, App):
                parts.setdefault(f"In {_plain(kind.__name__)}", _widget_keys(kind, mine))
    for kind in (ChatInput, TranscriptView, AgentTable):
        title = _TITLES[kind.__name__]
        parts.pop(f"In {_plain(kind.__name__)}", None)
        rows = _widget_keys(kind, mine)
        if kind is ChatInput:
            rows.append(("/name", "run a command, see below"))
        parts[title] = rows
    return [part for part in parts.items() if part[1]]


def _title_of_focus(main: "MainScreen | None") -> list[str]:
    """The titles of what has the focus, and of what is around it."""
    focused = main.focused if main is not None else None
    nodes = focused.ancestors_with_self if focused is not None else ()
    return [_TITLES.get(name, f"In {_plain(name)}") for name in (type(n).__name__ for n in nodes)]


def _panel_parts(main: "MainScreen | None", mine: set[str]) -> list[HelpSection]:
    """The keys of panels that are not on the screen now."""
    from ..panels.kinds import KINDS

    panels = list(main.view.panels.values()) if main is not None else []
    shown = {type(panel) for panel in panels}
    parts: list[HelpSection] = []
    for kind in KINDS.values():
        made = kind.load()
        if made not in shown:
            parts.append((f"In the {kind.name} panel", _widget_keys(made, mine)))
    return parts


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("quarterdeck.workbench.")


def _plain(name: str) -> str:
    for end in ("Panel", "View", "Table", "Input", "Screen"):
        name = name.removesuffix(end)
    return name.strip("_").lower() or "the screen"


def _widget_keys(kind: type, mine: set[str]) -> list[tuple[str, str]]:
    """The keys of a widget and of those of ours that it is made of."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if _is_ours(base) and "BINDINGS" in vars(base):
            for key, words in _keys(vars(base)["BINDINGS"], without=mine):
                found.setdefault(key, words)
    return list(found.items())


def format_key(key: str) -> str:
    """A key as a person calls it."""
    *modifiers, base = key.split("+")
    return "+".join([*modifiers, _NAMES.get(base, base)])


def _keys(
    bindings: Iterable[BindingType], *, hidden: bool = True, without: Iterable[str] = ()
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for binding in bindings:
        if isinstance(binding, Binding) and binding.description and (binding.show or hidden):
            keys = [key.strip() for key in binding.key.split(",") if key.strip() not in without]
            if keys:
                shown = binding.key_display or ", ".join(map(format_key, keys))
                found.append((shown, binding.description))
    return list(dict.fromkeys(found))  # keys that are shown as one are a single row


_MOST_KEY = 34


class _Help(LinesView, can_focus=False):
    def __init__(self, parts: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        super().__init__(id="help")
        self._parts = parts
        self._query: list[str] = []

    def seek(self, words: str) -> None:
        self._query = words.lower().split()
        self.update()
        self.scroll_to(y=0, animate=False)

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, rows in self._parts:
            shown = [row for row in rows if self._fits(title, *row)]
            if not shown:
                continue
            lines.append(plain(sanitize_line(title), "heading"))
            wide = min(_MOST_KEY, width // 2, max(len(key) for key, _ in shown) + 2)
            for key, words in shown:
                keys = sanitize_line(key)
                before = (f"  {keys:<{wide}}", "key")
                if len(keys) + 2 > wide:
                    lines.append(clip((before,), width))
                    before = (" " * (wide + 2), "text")
                words_at = wrap([(sanitize_line(words), "text")], max(10, width - wide - 2))
                lines += indented(words_at, before, (" " * (wide + 2), "text"))
            lines.append(())
        return lines or [plain("no matches", "faint")]

    def _fits(self, *words: str) -> bool:
        text = " ".join(words).lower()
        return all(word in text for word in self._query)


class HelpScreen(ModalScreen[None]):
    """Shows rows of keys and words under titles; what is typed narrows them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,f10", "dismiss(None)", "close"),
        Binding("up", "scroll(-1)", "up"),
        Binding("down", "scroll(1)", "down"),
        Binding("pageup", "scroll(-15)", "a page up"),
        Binding("pagedown", "scroll(15)", "a page down"),
    ]

    def __init__(
        self,
        parts: Sequence[tuple[str, Sequence[tuple[str, str]]]],
        *,
        title: str = "help",
        query: str = "",
    ) -> None:
        super().__init__()
        self._parts = parts
        self._named = title
        self._query = query

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(sanitize_line(self._named, 60))
            box.border_subtitle = "type to search · esc close"
            yield Input(self._query, placeholder="search", id="sought")
            yield _Help(self._parts)

    def on_mount(self) -> None:
        """Let keys search."""
        self.query_one(Input).focus()
        self.query_one(_Help).seek(self._query)

    @on(Input.Changed, "#sought")
    def _query_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(_Help).seek(event.value)

    def action_scroll(self, lines: int) -> None:
        """Move what is shown."""
        self.query_one(_Help).scroll_relative(y=lines, animate=False)
