"""A permission request as a person reads it: what is asked, once, what is risky about it, and at
most four choices. Pure: it reads no disk and draws nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption, option_of_kind
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem

from ..stores.blocks import format_json

if TYPE_CHECKING:
    from quarterdeck.fleet.api import InboxItem
    from quarterdeck.policy.call_parts import CallPart, CommandPart, PathPart
    from quarterdeck.policy.shell.command_line import ShellCommand

__all__ = [
    "CardChoice",
    "CardChoices",
    "PermissionRisk",
    "PermissionSummary",
    "find_alike",
    "find_command",
    "find_risks",
    "merge_options",
    "summarize_request",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRisk:
    """A part of a call that deserves a second look."""

    reason: str
    """In two or three words: deletes files, uses the network."""
    words: str
    """The part, as it is written."""
    mark: str = ""
    """What of it is marked in the command; empty: nothing."""


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


_COMMAND_KEYS = ("command", "cmd", "script")
_DIRECTORY_KEYS = ("cwd", "workdir", "working_directory", "directory")
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
_SHELL = re.compile(r"(?:/(?:usr/)?bin/)?(?:bash|sh|zsh|dash)")
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
_Leaf: TypeAlias = tuple[str, str, Any]
"""The last name of an argument, its whole name, and its value."""


def summarize_request(asked: PermissionAsked, cwd: str | None, home: str = "") -> PermissionSummary:
    """What a request asks for; ``cwd`` is where its agent works."""
    command = find_command(asked)
    changes = tuple(item for item in asked.content if isinstance(item, Diff))
    texts = [describe_content(c.content) for c in asked.content if isinstance(c, ContentItem)]
    patch = "" if changes else next(filter(_is_patch, texts), "") or _patch_argument(asked)
    given = _given_directory(asked.raw_input)
    shown = [command or "", patch, *(change.path for change in changes), given or ""]
    leaves = [one for one in _leaves(asked.raw_input) if not _is_shown(one, shown, changes, patch)]
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


def find_command(asked: PermissionAsked) -> str | None:
    """The command line that is to run; None: the request is about something else."""
    raw = asked.raw_input
    if isinstance(raw, dict):
        given = cast("dict[str, Any]", raw)
        for key in _COMMAND_KEYS:
            if isinstance(found := given.get(key), str) and found.strip():
                return found
            if isinstance(found, list) and found:
                return _line_of(cast("list[Any]", found))
    elif asked.kind == "execute" and isinstance(raw, str) and raw.strip():
        return raw
    if asked.kind == "execute" and not raw:
        return asked.title.strip().strip("`") or None
    return None


def _line_of(words: list[Any]) -> str:
    texts = [str(word) for word in words]
    if len(texts) == 3 and _SHELL.fullmatch(texts[0]) and texts[1] in ("-c", "-lc"):
        return texts[2]
    from quarterdeck.policy.shell.command_line import render_argv

    return render_argv(texts)


def _is_patch(text: str) -> bool:
    return bool(re.search(r"^@@ ", text, re.MULTILINE)) or text.startswith("*** Begin Patch")


def _patch_argument(asked: PermissionAsked) -> str:
    texts = (value for _, _, value in _leaves(asked.raw_input) if isinstance(value, str))
    return next(filter(_is_patch, texts), "") if asked.kind == "edit" else ""


def _given_directory(raw: object) -> str | None:
    if not isinstance(raw, dict):
        return None
    given = cast("dict[str, Any]", raw)
    found = (given.get(key) for key in _DIRECTORY_KEYS)
    return next((one for one in found if isinstance(one, str) and one), None)


def _leaves(value: object, name: str = "", last: str = "") -> Iterator[_Leaf]:
    """Each value of the arguments with its name, however deep it is; none twice."""
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[object, object]", value).items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key), str(key))
    elif isinstance(value, list) and any(
        isinstance(one, dict | list) for one in cast("list[object]", value)
    ):
        for number, inner in enumerate(cast("list[object]", value), 1):
            yield from _leaves(inner, f"{name}[{number}]", last)
    elif value is not None:
        yield last, name or "input", value


def _is_shown(leaf: _Leaf, shown: Sequence[str], changes: Sequence[Diff], patch: str) -> bool:
    """Whether something else shows an argument whole."""
    key, _, value = leaf
    if key in _QUIET and value == _QUIET[key]:
        return True
    if isinstance(value, list):
        words = cast("list[Any]", value)
        if key in _COMMAND_KEYS:
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


def find_alike(items: Iterable["InboxItem"], item: "InboxItem") -> tuple["InboxItem", ...]:
    """The other requests that ask for the very same: one look decides them all."""
    if item.permission is None or not merge_options(item.permission.options).once:
        return ()
    key = _likeness(item.permission)
    return tuple(
        one
        for one in items
        if one.request != item.request
        and one.permission is not None
        and _likeness(one.permission) == key
        and merge_options(one.permission.options).once
    )


def _likeness(asked: PermissionAsked) -> tuple[object, ...]:
    raw = format_json(asked.raw_input) if asked.raw_input is not None else asked.title
    return (asked.kind, asked.name, raw, asked.content)


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
        if found:
            shown.append(
                CardChoice(
                    key=key,
                    option=found[0].option_id,
                    words=_words_of(found[0]),
                    short=f"{_short(_rule_of(found[0]))} this {scope}",
                    brief=f"{_short(_rule_of(found[0]))} {_BRIEF[scope]}",
                    rule=_rule_of(found[0]),
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
            return f"allow {_short(_rule_of(option))} {_WHERE[scope]}"
        case ("deny", scope) if scope in _WHERE:
            return f"never allow {_short(_rule_of(option))} {_WHERE[scope]}"
        case None:
            return f"{option.name} ({option.kind.replace('_', ' ')})"
        case _:
            return option.name


def _rule_of(option: PermissionOption) -> str:
    found: Any = (option.meta or {}).get("quarterdeck")
    if not isinstance(found, dict):
        return ""
    patterns = cast("Mapping[str, Any]", found).get("patterns")
    return ", ".join(map(str, cast("list[Any]", patterns))) if isinstance(patterns, list) else ""


def _short(rule: str) -> str:
    """A rule in fewer signs: what a command rule allows is the command."""
    found = re.fullmatch(r"(bash|edit|read|fetch|mcp|tool)\((.*)\)", rule, re.DOTALL)
    if found is None or "), " in rule:
        return rule
    kind, argument = found.groups()
    return argument if kind in ("bash", "mcp", "tool") else f"{kind} {argument}"


# Risks

_ELEVATING = frozenset(("sudo", "doas", "su", "pkexec", "run0", "gosu"))
_DELETING = frozenset(("rm", "rmdir", "shred", "unlink", "trash", "truncate", "dd", "mkfs"))
_NETWORK = frozenset(
    (
        *("curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "telnet", "ftp"),
        *("ping", "dig", "nslookup", "http", "https", "aws", "gcloud", "az", "gh", "glab"),
    )
)
_NETWORK_VERBS = {
    "git": ("push", "pull", "fetch", "clone", "ls-remote", "submodule"),
    "pip": ("install", "download"),
    "pip3": ("install", "download"),
    "uv": ("add", "sync", "pip", "publish", "tool"),
    "npm": ("install", "i", "ci", "add", "publish", "update"),
    "pnpm": ("install", "i", "add", "publish", "update"),
    "yarn": ("install", "add", "publish", "up"),
    "cargo": ("install", "publish", "fetch", "update", "add"),
    "go": ("get", "install", "mod"),
    "docker": ("pull", "push", "login"),
    "apt": ("install", "update", "upgrade"),
    "apt-get": ("install", "update", "upgrade"),
    "brew": ("install", "update", "upgrade"),
    "gem": ("install", "push"),
}


def find_risks(
    asked: PermissionAsked, cwd: str | None, home: str = ""
) -> tuple[PermissionRisk, ...]:
    """What is risky about a call, as far as its text tells. Never raises for what it is given."""
    from quarterdeck.policy.call_parts import parts_of
    from quarterdeck.policy.foreign_calls import CallContext, call_from_tool

    where = cwd if cwd and cwd.startswith("/") else "/"
    paths = [place.path for place in asked.locations]
    paths += [item.path for item in asked.content if isinstance(item, Diff)]
    around = CallContext(cwd=where, roots=(where,), home=home)
    raw = asked.raw_input
    command = find_command(asked)
    if command is not None and isinstance(raw, dict):
        raw = {**cast("dict[str, Any]", raw), "command": command}
    call = call_from_tool(
        asked.name, asked.kind, raw, tuple(dict.fromkeys(paths)), title=asked.title, around=around
    )
    found = dict.fromkeys(
        risk for part in parts_of(call) for risk in _part_risks(part, (where,), asked)
    )
    return tuple(found)


def _part_risks(
    part: "CallPart", roots: tuple[str, ...], asked: PermissionAsked
) -> Iterator[PermissionRisk]:
    from quarterdeck.policy.call_parts import CommandPart, FetchPart, PathPart

    match part:
        case CommandPart():
            yield from _command_risks(part, roots)
        case PathPart():
            yield from _path_risks(part, asked)
        case FetchPart(target=target, action=action):
            reason = "not a public address" if action == "fetch inner" else "uses the network"
            yield PermissionRisk(reason=reason, words=str(target), mark=target.host)
        case _:
            return


def _path_risks(part: "PathPart", asked: PermissionAsked) -> Iterator[PermissionRisk]:
    path = part.use.path
    mark = _written(path, find_command(asked) or "")
    if part.whole or asked.kind == "delete":
        yield PermissionRisk(reason="deletes or moves", words=path, mark=mark)
    if (reason := _OUTSIDE.get(part.action)) is not None:
        yield PermissionRisk(reason=reason, words=path, mark=mark)


_OUTSIDE = {
    "write outside": "writes outside the workspace",
    "run write outside": "writes outside the workspace",
    "write protected": "changes what programs run later",
    "read outside": "reads outside the workspace",
}


def _command_risks(part: "CommandPart", roots: tuple[str, ...]) -> Iterator[PermissionRisk]:
    from quarterdeck.policy.paths import is_below
    from quarterdeck.policy.shell.hazards import never_lasting

    command = part.command
    text = command.text
    reason = _program_reason(command)
    if reason is None and (never_lasting(command) or "").endswith("lasting harm"):
        reason = "can do lasting harm"
    if reason is not None:
        yield PermissionRisk(reason=reason, words=text, mark=command.words[0].raw)
    if part.action == "run outside":
        yield PermissionRisk(reason="runs outside the workspace", words=text)
    does = "reads" if part.reading is not None else "reaches"
    for use in part.reads if part.reading is not None else part.named:
        mark = _written(use.path, text)
        if mark and not is_below(use.path, (*roots, "/dev")):
            reason = f"{does} outside the workspace"
            yield PermissionRisk(reason=reason, words=use.path, mark=mark)
    for inner in part.inner:
        yield from _command_risks(inner, roots)


def _program_reason(command: "ShellCommand") -> str | None:
    name = command.name or ""
    words = [word.exact or "" for word in command.words[1:]]
    if name in _ELEVATING:
        return "runs as another user"
    if name in _DELETING or name.startswith("mkfs.") or (name == "find" and "-delete" in words):
        return "deletes files"
    if name in _NETWORK or any(word in _NETWORK_VERBS.get(name, ()) for word in words[:3]):
        return "uses the network"
    return None


def _written(path: str, text: str) -> str:
    """A path as it stands in a text; empty: it does not, such as an option that only may be one."""
    if path in text:
        return path
    tail = re.escape(path.rpartition("/")[2])
    pattern = rf"(?:~|\.\.|\$\w+)(?:/[^\s'\"<>|;&]*)?/{tail}(?![\w.-])" if tail else r"\.\.(?=\s|$)"
    found = re.search(pattern, text)
    return found[0] if found else ""
