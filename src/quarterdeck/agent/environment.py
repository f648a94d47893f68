"""What a session works with, put together from the configuration of its directory."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from quarterdeck.config.loader import Config, load_config
from quarterdeck.config.places import Places
from quarterdeck.config.schema import Settings
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.models.catalogue import known_models
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.registry import ModelOptions, VendorOptions, endpoint_of
from quarterdeck.wire.clock import format_utc_time, read_wall_clock
from quarterdeck.wire.session_options import SessionOptions

from .instructions import gather_instructions
from .limits import TurnLimits
from .system_prompt import PromptEnvironment, system_prompt
from .tool_servers import MCP_FILE
from .tools.workspace import ToolOptions

if TYPE_CHECKING:
    from quarterdeck.policy.approvers import ApproverPolicy
    from quarterdeck.policy.rules import Effect, Rule, Scope

__all__ = [
    "SessionEnvironment",
    "approvers_of",
    "limits_of",
    "model_options",
    "offered_models",
    "prepare_environment",
    "rules_of",
    "session_rules",
    "tool_options",
]


class SessionEnvironment(Struct, frozen=True, kw_only=True):
    """What is known of the directory a session works in."""

    cwd: str
    project: str
    """The top of the repository, or the directory itself; see ``Workspace.project``."""
    trusted: bool
    config: Config
    system_prompt: str
    instructions: tuple[str, ...] = ()
    """The instructions files that are in the system prompt."""
    problems: tuple[str, ...] = ()
    """What people should know of what was found."""
    has_mcp_file: bool = False
    """Whether the project names servers to agents of every make."""
    private: tuple[str, ...] = ()
    """Directories of ours that no command of an agent needs to see: the log, sockets."""

    @property
    def settings(self) -> Settings:
        """The settings that count here."""
        return self.config.settings


async def prepare_environment(
    places: Places,
    environment: Mapping[str, str],
    cwd: str,
    roots: tuple[str, ...] = (),
    flags: Mapping[str, Any] | None = None,
    began: int | None = None,
) -> SessionEnvironment:
    """Look at a directory: its project, whether it is trusted, its settings, its instructions.

    ``began`` is when the session began, in microseconds since the epoch; None: now. A session
    that goes on another day is sent the same day, so that its prompt stays the same.

    Raises:
        ConfigError: a settings file is wrong; the message names file and key.
    """
    return await asyncio.to_thread(_prepare, places, environment, cwd, roots, flags, began)


def _prepare(
    places: Places,
    environment: Mapping[str, str],
    cwd: str,
    roots: tuple[str, ...],
    flags: Mapping[str, Any] | None,
    began: int | None,
) -> SessionEnvironment:
    workspace = find_workspace(Path(cwd))
    trusted = TrustStore(places.trust_file).is_trusted(workspace.project)
    config = load_config(
        places, directory=Path(cwd), environ=environment, flags=flags, trusted=trusted
    )
    gathered = gather_instructions(
        root=workspace.root,
        cwd=Path(cwd),
        own=places.config,
        files=config.settings.instructions.files,
        trusted=trusted,
    )
    surroundings = PromptEnvironment(
        cwd=cwd,
        roots=roots,
        platform=sys.platform,
        is_git=(workspace.root / ".git").exists(),
        date=_day(began),
    )
    return SessionEnvironment(
        cwd=cwd,
        project=str(workspace.project),
        trusted=trusted,
        config=config,
        system_prompt=system_prompt(surroundings, tuple(gathered.found)),
        instructions=tuple(map(str, gathered.paths)),
        problems=tuple(gathered.problems),
        has_mcp_file=(workspace.project / MCP_FILE).is_file(),
        private=(str(places.state), str(places.runtime)),
    )


def _day(began: int | None) -> str:
    return format_utc_time(read_wall_clock() if began is None else began, "%Y-%m-%d")


def model_options(settings: Settings) -> ModelOptions:
    """The settings about models, in that room's words."""
    return ModelOptions(
        default=settings.model,
        vendors={
            name: VendorOptions(
                base_url=vendor.base_url,
                wire=vendor.wire,
                api_key_env=vendor.api_key_env,
                headers=vendor.headers,
            )
            for name, vendor in settings.vendors.items()
        },
        models={name: msgspec.to_builtins(model) for name, model in settings.models.items()},
    )


def offered_models(environment: Mapping[str, str], options: ModelOptions) -> tuple[str, ...]:
    """The models of the catalogue whose vendor has a key here; reads a file, so use a thread."""
    usable: dict[str, bool] = {}
    for name in known_models():
        vendor = name.partition("/")[0]
        if vendor not in usable:
            usable[vendor] = _has_key(vendor, environment, options)
    return tuple(name for name in known_models() if usable[name.partition("/")[0]])


def _has_key(vendor: str, environment: Mapping[str, str], options: ModelOptions) -> bool:
    try:
        return endpoint_of(vendor, environment, options).key_name is not None
    except ModelSetupError:
        return False


def limits_of(settings: Settings) -> TurnLimits:
    """The settings about limits."""
    given = settings.limits
    return TurnLimits(
        model_calls=given.model_calls,
        tokens=given.tokens,
        seconds=given.seconds,
        cost=given.cost,
        max_concurrent_tools=given.max_concurrent_tools,
        retries=given.retries,
        repeats=None if given.repeats == "unbounded" else given.repeats,
    )


def tool_options(settings: Settings) -> ToolOptions:
    """The settings about tools."""
    return ToolOptions(
        bash_timeout=settings.tools.bash.timeout,
        output_bytes=settings.tools.output_bytes,
        fetch_timeout=settings.tools.fetch.timeout,
        fetch_allow_private=settings.tools.fetch.allow_private,
    )


def rules_of(config: Config) -> "tuple[Rule, ...]":
    """The permission rules of every layer, each with where it came from.

    Raises:
        RuleError: one cannot be read; it says where and what was expected.
    """
    permissions = config.settings.permissions
    lists: tuple[tuple[Effect, tuple[str, ...]], ...] = (
        ("allow", permissions.allow),
        ("ask", permissions.ask),
        ("deny", permissions.deny),
    )
    return tuple(_rule(config, effect, text) for effect, texts in lists for text in texts)


def approvers_of(config: Config) -> "tuple[ApproverPolicy, ...]":
    """Which people have to allow which calls, by the settings of every layer.

    Raises:
        RuleError: a pattern cannot be read; it says where and what was expected.
    """
    given = config.settings.permissions.approvers
    if not given:
        return ()
    from quarterdeck.policy.approvers import ApproverPolicy
    from quarterdeck.policy.grammar import parse_pattern
    from quarterdeck.wire.permissions import ApprovalRule

    return tuple(
        ApproverPolicy(
            rule=ApprovalRule(people=one.people, needed=one.needed, match=one.match),
            pattern=parse_pattern(one.match) if one.match is not None else None,
        )
        for one in given
    )


def session_rules(options: SessionOptions) -> "tuple[Rule, ...]":
    """The rules that hold for one session.

    Raises:
        RuleError: one cannot be read; it says where and what was expected.
    """
    if not options.allow and not options.deny:
        return ()
    # Imported where there is a rule to read: the grammar is a tenth of a start.
    from quarterdeck.policy.grammar import parse_pattern
    from quarterdeck.policy.rules import Rule, RuleSource

    source = RuleSource(origin="flag", where="set when the session was started")
    lists: tuple[tuple[Effect, tuple[str, ...]], ...] = (
        ("allow", options.allow),
        ("deny", options.deny),
    )
    return tuple(
        Rule(effect=effect, pattern=parse_pattern(text), scope="session", source=source)
        for effect, texts in lists
        for text in texts
    )


def _rule(config: Config, effect: "Effect", text: str) -> "Rule":
    # Imported where there is a rule to read: the grammar is a tenth of a start.
    from quarterdeck.policy.grammar import parse_pattern
    from quarterdeck.policy.rules import Rule, RuleSource

    source = config.source("permissions", effect, text)
    scope: Scope = "user"
    origin = RuleSource(origin="user file", where=source.place or "")
    if source.layer in ("project", "local"):
        scope, origin = "project", RuleSource(origin="project file", where=source.place or "")
    elif source.layer in ("flag", "environment"):
        scope, origin = "session", RuleSource(origin="flag", where=source.place or "")
    return Rule(effect=effect, pattern=parse_pattern(text), scope=scope, source=origin)
