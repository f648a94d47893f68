"""An agent as data: what its file may say, and the agent that comes of it.

Agents are files, not classes: ``agents/*.toml`` here and in the user's configuration. The docstring
under each field is its reference; ``docs/agents.md`` has the same in tables.
"""

import difflib
import re
import sys
from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from quarterdeck.policy.modes import Mode
from quarterdeck.wire.decoders import convert

from .agent_process import GuardedAction, Launch
from .driver import Transport
from .errors import BadAgentFileError, UnsupportedError

__all__ = [
    "PROXIES",
    "SELF",
    "Agent",
    "AgentPermissions",
    "AgentTransport",
    "LoginEvidence",
    "MeterEndpoint",
    "check_agent_name",
    "expand_command",
    "make_launch",
    "parse_agent",
]

PROXIES = tuple(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
    for name in (upper, upper.lower())
)
"""Variables that every agent may see: it talks with its vendor over the network."""
SELF = "{quarterdeck}"
"""In a command: this program itself."""

_NAME = re.compile(r"\w[\w.+-]{0,63}")
_ENDPOINT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_DIALECTS: Mapping[str, frozenset[str]] = {
    "pipe": frozenset(("claude", "qwen", "codex", "gemini", "opencode", "cursor", "pi", "generic")),
    "daemon": frozenset(("codex", "opencode")),
}
"""Of a transport that has several languages, which."""
_NOT_TRIED = frozenset(("pty",))
"""Transports that are used only when they are named in ``order``."""
_READING: frozenset[GuardedAction] = frozenset(("read",))
_HELP = "docs/agents.md has every field"


class LoginEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shows that the user is logged in. Only existence is checked, contents are never read."""

    variables: tuple[str, ...] = ()
    """Environment variables of which one is enough."""
    files: tuple[str, ...] = ()
    """Files of which one is enough; ``~`` and ``$VARIABLE`` at the start are known."""
    complete: bool = False
    """Without any of these the user is not logged in. Off: some logins leave no evidence."""
    hint: str = ""
    """How to log in, for a person."""


class AgentPermissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent asks about before it does it, as far as is known."""

    asks: frozenset[GuardedAction] = frozenset(("edit", "run"))
    """Of ``read``, ``edit`` and ``run``; what is missing it does unasked."""
    sealed: frozenset[GuardedAction] = frozenset()
    """What it does unasked where it can change nothing: in a sandbox of its own."""
    modes: tuple[str, ...] = ()
    """Modes of its own in which this holds; the first is chosen when a session begins."""
    always: bool = False
    """What a rule denies it does not do, in any mode of its own."""
    reading: dict[str, str] = {}
    """Variables that make it ask before it reads as well; set where a rule is about reading."""


class AgentTransport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an agent is reached over one transport."""

    command: tuple[str, ...]
    """The words that start it; the word ``{quarterdeck}`` is this program itself."""
    dialect: str = ""
    """Which language it speaks over a pipe or as a server."""
    url: str = ""
    """For ``daemon``: where its server runs already, on this machine; empty: it is started."""
    password: str = ""
    """With ``url``: the name of the variable that holds that server's password."""
    install: str = ""
    """How to get the program of this transport; empty: as the agent's own."""
    version: tuple[str, ...] = ()
    """The words that make the program of this transport print its version, if it is another."""
    words: dict[str, tuple[str, ...]] = {}
    """The words for an option, such as ``model``; ``{}`` is the value."""
    modes: dict[Mode, tuple[str, ...]] = {}
    """The words for a mode of ours, where the agent does not ask."""
    agent_modes: dict[str, tuple[str, ...]] = {}
    """The words for a mode of its own."""
    environment: dict[str, str] = {}
    """Always set for it."""
    permissions: AgentPermissions = AgentPermissions()
    """What it asks about."""
    quirks: frozenset[str] = frozenset()
    """What it does differently from what it should, by the names that links know."""
    events: dict[str, Any] = {}
    """For the dialect ``generic``: how to read what it prints."""
    verified: str = ""
    """What it was proven with, such as ``codex 0.166.0``; empty: wired, unverified."""


class MeterEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One address that an agent asks models at, and how it is given another.

    ``{}`` in a value or a word is the address at the meter.
    """

    upstream: str = ""
    """The base URL that it has by default; empty: only where ``variable`` is set."""
    variable: str = ""
    """The variable with its base URL: where it is set its value is the upstream."""
    requires: str = ""
    """Only where this variable is set, such as the key of a vendor."""
    environment: dict[str, str] = {}
    """Other variables that are set; JSON objects are merged with what they hold."""
    words: tuple[str, ...] = ()
    """Words for its command line, over every transport."""


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent, as its file, and the user's over it, describe it."""

    name: str = ""
    """The file's name without ``.toml``; may be left out there."""
    title: str = ""
    """What people call it."""
    vendor: str = ""
    aliases: tuple[str, ...] = ()
    """Other names under which it is found."""
    website: str = ""
    install: str = ""
    """A command that installs it, or where to find one."""
    version: tuple[str, ...] = ()
    """The words that make it print its version; empty if it is better not started."""
    login: LoginEvidence = LoginEvidence()
    inherit: tuple[str, ...] = ()
    """Variables of ours that it may see: its keys, addresses and places."""
    history: tuple[str, ...] = ()
    """Where it keeps its sessions."""
    order: tuple[Transport, ...] | None = None
    """Transports in the order in which they are tried; left out: as they stand in the file."""
    transports: dict[Transport, AgentTransport] = {}
    meter: dict[str, MeterEndpoint] = {}
    """How its model calls are led through the meter, by a name for each address."""
    notes: tuple[str, ...] = ()
    """What is good to know, for a person."""

    sources: tuple[str, ...] = ()
    """The files that describe it; not a field of the file."""

    @property
    def tried(self) -> tuple[Transport, ...]:
        """The transports over which a session is opened, the first that starts."""
        if self.order is not None:
            return self.order
        return tuple(name for name in self.transports if name not in _NOT_TRIED)

    @property
    def is_own(self) -> bool:
        """Whether a file of the user's has a part in it."""
        return any(source.startswith("/") for source in self.sources)

    @property
    def program(self) -> str:
        """The program that is the agent: what its version command starts."""
        if self.version:
            return self.version[0]
        first = next(iter(self.transports.values()), None)
        return first.command[0] if first is not None else ""


def parse_agent(name: str, fields: Mapping[str, Any], sources: tuple[str, ...]) -> Agent:
    """Make the agent that these fields, as TOML gives them, describe.

    Raises:
        BadAgentFileError: a field is unknown, wrong or missing; names the last of the files.
    """
    file = sources[-1] if sources else name
    if "sources" in fields:
        raise _bad(file, "sources", "no such field")
    reaches = _reaches(file, fields.get("transports", {}))
    plain: dict[str, Any] = {"title": name, **fields, "transports": {}, "sources": sources}
    try:
        agent = convert(plain, Agent)
    except msgspec.ValidationError as error:
        raise _explained(file, "", error) from error
    if agent.name not in ("", name):
        raise _bad(file, "name", f"{agent.name!r} is not the file's name; omit it")
    agent = msgspec.structs.replace(agent, name=name, transports=reaches)
    _check(file, agent)
    return agent


def _reaches(file: str, tables: object) -> dict[Transport, AgentTransport]:
    """Each transport by itself, so that an error message can name the place of a mistake."""
    if not isinstance(tables, dict):
        raise _bad(file, "transports", "must be a table of tables, such as [transports.acp]")
    found: dict[Transport, AgentTransport] = {}
    for name, table in cast("dict[str, Any]", tables).items():
        if name not in get_args(Transport):
            known = ", ".join(get_args(Transport))
            raise _bad(file, f"transports.{name}", f"no such transport; known are {known}")
        try:
            found[cast("Transport", name)] = convert(table, AgentTransport)
        except msgspec.ValidationError as error:
            raise _explained(file, f"transports.{name}", error) from error
    return found


def make_launch(agent: Agent, transport: str, *, guards_reading: bool = False) -> Launch:
    """How this agent is started over a transport; ``guards_reading``: a rule is about reading.

    Raises:
        UnsupportedError: its file does not describe this transport.
    """
    reach = agent.transports.get(cast("Transport", transport))
    if reach is None:
        known = ", ".join(agent.transports)
        instead = f"It is described over {known}." if known else "Its file describes no transport."
        raise UnsupportedError(agent.name, transport, "be reached", instead)
    asking = reach.permissions
    reading = asking.reading if guards_reading else {}
    return Launch(
        asks=asking.asks | _READING if reading else asking.asks,
        sealed=asking.sealed,
        asking_modes=asking.modes,
        always_asks=asking.always,
        agent=agent.name,
        command=expand_command(reach.command),
        dialect=reach.dialect,
        url=reach.url,
        password=reach.password,
        install=reach.install or agent.install,
        environment={**reach.environment, **reading},
        inherit=tuple(dict.fromkeys((*agent.inherit, *agent.login.variables, *PROXIES))),
        words=reach.words,
        modes=cast("Mapping[str, tuple[str, ...]]", reach.modes),
        agent_modes=reach.agent_modes,
        quirks=reach.quirks,
        events=reach.events,
    )


def expand_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command with ``{quarterdeck}`` replaced by what starts this program."""
    # -P: the child runs in a user's project, and folders there must not be imported as ours.
    own = (sys.executable, "-P", "-m", "quarterdeck")
    return tuple(word for given in words for word in (own if given == SELF else (given,)))


def check_agent_name(file: str, name: str) -> None:
    """Make sure that a file's name can be an agent's.

    Raises:
        BadAgentFileError: it cannot.
    """
    if not _NAME.fullmatch(name):
        text = f"{name!r} cannot be a name: letters, digits, '-', '_', '.', '+', 64 at most"
        raise _bad(file, "its name", text)


def _check(file: str, agent: Agent) -> None:
    """What types alone cannot say."""
    for name, endpoint in agent.meter.items():
        _check_endpoint(file, name, endpoint)
    for transport in agent.order or ():
        if transport not in agent.transports:
            raise _bad(file, "order", f"there is no table [transports.{transport}]")
    for transport, reach in agent.transports.items():
        key = f"transports.{transport}"
        if not reach.command or not reach.command[0]:
            raise _bad(file, f"{key}.command", "the program is missing: give at least one word")
        dialects = _DIALECTS.get(transport)
        if dialects is not None and reach.dialect not in dialects:
            known = ", ".join(sorted(dialects))
            raise _bad(file, f"{key}.dialect", f"{reach.dialect!r} is not one of {known}")
        if reach.dialect == "generic":
            _check_events(file, agent.name, reach)
        for table in (reach.words, reach.modes, reach.agent_modes):
            _check_words(file, key, cast("Mapping[str, tuple[str, ...]]", table))


def _check_endpoint(file: str, name: str, endpoint: MeterEndpoint) -> None:
    key = f"meter.{name}"
    if not _ENDPOINT.fullmatch(name):
        raise _bad(file, key, "its name may have small letters, digits and '-', 32 at most")
    if not (endpoint.variable or endpoint.upstream):
        raise _bad(file, key, "give an upstream, or the variable that has it")
    if not (endpoint.variable or endpoint.environment or endpoint.words):
        raise _bad(file, key, "give a variable, an environment or words that set the address")
    if endpoint.upstream and not endpoint.upstream.startswith(("http://", "https://")):
        raise _bad(file, f"{key}.upstream", "must begin with http:// or https://")
    if any("\0" in word for word in (*endpoint.words, *endpoint.environment.values())):
        raise _bad(file, key, "a word or a value cannot contain a NUL")


def _check_events(file: str, name: str, reach: AgentTransport) -> None:
    from .pipe.generic import compile_table

    try:
        compile_table(name, reach.events)
    except BadAgentFileError as error:
        raise BadAgentFileError(f"{file}: {error}") from error


def _check_words(file: str, key: str, table: Mapping[str, tuple[str, ...]]) -> None:
    for option, words in table.items():
        if any("\0" in word for word in words):
            raise _bad(file, f"{key}.{option}", "a word of a command line cannot contain a NUL")


_AT = re.compile(r" - at (?:`key` in )?`\$?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")
_FIELDS = tuple(
    dict.fromkeys(
        field
        for struct in (Agent, AgentTransport, LoginEvidence, AgentPermissions, MeterEndpoint)
        for field in struct.__struct_fields__
        if field != "sources"
    )
)


def _explained(file: str, table: str, error: msgspec.ValidationError) -> BadAgentFileError:
    """The same error in words for the author of the file; ``table`` is the table of the values."""
    text = str(error)
    at = _AT.search(text)
    path = f"{table}{at['path'].replace('[...]', '')}" if at else table
    if unknown := _UNKNOWN.search(text):
        field = unknown["field"]
        near = difflib.get_close_matches(field, _FIELDS, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return _bad(file, f"{path}.{field}", f"no such field{meant}")
    if missing := _MISSING.search(text):
        return _bad(file, f"{path}.{missing['field']}", "is missing")
    return _bad(file, path, text[: at.start()] if at else text)


def _bad(file: str, key: str, message: str) -> BadAgentFileError:
    where = f"{file}: {key.strip('.')}" if key.strip(".") else file
    return BadAgentFileError(f"{where}: {message}. {_HELP}.")
