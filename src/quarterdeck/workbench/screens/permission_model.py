"""A permission request as a person reads it: what is asked, once, what is risky about it, and at
most four choices. Pure: it reads no disk and draws nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from quarterdeck.policy.request_facts import (
    COMMAND_KEYS,
    PermissionRisk,
    RequestArgument,
    find_command,
    find_directory,
    find_risks,
    list_arguments,
)
from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption, option_of_kind
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem

from ..stores.blocks import format_json

__all__ = [
    "CardChoice",
    "CardChoices",
    "PermissionSummary",
    "merge_options",
    "shorten_rule",
    "summarize_request",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionSummary:
    """What is asked; each text of the request is in exactly one of the fields."""

    heading: str
    """What the agent wants to do: run a command, edit a file."""
    command: str | None = None
    changes: tuple[Diff, ...] = ()
    patch: str = ""
    """Changes that the agent describes as a patch."""
    notes: tuple[str, ...] = ()
    """What the agent says besides."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Arguments that nothing else shows, by name."""
    places: tuple[str, ...] = ()
    """Files that it names and that nothing else shows."""
    directory: str | None = None
    risks: tuple[PermissionRisk, ...] = ()
    reason: str = ""
    """Why no rule decided it."""


_TEXT_KEYS = frozenset(
    (
        *("old_string", "new_string", "old_str", "new_str", "old_text", "new_text", "oldText"),
        *("newText", "content", "file_text", "text", "diff", "patch", "unified_diff", "oldString"),
        *("newString", "contents", "insert_text", "old", "new"),
    )
)
"""Arguments whose text is part of a change, so that its difference shows them."""
_QUIET = {"replace_all": False, "replaceAll": False, "run_in_background": False}
"""Arguments that say that nothing special is wanted."""
_FILLERS = frozenset(
    (
        *("run", "running", "execute", "edit", "write", "create", "update", "delete", "read"),
        *("fetch", "change", "modify", "apply", "patch", "file", "files", "command", "the", "a"),
        *("in", "to", "bash", "shell", "and", "-", ""),
    )
)
_DESCRIPTION = "description"
_NO_RULE = "no rule matches"
_LABELLED = re.compile(r"""(?P<quote>['"])(?P<label>.*)(?P=quote): (?P<why>.*)""", re.DOTALL)
"""A part of a call, and why it is asked about."""


def summarize_request(asked: PermissionAsked, cwd: str | None, home: str = "") -> PermissionSummary:
    """What a request asks for; ``cwd`` is where its agent works."""
    command = find_command(asked)
    changes = tuple(item for item in asked.content if isinstance(item, Diff))
    texts = [describe_content(c.content) for c in asked.content if isinstance(c, ContentItem)]
    patch = "" if changes else next(filter(_is_patch, texts), "") or _patch_argument(asked)
    given = find_directory(asked.raw_input)
    shown = [command or "", patch, *(change.path for change in changes), given or ""]
    leaves = [
        one for one in list_arguments(asked.raw_input) if not _is_shown(one, shown, changes, patch)
    ]
    texts = [_without_prompt(one, command, (given, cwd)) for one in texts]
    described = [str(value) for _, name, value in leaves if name == _DESCRIPTION]
    leaves = [one for one in leaves if one[1] != _DESCRIPTION]
    shown_texts = {*shown, *(str(value) for _, _, value in leaves)}
    names = [name for change in changes for name in _short_names(change.path, cwd)]
    notes = (
        [asked.title] if _says_more(asked.title, [*shown_texts, *names, asked.name or ""]) else []
    )
    notes += [
        text
        for text in dict.fromkeys((*described, *texts))
        if text and text not in shown_texts and text not in notes
    ]
    notes += [f"terminal {c.terminal_id}" for c in asked.content if isinstance(c, TerminalItem)]
    return PermissionSummary(
        heading=_heading(asked, command, changes),
        command=command,
        changes=changes,
        patch=patch,
        notes=tuple(notes),
        arguments=tuple((name, format_json(value)) for _, name, value in leaves),
        places=tuple(_places(asked, shown_texts, patch)),
        directory=given or cwd,
        risks=(risks := find_risks(asked, cwd, home)),
        reason=_short_reason(asked.reason or "", command or "", risks),
    )


def _without_prompt(text: str, command: str | None, places: Iterable[str | None]) -> str:
    """A text without the command that is shown already, and without the prompt before it.

    A directory that is shown nowhere else stays.
    """
    if command is None:
        return text
    text = text.rstrip()
    for place in (*filter(None, places), ""):
        if text == f"[current working directory {place}]":
            return ""
        left = text.removesuffix(f"{place}$ {command}")
        if left != text and (not left or left[-1].isspace()):
            left = left.strip()
            return left.removeprefix("# ") if "\n" not in left else left
    return text


def _short_reason(reason: str, command: str, risks: Sequence[PermissionRisk]) -> str:
    """Why no rule decided it, as far as that says something that the rest does not."""
    found = _LABELLED.fullmatch(reason)
    why = found["why"] if found else reason
    if why == _NO_RULE or any(risk.reason == why.removeprefix("it ") for risk in risks):
        return ""
    is_clear = found is not None and found["label"] in (command, *(risk.words for risk in risks))
    return why if is_clear else reason


def _is_patch(text: str) -> bool:
    return bool(re.search(r"^@@ ", text, re.MULTILINE)) or text.startswith("*** Begin Patch")


def _patch_argument(asked: PermissionAsked) -> str:
    texts = (value for _, _, value in list_arguments(asked.raw_input) if isinstance(value, str))
    return next(filter(_is_patch, texts), "") if asked.kind == "edit" else ""


def _is_shown(
    leaf: RequestArgument, shown: Sequence[str], changes: Sequence[Diff], patch: str
) -> bool:
    """Whether something else shows an argument whole."""
    key, _, value = leaf
    if key in _QUIET and value == _QUIET[key]:
        return True
    if isinstance(value, list):
        words = cast("list[Any]", value)
        if key in COMMAND_KEYS:
            return True
        in_patch = bool(patch) and all(isinstance(one, str) and one in patch for one in words)
        return bool(words) and (in_patch or all(one in shown for one in words))
    if not isinstance(value, str):
        return False
    if value in shown or any(change.path.endswith(f"/{value}") for change in changes):
        return True
    if key not in _TEXT_KEYS:
        return False
    if changes and _is_patch(value):
        return _is_covered(value, changes)
    return any(value in (change.old_text or "") or value in change.new_text for change in changes)


def _is_covered(patch: str, changes: Sequence[Diff]) -> bool:
    """Whether changes show every line that a patch adds or removes."""
    new = {line for change in changes for line in change.new_text.splitlines()}
    old = {line for change in changes for line in (change.old_text or "").splitlines()}
    lines = patch.splitlines()
    added = {line[1:] for line in lines if line.startswith("+") and not line.startswith("+++ ")}
    gone = {line[1:] for line in lines if line.startswith("-") and not line.startswith("--- ")}
    return added <= new and gone <= old


def _short_names(path: str, cwd: str | None) -> Iterator[str]:
    yield path.rpartition("/")[2]
    if cwd and path.startswith(f"{cwd}/"):
        yield path[len(cwd) + 1 :]


def _says_more(title: str, shown: Iterable[str]) -> bool:
    """Whether a title has a word that nothing else shows."""
    rest = title
    for text in sorted(filter(None, shown), key=len, reverse=True):
        if title.endswith("…") and len(title) > 8 and text.startswith(title.rstrip("…").rstrip()):
            return False
        rest = rest.replace(text, " ")
    words = (word.strip("`'\":,.()…") for word in rest.split())
    return any(word.lower() not in _FILLERS for word in words)


def _places(asked: PermissionAsked, shown_texts: Iterable[str], patch: str) -> Iterator[str]:
    known = {text for text in shown_texts if text}
    for place in asked.locations:
        if place.path not in known and not (patch and place.path in patch):
            yield f"{place.path}:{place.line}" if place.line else place.path


_HEADINGS = {
    "execute": "run a command",
    "edit": "edit files",
    "delete": "delete files",
    "move": "move files",
    "read": "read a file",
    "search": "search",
    "fetch": "fetch an address",
}


def _heading(asked: PermissionAsked, command: str | None, changes: Sequence[Diff]) -> str:
    if command is not None and asked.kind in ("execute", "other"):
        return "run a command"
    if len(changes) == 1:
        name = changes[0].path.rpartition("/")[2]
        return f"create {name}" if changes[0].old_text is None else f"edit {name}"
    if changes:
        return f"edit {len(changes)} files"
    return _HEADINGS.get(asked.kind) or f"use {asked.name or asked.kind}"


# Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class CardChoice:
    """An answer that can be given with one key."""

    key: str
    option: str
    """The id of the option that it selects."""
    words: str
    short: str = ""
    """The words where room is scarce; empty: the same."""
    brief: str = ""
    """The words where it is scarcer still; empty: the same as ``short``."""
    rule: str = ""
    """The rule that it records, as people write it; empty: none."""
    allows: tuple[str, ...] = ()
    """The rules that it records, if they allow: what can be tried on recorded requests."""
    is_agents: bool = False
    """The agent offers it, and it means whatever the agent says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardChoices:
    """The answers to a request: ours and the agent's own, each once."""

    shown: tuple[CardChoice, ...] = ()
    """At most four: ``y``, ``s``, ``p``, ``n``."""
    more: tuple[CardChoice, ...] = ()
    """The others; their keys are their numbers among all options."""
    rule: str = ""
    """The rule to begin with when a person writes one; empty: no rule can cover this call."""

    @property
    def once(self) -> str | None:
        """The option that allows this call only."""
        return self.option("y")

    @property
    def deny(self) -> str | None:
        """The option that denies this call only."""
        return self.option("n")

    def option(self, key: str) -> str | None:
        """The option of a key; None: it has none."""
        return next((one.option for one in (*self.shown, *self.more) if one.key == key), None)

    def find_rules(self, *, with_more: bool) -> dict[str, tuple[str, ...]]:
        """What choices record that allow, by the rule as people write it; the narrowest first."""
        choices = (*self.shown, *self.more) if with_more else self.shown
        return {one.rule: one.allows for one in choices if one.allows}

    def is_shown(self, option: str) -> bool:
        """Whether an option is among the four."""
        return any(one.option == option for one in self.shown)


_KEYS = {"session": "s", "project": "p"}
_BRIEF = {"session": "this session", "project": "here"}
_WHERE = {"session": "for this session", "project": "in this project", "user": "everywhere"}


def merge_options(options: Sequence[PermissionOption]) -> CardChoices:
    """One allow, one deny, each scope once; whatever else is offered is among ``more``."""
    shown: list[CardChoice] = []
    once = option_of_kind(_ours_first(options), "allow_once")
    deny = option_of_kind(_ours_first(options), "reject_once")
    if once is not None:
        shown.append(CardChoice(key="y", option=once, words="allow once"))
    for scope, key in _KEYS.items():
        # The narrowest that is offered for a scope; wider ones are among ``more``.
        found = [one for one in options if _meaning(one) == ("allow", scope)]
        found.sort(key=_is_open)  # older logs have them in another order
        if found:
            shown.append(
                CardChoice(
                    key=key,
                    option=found[0].option_id,
                    words=_words_of(found[0]),
                    short=f"{shorten_rule(_rule_of(found[0]))} this {scope}",
                    brief=f"{shorten_rule(_rule_of(found[0]))} {_BRIEF[scope]}",
                    rule=_rule_of(found[0]),
                    allows=_allowing_rules(found[0]),
                )
            )
    if deny is not None:
        shown.append(CardChoice(key="n", option=deny, words="deny"))
    taken = {one.option for one in shown} | set(_doubles(options))
    more = [
        CardChoice(
            key=str(number) if number < 10 else "",
            option=one.option_id,
            words=_words_of(one),
            rule=_rule_of(one),
            allows=_allowing_rules(one),
            is_agents=_meaning(one) is None,
        )
        for number, one in enumerate(options, 1)
        if one.option_id not in taken
    ]
    rule = next((one.rule for one in reversed(shown) if one.rule), "")
    return CardChoices(shown=tuple(shown), more=tuple(more), rule=rule)


def _ours_first(options: Sequence[PermissionOption]) -> list[PermissionOption]:
    return sorted(options, key=lambda one: _meaning(one) is None)


def _doubles(options: Sequence[PermissionOption]) -> Iterator[str]:
    """The agent's own options that ours already stand for: its first for this call only."""
    for kind in ("allow_once", "reject_once"):
        of_kind = [one for one in options if one.kind == kind]
        if any(_meaning(one) for one in of_kind):
            yield from [one.option_id for one in of_kind if _meaning(one) is None][:1]


def _meaning(option: PermissionOption) -> tuple[str, str] | None:
    """The effect and the scope of an option of ours; None: it is the agent's."""
    found: Any = (option.meta or {}).get("quarterdeck")
    if not isinstance(found, dict):
        return None
    meaning = cast("Mapping[str, Any]", found)
    return str(meaning.get("effect")), str(meaning.get("scope"))


def _words_of(option: PermissionOption) -> str:
    """An option in words: ours by what it means, the agent's by its own name and its kind."""
    match _meaning(option):
        case ("allow", scope) if scope in _WHERE:
            return f"allow {shorten_rule(_rule_of(option))} {_WHERE[scope]}"
        case ("deny", scope) if scope in _WHERE:
            return f"never allow {shorten_rule(_rule_of(option))} {_WHERE[scope]}"
        case None:
            return f"{option.name} ({option.kind.replace('_', ' ')})"
        case _:
            return option.name


def _rule_of(option: PermissionOption) -> str:
    return ", ".join(_patterns_of(option))


def _patterns_of(option: PermissionOption) -> list[str]:
    found: Any = (option.meta or {}).get("quarterdeck")
    if not isinstance(found, dict):
        return []
    patterns = cast("Mapping[str, Any]", found).get("patterns")
    return list(map(str, cast("list[Any]", patterns))) if isinstance(patterns, list) else []


def _allowing_rules(option: PermissionOption) -> tuple[str, ...]:
    meaning = _meaning(option)
    if meaning is None or meaning[0] != "allow":
        return ()
    return tuple(f"allow {one}" for one in _patterns_of(option))


def _is_open(option: PermissionOption) -> bool:
    """Whether one of its patterns has an open end."""
    return any(one.endswith((":*)", "/**)")) for one in _patterns_of(option))


def shorten_rule(rule: str) -> str:
    """A rule in fewer signs: what a command rule allows is the command."""
    found = re.fullmatch(r"(bash|edit|read|fetch|mcp|tool)\((.*)\)", rule, re.DOTALL)
    if found is None or "), " in rule:
        return rule
    kind, argument = found.groups()
    return argument if kind in ("bash", "mcp", "tool") else f"{kind} {argument}"
