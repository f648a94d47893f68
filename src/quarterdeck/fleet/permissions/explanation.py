"""The rules in force in a directory, and why the policy decides about a call as it does."""

import asyncio
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.agent.environment import prepare_environment
from quarterdeck.agent.session_system import make_local_system
from quarterdeck.config.errors import ConfigError
from quarterdeck.config.loader import Config, find_approver_table, load_config, read_toml
from quarterdeck.config.places import Places
from quarterdeck.config.schema import ApproverSettings
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.policy.advice import DecisionBasis, effect_of, find_changes
from quarterdeck.policy.approvers import describe_people
from quarterdeck.policy.call import Call
from quarterdeck.policy.decision import Allow, DecisionSource, Deny, explain
from quarterdeck.policy.errors import RuleError
from quarterdeck.policy.foreign_calls import CallContext, call_from_tool
from quarterdeck.policy.grammar import parse_pattern
from quarterdeck.policy.grants import Grant, GrantStore
from quarterdeck.policy.lookup import look_up
from quarterdeck.policy.modes import NO_SANDBOX, Effect, Mode
from quarterdeck.system.local_disk import LocalDisk
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tool_calls import ToolKind

from ..agent_entry import NATIVE
from ..errors import InvalidOptionsError
from .session_gate import make_gate

if TYPE_CHECKING:
    from quarterdeck.config.loader import Layer, PlacedValue

__all__ = [
    "CallExplanation",
    "ConsideredRule",
    "DecisionChange",
    "EffectiveApprovers",
    "EffectivePermissions",
    "EffectiveRule",
    "HypotheticalSession",
    "explain_call",
    "find_effective_permissions",
    "make_tool_call",
    "parse_call",
    "parse_tool_input",
    "prepare_hypothetical_session",
]

_EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")
_UNTRUSTED = "the workspace is not trusted"


class EffectiveRule(Struct, frozen=True, kw_only=True):
    """A rule of the settings."""

    effect: Effect
    pattern: str
    layer: str
    place: str | None = None
    """The file or the variable."""
    key: str
    line: int | None = None
    """In that file, where it can be known."""
    idle: str | None = None
    """Why it has no effect; None: it has."""


class EffectiveApprovers(Struct, frozen=True, kw_only=True):
    """People who have to allow requests, by the settings."""

    match: str | None = None
    """Only requests that this pattern touches; None: every request."""
    people: tuple[str, ...]
    needed: int = 1
    """How many of them have to allow it."""
    who: str
    """The same in words."""
    layer: str
    place: str | None = None
    """The file."""
    line: int | None = None
    """In that file, where it can be known."""
    idle: str | None = None
    """Why it has no effect; None: it has."""


class EffectivePermissions(Struct, frozen=True, kw_only=True):
    """Everything that was said beforehand about calls in a directory."""

    directory: str
    project: str
    """What grants for a project name."""
    trusted: bool
    mode: Mode
    rules: tuple[EffectiveRule, ...]
    """Those that deny first, then those that ask."""
    grants: tuple[Grant, ...]
    approvers: tuple[EffectiveApprovers, ...] = ()
    """Each that matches a request has to be satisfied; where none does, the first answer
    decides."""


async def find_effective_permissions(
    places: Places,
    environment: Mapping[str, str],
    directory: str,
    grants: Iterable[Grant],
    *,
    everywhere: bool = False,
    agent: str | None = None,
    session: str | None = None,
    leads: tuple[str, ...] = (),
) -> EffectivePermissions:
    """Tell what stands in a directory.

    ``grants`` are all that there are; those of other projects are left out unless
    ``everywhere``. ``agent`` and ``session``: only what holds for this agent of the catalogue, or
    this session; ``leads`` are the live sessions that lead it.

    Raises:
        ConfigError: a settings file is wrong; the message names file and key.
    """
    config, whole, project, trusted = await asyncio.to_thread(_look, places, environment, directory)

    def is_wanted(grant: Grant) -> bool:
        here = everywhere or grant.project in (None, project)
        whose = agent is None or grant.agent in (None, agent)
        own = grant.session in (None, session) and grant.tree in (None, *leads)
        return here and whose and (session is None or own)

    return EffectivePermissions(
        directory=directory,
        project=project,
        trusted=trusted,
        mode=config.settings.mode,
        rules=await asyncio.to_thread(lambda: tuple(_rules(config, whole))),
        grants=tuple(grant for grant in grants if is_wanted(grant)),
        approvers=await asyncio.to_thread(lambda: tuple(_approvers(config, whole))),
    )


def _look(
    places: Places, environment: Mapping[str, str], directory: str
) -> tuple[Config, Config, str, bool]:
    root = find_workspace(Path(directory)).project
    trusted = TrustStore(places.trust_file).is_trusted(root)
    config = load_config(places, directory=Path(directory), environ=environment, trusted=trusted)
    whole = load_config(places, directory=Path(directory), environ=environment, trusted=True)
    return config, whole, str(root), trusted


def _rules(config: Config, whole: Config) -> Iterator[EffectiveRule]:
    for effect in _EFFECTS:
        counted = _of(config.layer, effect)
        yield from (_rule(effect, text, *counted[text], None) for text in counted)
        for text, (layer, place) in _of(whole.layer, effect).items():
            if counted.get(text) != (layer, place):
                yield _rule(effect, text, layer, place, _UNTRUSTED)


def _of(layer: "Layer", effect: Effect) -> dict[str, tuple[str, str | None]]:
    """The rules of an effect, with the layer and place of each."""
    return {
        key[-1]: (placed.source.layer, placed.source.place)
        for key, placed in layer.items()
        if key[:-1] == ("permissions", effect)
    }


def _approvers(config: Config, whole: Config) -> Iterator[EffectiveApprovers]:
    counted = config.elements("permissions", "approvers")
    yield from (_approver(placed, None) for placed in counted)
    for placed in whole.elements("permissions", "approvers"):
        if placed not in counted:
            yield _approver(placed, _UNTRUSTED)


def _approver(placed: "PlacedValue", idle: str | None) -> EffectiveApprovers:
    layer, place = placed.source.layer, placed.source.place
    given = convert(placed.value, ApproverSettings)
    try:
        parse_pattern(given.match or "*")
    except RuleError as error:
        idle = str(error)
    return EffectiveApprovers(
        match=given.match,
        people=given.people,
        needed=given.needed,
        who=describe_people(given.people, given.needed),
        layer=layer,
        place=place,
        line=_table_line(place, placed.value) if place else None,
        idle=idle,
    )


def _table_line(place: str, value: Any) -> int | None:
    """The line at which a table of approvers begins in its file; None: that is not clear."""
    try:
        tables: list[Any] = (read_toml(Path(place)) or {})["permissions"]["approvers"]
        return find_approver_table(place, tables.index(value) + 1)
    except (ConfigError, LookupError, OSError, TypeError, ValueError):  # it has changed since
        return None


def _rule(
    effect: Effect, text: str, layer: str, place: str | None, idle: str | None
) -> EffectiveRule:
    try:
        parse_pattern(text)
    except RuleError as error:
        idle = str(error)
    line = _line(Path(place), text) if place and layer in ("user", "project", "local") else None
    key = f"permissions.{effect}"
    return EffectiveRule(
        effect=effect, pattern=text, layer=layer, place=place, key=key, line=line, idle=idle
    )


def _line(file: Path, text: str) -> int | None:
    """Where a text stands in a file of settings, if just one line has it."""
    forms = (json.dumps(text), json.dumps(text, ensure_ascii=False), f"'{text}'")
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    found = [number for number, line in enumerate(lines, 1) if any(form in line for form in forms)]
    return found[0] if len(found) == 1 else None


_FIELDS: dict[str, tuple[ToolKind, str]] = {
    "bash": ("execute", "command"),
    "read": ("read", "file_path"),
    "edit": ("edit", "file_path"),
    "write": ("edit", "file_path"),
    "delete": ("delete", "file_path"),
    "fetch": ("fetch", "url"),
}


class ConsideredRule(Struct, frozen=True, kw_only=True):
    """A rule or the mode, held against one part of the call."""

    part: str
    by: str
    """The rule's text or the mode's name."""
    kind: str
    outcome: str
    scope: str | None = None
    where: str | None = None
    """The file, flag or grant that the rule came from."""


class DecisionChange(Struct, frozen=True, kw_only=True):
    """A change that would change the decision."""

    do: str
    what: str
    then: Effect
    where: str | None = None


class CallExplanation(Struct, frozen=True, kw_only=True):
    """A decision about a call, and all that led to it."""

    decision: Effect
    reason: str | None
    """None where it is allowed."""
    by: tuple[str, ...]
    """The rules, modes or doubts that decided."""
    tool: str
    command: str | None
    paths: tuple[str, ...]
    urls: tuple[str, ...]
    cwd: str
    project: str | None
    mode: Mode
    trusted: bool
    agent: str | None
    considered: tuple[ConsideredRule, ...]
    changes: tuple[DecisionChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HypotheticalSession:
    """Where a call is imagined to happen."""

    basis: DecisionBasis
    around: CallContext
    leads: tuple[str, ...] = ()
    """The live sessions that lead it, itself included."""


async def prepare_hypothetical_session(
    places: Places,
    environment: Mapping[str, str],
    directory: str,
    *,
    mode: Mode | None = None,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    agent: str | None = None,
    session: SessionId | None = None,
    leads: tuple[str, ...] = (),
    grants: tuple[Grant, ...] = (),
) -> HypotheticalSession:
    """Set the scene as for a session that works in a directory; ``grants``: all that there are.

    Raises:
        RuleError, ConfigError: as when a session begins there.
    """
    gate, around = await make_gate(
        places,
        environment,
        directory,
        mode=mode,
        allow=allow,
        deny=deny,
        session=session,
        agent=agent,
        grants=GrantStore(),
    )
    sandbox = NO_SANDBOX
    if agent in (None, NATIVE):
        prepared = await prepare_environment(places, environment, directory)
        cage = make_local_system((directory,), prepared)
        try:
            sandbox = await cage.sandbox()
        finally:
            await cage.close()
    basis = DecisionBasis(
        mode=gate.mode,
        rules=gate.rules,
        grants=grants,
        sandbox=sandbox,
        trusted=gate.trusted,
        now=read_wall_clock(),
    )
    return HypotheticalSession(basis=basis, around=around, leads=leads)


def parse_call(words: tuple[str, ...], around: CallContext) -> Call:
    """Read a call in a person's words: ``bash COMMAND``, ``edit PATH``, ``fetch URL``, ….

    ``mcp SERVER:TOOL`` is a tool of a server; any other first word is a tool's name. Looks up
    symbolic links.

    Raises:
        InvalidOptionsError: something is missing.
    """
    tool, *rest = words
    if tool == "mcp":
        server, _, name = ":".join(rest).partition(":")
        if not server or not name:
            raise InvalidOptionsError("write it as: mcp SERVER:TOOL")
        return make_tool_call(f"mcp__{server}__{name}", {}, around)
    if tool not in _FIELDS:
        if rest:
            raise InvalidOptionsError(
                f"the input of {tool!r} is unknown; use one of {', '.join(_FIELDS)} or mcp, or "
                "give its input with --tool and --input"
            )
        return make_tool_call(tool, {}, around)
    kind, field = _FIELDS[tool]
    if not rest:
        raise InvalidOptionsError(f"{tool!r} of what? Write its {field.replace('_', ' ')} after it")
    value = rest[0] if len(rest) == 1 else shlex.join(rest)
    return make_tool_call(tool, {field: value}, around, kind)


def make_tool_call(
    name: str, raw_input: Any, around: CallContext, kind: ToolKind = "other"
) -> Call:
    """Read a call as an agent makes it: a tool's name and its input. Looks up symbolic links."""
    call = call_from_tool(name, kind, raw_input, around=around)
    paths = tuple(replace(use, resolved=os.path.realpath(use.path)) for use in call.paths)
    return look_up(replace(call, paths=paths), LocalDisk())


async def explain_call(call: Call, scene: HypotheticalSession) -> CallExplanation:
    """Decide about a call as a session's gate would, and tell why and what would change it."""
    return await asyncio.to_thread(_explain, replace(call, leads=scene.leads), scene.basis)


def _explain(call: Call, basis: DecisionBasis) -> CallExplanation:
    found = explain(
        call,
        basis.mode,
        basis.rules,
        basis.grants,
        sandbox=basis.sandbox,
        trusted=basis.trusted,
        now=basis.now,
    )
    decision = found.decision
    deciders = (decision.by,) if isinstance(decision, Deny) else decision.by
    return CallExplanation(
        decision=effect_of(decision),
        reason=None if isinstance(decision, Allow) else decision.reason,
        by=tuple(_describe_source(by) for by in deciders),
        tool=call.tool,
        command=call.command,
        paths=tuple(use.path for use in call.paths),
        urls=call.urls,
        cwd=call.cwd,
        project=call.project,
        mode=basis.mode,
        trusted=basis.trusted,
        agent=call.agent,
        considered=tuple(
            ConsideredRule(
                part=step.part,
                by=step.by.text,
                kind=step.by.kind,
                outcome=step.outcome,
                scope=step.by.scope,
                where=_where(step.by),
            )
            for step in found.steps
        ),
        changes=tuple(
            DecisionChange(
                do=change.do,
                what=change.what,
                then=change.then,
                where=change.source.where if change.source is not None else None,
            )
            for change in find_changes(call, basis)
        ),
    )


def _describe_source(by: DecisionSource) -> str:
    where = _where(by)
    return f"{by.kind} {by.text!r}" + (f" ({where})" if where else "")


def _where(by: DecisionSource) -> str | None:
    if by.source is None:
        return None
    return f"{by.source.origin} {by.source.where}".strip()


def parse_tool_input(text: str) -> Any:
    """Read a tool's input. Raises InvalidOptionsError."""
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise InvalidOptionsError(f"--input is not JSON: {error}") from None
