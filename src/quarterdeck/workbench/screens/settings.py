"""The settings on the screen: every one with its value, where that comes from and what it is for;
changed with a scope, and checked before anything is written.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from quarterdeck.config.display import (
    SettingFact,
    describe_effect,
    describe_setting_text,
    setting_facts,
)
from quarterdeck.config.errors import ConfigError
from quarterdeck.config.loader import Config, load_config, variable_of
from quarterdeck.config.schema import FREE_OF_TRUST
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.validation import (
    Key,
    choices_of,
    describe_type,
    key_matches,
    spell_key,
    tables_of,
)
from quarterdeck.config.workspace import find_workspace
from quarterdeck.config.writer import (
    SETTING_SCOPES,
    SettingScope,
    find_scope_file,
    parse_setting_value,
    read_own_value,
    remove_setting,
    write_setting,
)
from quarterdeck.policy.modes import MODE_MEANINGS
from quarterdeck.wire.errors import QuarterdeckError

from ..rendering import glyphs
from ..rendering.lines import Line, Span, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LinesView
from ..widgets.picker import Picker
from ..widgets.select import SelectField, SelectOption
from .dialogs import FieldRow
from .spawn_model import EFFORT_WORDS

if TYPE_CHECKING:
    from quarterdeck.config.places import Places

__all__ = ["SettingsFiles", "SettingsScreen", "format_setting_value"]

_LAYERS = {
    **{name: name for name in ("default", "project", "local", "environment", "flag")},
    "user": "your file",
}
_DEFAULT = "the default"
_WITH_TEXT = 40
"""Cells beside name and value from which on a row says what the setting is for."""
_SCOPE_WORDS = {"user": "your file", "project": "shared with the project", "local": "only here"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What was read of the files."""

    config: Config
    facts: Sequence[SettingFact]
    texts: Mapping[Key, str]
    """What each setting is for."""
    paths: Mapping[SettingScope, str]
    is_trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFiles:
    """The files of settings that count in a directory. Every method blocks."""

    places: "Places"
    directory: Path
    environment: Mapping[str, str]

    @property
    def is_trusted(self) -> bool:
        """Whether the project's files count in full. Raises ConfigError."""
        project = find_workspace(self.directory).project
        return TrustStore(self.places.trust_file).is_trusted(project)

    def load(self) -> Config:
        """The settings in force. Raises ConfigError."""
        return load_config(
            self.places,
            directory=self.directory,
            environ=self.environment,
            trusted=self.is_trusted,
        )

    def read(self) -> _Loaded:
        """All that a screen shows. Raises ConfigError."""
        config = self.load()
        facts = setting_facts(config)
        return _Loaded(
            config=config,
            facts=facts,
            texts={one.key: describe_setting_text(one.setting) for one in facts},
            paths={scope: self.shorten(str(self.find(scope))) for scope in SETTING_SCOPES},
            is_trusted=self.is_trusted,
        )

    def read_own(self, key: Key, scope: SettingScope) -> Any:
        """The value that the file of a scope itself has; None: none. Raises ConfigError."""
        return read_own_value(self.find(scope), key)

    def shorten(self, path: str) -> str:
        """A path as people write it, for the screen; reads nothing."""
        home = self.environment.get("HOME", "")
        is_below = bool(home) and path.startswith(f"{home}/")
        return sanitize_line(f"~{path[len(home) :]}" if is_below else path, 300)

    def find(self, scope: SettingScope) -> Path:
        """The file of a scope."""
        return find_scope_file(self.places, self.directory, scope)

    def change(self, fact: SettingFact, text: str, scope: SettingScope) -> None:
        """Set a setting to what a text stands for.

        Raises:
            ConfigError: it does not fit, or cannot be written; nothing was.
            RuleError: it is a permission rule that cannot be read.
        """
        value = parse_setting_value(fact.key, fact.setting, [text])
        if fact.key[0] == "permissions" and isinstance(value, list):
            from quarterdeck.policy.grammar import parse_rule

            for rule in value:
                parse_rule(f"{fact.key[-1]} {rule}")
        write_setting(self.find(scope), fact.key, value, is_shared=scope != "user")

    def reset(self, key: Key, scope: SettingScope) -> bool:
        """Take a setting out of a file; False if it is not there. Raises ConfigError."""
        return remove_setting(self.find(scope), key, is_shared=scope != "user")


def format_setting_value(value: Any) -> str:
    """A value as a person types it; nothing is a dash."""
    if value is None:
        return glyphs.UNKNOWN
    if isinstance(value, str):
        return value
    if isinstance(value, tuple | list):
        items = cast("Sequence[Any]", value)
        texts = [one if isinstance(one, str) else "{…}" for one in items]
        return json.dumps(texts, ensure_ascii=False)
    return json.dumps(value)


class _Rows(Picker, can_focus=False):
    """The settings that match, below the names of their tables."""

    def __init__(self) -> None:
        super().__init__(id="settings")
        self.facts: Sequence[SettingFact] = ()
        self.texts: Mapping[Key, str] = {}
        """What each setting is for, where there is room for it."""

    def rows(self, width: int) -> list[tuple[str, Line]]:
        names = max((len(one.key[-1]) for one in self.facts), default=8) + 4
        wide = min(names, max(12, width // 3))
        value = max(8, min(28, width - wide - 14))
        rows: list[tuple[str, Line]] = []
        above: Key = ()
        for one in self.facts:
            if one.key[:-1] != above:
                above = one.key[:-1]
                rows.append((f"\0{above}", ((sanitize_line(spell_key(above)), "faint"),)))
            text = self.texts.get(one.key, "") if width - wide - value >= _WITH_TEXT else ""
            rows.append((spell_key(one.key), (*_row(one, wide, value), (text, "faint"))))
        return rows


def _row(fact: SettingFact, wide: int, value_width: int) -> Line:
    is_set = fact.source.layer != "default"
    indent = "  " if fact.key[:-1] else ""
    name = indent + sanitize_line(fact.key[-1], wide - len(indent) - 1)
    value = sanitize_line(format_setting_value(fact.value), value_width - 2)
    return (
        (f"{name:<{wide}}", "strong" if is_set else "text"),
        (f"{value:<{value_width}}", "text" if is_set else "faint"),
        (f"{_LAYERS[fact.source.layer]:<13}", "running" if is_set else "faint"),
    )


class _Facts(LinesView, can_focus=False):
    """What the setting under the cursor is for, or why there are none."""

    def __init__(self) -> None:
        super().__init__(id="facts")
        self._parts: Sequence[Span] = ()

    def show(self, parts: Sequence[Span]) -> None:
        self._parts = parts
        self.update()

    def lines(self, width: int) -> list[Line]:
        return [line for part in self._parts for line in wrap([part], width)]


def _describe_values(fact: SettingFact) -> str:
    """What a setting takes: its values as a list, or what they are."""
    values = choices_of(fact.setting.accepts)
    if len(values) < 2:
        return describe_type(fact.setting.accepts)
    return f"{', '.join(values[:-1])} or {values[-1]}"


class SettingsScreen(ModalScreen[None]):
    """Lists the settings; one is changed below the list.

    Args:
        files: where they are.
        query: what is searched for at first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "up", show=False),
        Binding("down", "step(1)", "down", show=False),
        Binding("pageup", "step(-10)", "up", show=False),
        Binding("pagedown", "step(10)", "down", show=False),
        Binding("ctrl+r", "reset", "reset", priority=True),
        Binding("ctrl+s", "save", "save"),
        Binding("escape", "leave", "close"),
    ]

    def __init__(self, files: SettingsFiles, query: str = "") -> None:
        super().__init__()
        self._files = files
        self._query = query
        self._loaded: _Loaded | None = None
        self._editing: SettingFact | None = None
        self._notice: Span | None = None

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "settings"
            yield Input(
                sanitize_line(self._query), placeholder="search: mode, sandbox, cost …", id="search"
            )
            yield _Rows()
            yield _Facts()
            with Vertical(id="edit"):
                yield FieldRow("value", SelectField(id="value", is_free=True))
                yield FieldRow("scope", SelectField("user", id="scope", is_needed=True), noted=True)
                yield Label(id="problem", markup=False)

    def on_mount(self) -> None:
        """Read the files."""
        self.query_one("#edit").display = False
        self.query_one("#search").focus()
        self._tell()
        self._load()

    def _load(self) -> None:
        self.run_worker(self._read, exclusive=True, group="settings")

    async def _read(self) -> None:
        try:
            self._loaded = await asyncio.to_thread(self._files.read)
        except QuarterdeckError as error:
            self._loaded = None
            words = f"{glyphs.FAILED} {error}\nFix the file, then press ctrl+r."
            self._notice = (sanitize_text(words), "bad")
        self._filter()

    @property
    def _facts(self) -> Sequence[SettingFact]:
        return self._loaded.facts if self._loaded is not None else ()

    # The list

    @on(Input.Changed, "#search")
    def _filter(self) -> None:
        rows = self.query_one(_Rows)
        words = self.query_one("#search", Input).value.lower().split()
        texts: Mapping[Key, str] = self._loaded.texts if self._loaded is not None else {}
        rows.texts = texts
        rows.facts = [one for one in self._facts if _matches(one, texts[one.key], words)]
        keys = [spell_key(one.key) for one in rows.facts]
        if rows.cursor not in keys:
            rows.cursor = keys[0] if keys else None
        rows.update()
        rows.place(rows.cursor)
        self._tell()
        self._show_facts()

    def action_step(self, step: int) -> None:
        """Go to another setting."""
        rows = self.query_one(_Rows)
        keys = [spell_key(one.key) for one in rows.facts]
        if self._editing is None and keys:
            at = keys.index(rows.cursor) + step if rows.cursor in keys else 0
            rows.place(keys[max(0, min(len(keys) - 1, at))])
            self._notice = None
            self._show_facts()

    @on(Picker.Chosen, "#settings")
    def _clicked(self, event: Picker.Chosen) -> None:
        event.stop()
        if self._editing is None and self._current is not None:
            self._notice = None
            self._show_facts()
            self._edit()

    @property
    def _current(self) -> SettingFact | None:
        rows = self.query_one(_Rows)
        return next((one for one in rows.facts if spell_key(one.key) == rows.cursor), None)

    def _show_facts(self) -> None:
        fact, notice = self._current, [self._notice] if self._notice is not None else []
        if fact is None or self._loaded is None:
            words = "no setting has these words" if self._loaded is not None else ""
            self.query_one(_Facts).show([(words, "faint"), *notice])
            return
        place = self._files.shorten(fact.source.place or "")
        origin = _LAYERS[fact.source.layer] + (f" ({place})" if place else "")
        variable = variable_of(fact.setting)
        details = [f"takes {_describe_values(fact)}", f"from {origin}"]
        details += [f"variable {variable}"] if variable and variable != place else []
        parts: list[Span] = [
            (sanitize_line(spell_key(fact.key), 200), "strong"),
            (self._loaded.texts[fact.key], "text"),
            (sanitize_line(" · ".join(details), 400), "faint"),
        ]
        parts.append((f"a change takes effect {describe_effect(fact.key)}", "faint"))
        self.query_one(_Facts).show([*notice, *parts])

    # One setting

    @on(Input.Submitted, "#search")
    def _wanted(self, event: Input.Submitted) -> None:
        event.stop()
        self._edit()

    def _edit(self) -> None:
        """Let the setting under the cursor be changed."""
        fact = self._current
        if fact is None or self._loaded is None:
            return
        if fact.is_secret or tables_of(fact.setting.accepts) is not None:
            path = self._loaded.paths["user"]
            self._notice = (f"this one can only be changed in a file, such as {path}", "warning")
            self._show_facts()
            return
        self._editing = fact
        scope = _scope_of(fact.source.layer) or "user"
        self._show_scopes(fact, scope)
        field = self.query_one("#value", SelectField)
        field.offer(_list_values(fact), is_free=not _is_closed(fact))
        self.query_one("#edit").display = True
        self._show_problem("")
        self._fill(scope)
        field.focus()
        self._tell()

    def _show_scopes(self, fact: SettingFact, scope: SettingScope) -> None:
        field = self.query_one("#scope", SelectField)
        is_waiting = self._waits_for_trust(fact)
        wait = "; has no effect until you trust this workspace: /trust" if is_waiting else ""
        options = [
            SelectOption(value=one, words=f"{_SCOPE_WORDS[one]}{wait if one != 'user' else ''}")
            for one in SETTING_SCOPES
        ]
        field.offer(options)
        field.set_value(scope)
        self._show_scope()

    @on(SelectField.Taken, "#scope")
    def _scope_taken(self) -> None:
        self._show_scope()
        if self._editing is not None and self._editing.is_added_up:
            self._fill(self._scope)

    def _show_scope(self) -> None:
        field = self.query_one("#scope", SelectField)
        words = field.chosen.words if field.chosen is not None else ""
        for row in self.query(FieldRow):
            if row.noted:
                row.note(words)

    @property
    def _scope(self) -> SettingScope:
        return _scope_of(self.query_one("#scope", SelectField).value) or "user"

    def _fill(self, scope: SettingScope) -> None:
        """Begin with the value that counts; of a list that files add to, with that of the file."""
        fact = self._editing
        assert fact is not None
        if fact.is_added_up:
            self.run_worker(partial(self._fill_own, fact, scope), group="fill", exclusive=True)
            return
        value = "" if fact.value is None else format_setting_value(fact.value)
        self.query_one("#value", SelectField).set_value(sanitize_line(value))

    async def _fill_own(self, fact: SettingFact, scope: SettingScope) -> None:
        try:
            own = await asyncio.to_thread(self._files.read_own, fact.key, scope)
        except ConfigError as error:
            self._show_problem(str(error))
            return
        value = format_setting_value(own) if isinstance(own, list) else "[]"
        self.query_one("#value", SelectField).set_value(sanitize_line(value))

    @on(Input.Submitted, "#value")
    @on(Input.Submitted, "#scope")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_save()

    @on(Input.Changed, "#value")
    def _retyped(self) -> None:
        self._show_problem("")

    @on(SelectField.Taken, "#value")
    def _value_taken(self) -> None:
        if self._editing is not None and _is_closed(self._editing):
            self._show_problem("")

    def action_save(self) -> None:
        """Write the value, if it is one."""
        if self._editing is None:
            self._edit()
            return
        for field in self.query(SelectField):
            field.settle()
        text = self.query_one("#value", SelectField).value.strip()
        if not text:
            self._show_problem("a value is missing; ctrl+r resets it")
            return
        self.run_worker(
            partial(self._save, self._editing, text, self._scope), group="save", exclusive=True
        )

    async def _save(self, fact: SettingFact, text: str, scope: SettingScope) -> None:
        try:
            await asyncio.to_thread(self._files.change, fact, text, scope)
        except QuarterdeckError as error:
            self._show_problem(str(error).removeprefix(f"settings: {spell_key(fact.key)}: "))
            return
        await self._finish(fact, scope, "set")

    def action_reset(self) -> None:
        """Take the setting out of the file of its scope; with none to change, read again."""
        fact = self._editing or self._current
        if fact is None:
            self._notice = None
            self._load()
            return
        layer = fact.source.layer
        scope = self._scope if self._editing is not None else _scope_of(layer)
        if scope is None:
            words = "it has its default" if layer == "default" else f"it comes from the {layer}"
            self._notice = (f"nothing to reset: {words}", "warning")
            self._show_facts()
            return
        self.run_worker(partial(self._reset, fact, scope), group="save", exclusive=True)

    async def _reset(self, fact: SettingFact, scope: SettingScope) -> None:
        try:
            was_there = await asyncio.to_thread(self._files.reset, fact.key, scope)
        except QuarterdeckError as error:
            self._show_problem(str(error))
            return
        await self._finish(fact, scope, "reset" if was_there else "was not set")

    async def _finish(self, fact: SettingFact, scope: SettingScope, done: str) -> None:
        """Show what counts now, and why if that is something else."""
        self._stop_editing()
        await self._read()
        if self._loaded is None:
            return
        place = self._loaded.paths[scope]
        words, role = (
            f"{glyphs.DONE} {done} in {place}; takes effect {describe_effect(fact.key)}",
            "good",
        )
        source = self._loaded.config.source(*fact.key)
        if done == "set" and scope != "user" and self._waits_for_trust(fact):
            words = f"! {done} in {place}; has no effect until you trust this workspace: /trust"
            role = "warning"
        elif done == "set" and not fact.is_added_up and source.layer != scope:
            where = source.place or source.layer
            words = f"! {done} in {place}, but {self._files.shorten(where)} counts"
            role = "warning"
        self._notice = (words, role)
        self._show_facts()

    def _waits_for_trust(self, fact: SettingFact) -> bool:
        """Whether a setting of the project has no effect yet."""
        is_trusted = self._loaded is None or self._loaded.is_trusted
        return not is_trusted and not key_matches(fact.key, FREE_OF_TRUST)

    def action_leave(self) -> None:
        """Back to the list, or away."""
        if self._editing is not None:
            self._stop_editing()
        elif self.query_one("#search", Input).value:
            self.query_one("#search", Input).value = ""
        else:
            self.dismiss(None)

    def _stop_editing(self) -> None:
        self._editing = None
        self.query_one("#edit").display = False
        self.query_one("#search").focus()
        self._tell()

    def _show_problem(self, words: str) -> None:
        label = self.query_one("#problem", Label)
        label.display = bool(words)
        label.update(Content(f"{glyphs.FAILED} {sanitize_text(words)}" if words else ""))
        if self._editing is None and words:
            self._notice = (f"{glyphs.FAILED} {sanitize_text(words)}", "bad")
            self._show_facts()

    def _tell(self) -> None:
        """Say how many there are, and which keys count."""
        box = self.query_one("#box")
        count, own = len(self._facts), sum(one.source.layer != "default" for one in self._facts)
        shown = len(self.query_one(_Rows).facts)
        found = f"{shown} of {count}" if shown != count else f"{count}"
        place = self._files.shorten(str(self._files.directory))[-50:]
        box.border_title = Content(f"settings in {place} · {found}, {own} changed")
        keys = "enter change · ctrl+r reset · ↑↓ choose · esc close"
        if self._editing is not None:
            keys = "enter save · ctrl+r reset · tab scope · ↑↓ choose · esc back"
        box.border_subtitle = keys


def _scope_of(name: str) -> SettingScope | None:
    """The scope of a name; None: it is none that a person writes to."""
    found: SettingScope | None = None
    for one in SETTING_SCOPES:
        if one == name:
            found = one
    return found


def _matches(fact: SettingFact, help: str, words: Sequence[str]) -> bool:
    value = format_setting_value(fact.value)
    text = f"{spell_key(fact.key)} {value} {_LAYERS[fact.source.layer]}"
    found = f"{text} {help}".lower()
    return all(word in found for word in words)


def _is_closed(fact: SettingFact) -> bool:
    """Whether only some values fit."""
    return fact.setting.accepts is bool or bool(choices_of(fact.setting.accepts))


def _list_values(fact: SettingFact) -> list[SelectOption]:
    """The values to choose from; others can be typed where they fit."""
    accepts = fact.setting.accepts
    values = ["true", "false"] if accepts is bool or bool in get_args(accepts) else []
    values += choices_of(accepts) or [
        one for arm in get_args(accepts) for one in choices_of(arm) if not fact.is_added_up
    ]
    meanings = {"mode": MODE_MEANINGS, "effort": EFFORT_WORDS}.get(spell_key(fact.key), {})
    default = "" if fact.setting.default is None else format_setting_value(fact.setting.default)
    if default and default not in values and not fact.is_added_up:
        values.append(default)
    return [
        SelectOption(
            value=one,
            words=" · ".join(filter(None, (meanings.get(one), _DEFAULT if one == default else ""))),
        )
        for one in dict.fromkeys(values)
    ]
