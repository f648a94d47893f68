"""Every setting there is. The text under each field is the settings reference.

A field's default is the lowest layer. Tables with free names (``models``, ``vendors``) are
``dict`` fields. After adding a setting run ``quarterdeck config reference`` and put its output
into ``docs/configuration.md``; a test compares them.
"""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from quarterdeck.wire.settings import Effort, PermissionMode, VendorWire
from quarterdeck.wire.values import Value

__all__ = [
    "ADDED_UP",
    "FREE_OF_TRUST",
    "HOOK_POINTS",
    "SECRET",
    "BashSettings",
    "CheckpointSettings",
    "ChildSettings",
    "ContextSettings",
    "FetchSettings",
    "HookSettings",
    "HooksSettings",
    "HostSettings",
    "InstructionSettings",
    "LimitSettings",
    "McpServerSettings",
    "McpSettings",
    "ModelSettings",
    "PermissionSettings",
    "PriceSettings",
    "SandboxSettings",
    "Settings",
    "ToolSettings",
    "VendorSettings",
]

Occasion: TypeAlias = Literal["needed", "done", "failed"]
"""What a person may want to be told."""

Count: TypeAlias = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
Retries: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, description="a number of US dollars")]
Share: TypeAlias = Annotated[
    float, Meta(gt=0, le=1, description="a part of the whole, above 0, at most 1")
]
Minutes: TypeAlias = Annotated[float, Meta(ge=0, description="a number of minutes")]
Delay: TypeAlias = Annotated[float, Meta(ge=0, description="a number of seconds")]
QuietHours: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$",
        description="two times of the day in the form 22:00-07:00",
    ),
]
Url: TypeAlias = Annotated[
    str, Meta(pattern=r"^https?://[^\s]+$", description="a URL with http:// or https://")
]
ModelName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[^/\s]+/\S+$", description="a model's name in the form vendor/id")
]
ServerName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*__)[A-Za-z0-9][A-Za-z0-9_-]{0,31}$",
        description="a name of at most 32 letters, digits, '-' and '_', no two '_' together",
    ),
]
Variable: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="the name of an environment variable"),
]

HOOK_POINTS = (
    "session_start",
    "session_end",
    "prompt",
    "before_tool",
    "after_tool",
    "before_compaction",
    "after_compaction",
    "turn_end",
    "notification",
)
"""When hooks are run."""

ADDED_UP = frozenset(
    {"permissions.allow", "permissions.ask", "permissions.deny"}
    | {f"hooks.{point}" for point in HOOK_POINTS}
)
"""Lists to which each layer adds. Every other list of a higher layer replaces the lower one.

A rule that denies, or a hook that does, would be worth nothing if the next file could empty the
list.
"""

FREE_OF_TRUST = frozenset({"effort", "permissions.ask", "permissions.deny"})
"""What a project may set before its directory is trusted: what can only narrow.

Everything else in a project's files can run something, send text elsewhere, spend more or open
more; a setting that is added here later has to be argued for, one that is forgotten is safe.
"""

SECRET = frozenset({"mcp_servers.*.env.*", "mcp_servers.*.headers.*", "vendors.*.headers.*"})
"""Values that are never shown."""


class PriceSettings(Value, frozen=True, kw_only=True):
    """US dollars for a million tokens."""

    input: Dollars | None = None
    """Fresh input."""
    output: Dollars | None = None
    """Output, thinking included."""
    cached: Dollars | None = None
    """Input that was read from the vendor's cache."""
    cache_written: Dollars | None = None
    """Input that was written to the vendor's cache."""


class ModelSettings(Value, frozen=True, kw_only=True):
    """What the catalogue does not know, or knows wrongly, about one model."""

    window: Count | None = None
    """Tokens that prompt and answer may have together."""
    max_output: Count | None = None
    """Tokens that one answer may have."""
    images: bool | None = None
    """Whether it can look at images."""
    thinking: bool | None = None
    """Whether it can think before it answers."""
    tools: bool | None = None
    """Whether it can call tools."""
    prices: PriceSettings = PriceSettings()
    """What its tokens cost."""


class VendorSettings(Value, frozen=True, kw_only=True):
    """A server that answers for models."""

    base_url: Url | None = None
    """Where its server is. A vendor that we do not know needs this and ``wire``."""
    api_key_env: Variable | None = None
    """The environment variable that holds its key. Keys themselves never go into a file."""
    wire: VendorWire | None = None
    """The form in which its server is asked."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Headers to send along with every request. Never shown."""


class LimitSettings(Value, frozen=True, kw_only=True):
    """Where a turn of our own agent ends, at the latest."""

    model_calls: Count | Literal["adaptive", "unbounded"] = "adaptive"
    """Calls of the model in one turn; ``adaptive`` goes on while there is progress."""
    tokens: Count | None = None
    """Tokens of one turn, input and output together."""
    seconds: Seconds | None = None
    """Time of one turn, waiting for people not counted."""
    cost: Dollars | None = None
    """Cost of one turn, for models whose prices are known."""
    max_concurrent_tools: Count = 8
    """Tool calls that may run at the same time."""
    retries: Retries = 4
    """How often a call of the model is repeated when it failed for a passing reason."""
    repeats: Count | Literal["unbounded"] = 8
    """How often a turn may make the same tool calls with the same results, one after another or in
    rounds of up to three; then it ends. Calls that take five seconds or longer count a fifth."""


class ContextSettings(Value, frozen=True, kw_only=True):
    """What our own agent does before a conversation outgrows the model's window."""

    enabled: bool = True
    """Whether it does anything by itself; ``/compact`` works also without."""
    clear_at: Share = 0.6
    """How full the window may be before old results of tools are cleared. All marks are shares of
    the window without the room for an answer."""
    summarise_at: Share = 0.75
    """How full it may be before a summary is written in the background."""
    wait_at: Share = 0.92
    """How full it may be before the turn waits for the summary."""
    keep_turns: Count = 3
    """The newest turns stay whole, as far as a quarter of the window holds them."""
    summary_model: ModelName | None = None
    """The model that writes summaries. Unset: the one that is asked."""


class CheckpointSettings(Value, frozen=True, kw_only=True):
    """What is kept of files that our own agent changes, so that its turns can be undone."""

    enabled: bool = True
    """Whether anything is kept."""
    patience: Seconds = 10.0
    """How long it may take to write down a work tree; then only what the tools for files change can
    be undone in that turn."""


class ChildSettings(Value, frozen=True, kw_only=True):
    """Agents that our own agent starts with ``spawn_agent``."""

    depth: Retries = 2
    """How many generations there may be below a session; 0: it starts none."""
    live: Count = 8
    """How many may run at one time, all generations together."""
    model_calls: Count = 100
    """Calls of the model that one may make, unless its profile says how many."""
    seconds: Seconds | None = None
    """How long one may take, waiting for people not counted. Unset: no limit but its parent's."""
    answer_bytes: Count = 20_000
    """How much of an answer the agent gets to see that waits for it. All of it stays in the log."""


class PermissionSettings(Value, frozen=True, kw_only=True):
    """Rules for tool calls. Each layer adds to the lists; deny wins over ask, ask over allow."""

    allow: tuple[str, ...] = ()
    """What may be done without asking."""
    ask: tuple[str, ...] = ()
    """What must be asked for, whatever the mode or an allow rule says."""
    deny: tuple[str, ...] = ()
    """What is never done."""
    patience: Seconds | None = None
    """How long a request waits for somebody's answer; then it is refused. Unset: for ever."""
    unheld: Literal["refuse", "warn"] = "refuse"
    """What to do with another agent that could not keep to the mode or to a rule: not start it, or
    start it with a warning and tell afterwards what it did."""
    on_violation: Literal["report", "stop"] = "report"
    """What to do when another agent did what nobody permitted: report it, or end its turn too."""


class SandboxSettings(Value, frozen=True, kw_only=True):
    """The cage in which commands of our own agent run."""

    network: bool = False
    """Whether commands may use the network."""
    writable: tuple[str, ...] = ()
    """Directories, besides the workspace and the temporary one, that commands may write to."""
    require: bool = False
    """Whether to refuse commands where no sandbox can be had, instead of asking first."""


class BashSettings(Value, frozen=True, kw_only=True):
    """The tool that runs commands."""

    timeout: Seconds = 120.0
    """How long a command may run unless the call itself says otherwise."""


class FetchSettings(Value, frozen=True, kw_only=True):
    """The tool that fetches pages."""

    timeout: Seconds = 30.0
    """How long a page may take."""
    allow_private: bool = False
    """Whether addresses of the local network and of this machine may be fetched."""


class McpSettings(Value, frozen=True, kw_only=True):
    """Tools that MCP servers lend."""

    wait: Delay = 3.0
    """How long the first call of the model waits for servers that are still being started. Those
    that take longer join later."""


class ToolSettings(Value, frozen=True, kw_only=True):
    """The tools of our own agent."""

    output_bytes: Count = 50_000
    """How much of a tool's output the model gets to see."""
    bash: BashSettings = BashSettings()
    """The tool that runs commands."""
    fetch: FetchSettings = FetchSettings()
    """The tool that fetches pages."""
    mcp: McpSettings = McpSettings()
    """Tools that MCP servers lend."""


class McpServerSettings(Value, frozen=True, kw_only=True):
    """An MCP server: a program that we start, or an address."""

    command: str | None = None
    """The program, if we start it; it talks over its standard input and output."""
    args: tuple[str, ...] = ()
    """The program's arguments."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for the program; ``${NAME}`` stands for one of yours. It sees no others of yours
    but a few like ``PATH`` and ``HOME``. Never shown."""
    cwd: str | None = None
    """Where the program runs; relative to the workspace, or with ``~``. Unset: the session's
    directory."""
    url: Url | None = None
    """Where the server is, if it runs already; it talks streamable HTTP."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Headers for every request, such as ``Authorization``; ``${NAME}`` stands for a variable of
    yours. Never shown."""
    timeout: Seconds = 120.0
    """How long a call may take without a sign of progress."""
    start_timeout: Seconds = 30.0
    """How long it may take until it has told its tools."""
    enabled: bool = True
    """Whether it is used."""
    trusted: bool = False
    """Whether its word that a tool only reads is believed, so that such a tool need not ask."""
    tools: tuple[str, ...] = ()
    """Only these of its tools, with ``*`` for anything; empty: all."""
    without: tuple[str, ...] = ()
    """None of these of its tools, with ``*`` for anything."""


class InstructionSettings(Value, frozen=True, kw_only=True):
    """What the model is told about a project."""

    files: tuple[str, ...] = ()
    """Files to read besides ``AGENTS.md``; relative to the workspace, or with ``~``."""


class HookSettings(Value, frozen=True, kw_only=True):
    """A program or a function that is run at a point of a session. See ``docs/hooks.md``."""

    match: str | None = None
    """Only for tool calls that this rule holds for, such as ``bash(git push:*)``."""
    command: str | tuple[str, ...] | None = None
    """The program and its arguments, or a line for the shell."""
    python: str | None = None
    """Instead of a command: ``module:function``, or the name of an installed one."""
    timeout: Seconds = 60.0
    """How long it may take; then it is killed and ignored."""


class HooksSettings(Value, frozen=True, kw_only=True):
    """Programs and functions that are run at points of a session of our own agent."""

    session_start: tuple[HookSettings, ...] = ()
    """When a session begins or goes on."""
    session_end: tuple[HookSettings, ...] = ()
    """When a session is closed."""
    prompt: tuple[HookSettings, ...] = ()
    """Before a prompt is told to the model."""
    before_tool: tuple[HookSettings, ...] = ()
    """Before a tool call is judged and run."""
    after_tool: tuple[HookSettings, ...] = ()
    """When a tool call has run."""
    before_compaction: tuple[HookSettings, ...] = ()
    """Before the conversation is summarised."""
    after_compaction: tuple[HookSettings, ...] = ()
    """When the conversation was summarised."""
    turn_end: tuple[HookSettings, ...] = ()
    """When the model has come to the end of its turn."""
    notification: tuple[HookSettings, ...] = ()
    """When a person is asked something."""
    continue_at_most: Retries = 3
    """How often hooks may go on with one turn."""

    @property
    def any(self) -> bool:
        """Whether there is a hook at all."""
        return any(getattr(self, point) for point in HOOK_POINTS)


class HostSettings(Value, frozen=True, kw_only=True):
    """The process that owns the agents. It reads these when it starts, from your own file alone."""

    idle_minutes: Minutes = 15.0
    """A host without clients, agents and terminals leaves after this time; 0: it stays."""
    resume_agents: bool = False
    """Whether agents that ran when the host was killed are resumed by themselves."""


class NotificationSettings(Value, frozen=True, kw_only=True):
    """How you are told that an agent needs you or has come to an end. Never twice for one thing."""

    on: tuple[Occasion, ...] = ("needed", "done", "failed")
    """When: an agent needs you, has done what it was asked, or has failed."""
    bell: bool = True
    """Whether a terminal that shows agents rings its bell."""
    desktop: bool = False
    """Whether the host shows it on the desktop, with ``notify-send`` or ``osascript``."""
    command: tuple[str, ...] = ()
    """A program and its arguments that the host runs; it gets the notification as JSON on its
    standard input and in variables that begin with ``QUARTERDECK_NOTE_``."""
    delay: Delay = 2.0
    """Seconds to wait: what you have answered by then is not told."""
    quiet: QuietHours | None = None
    """Hours of the day in which nothing is told, such as ``22:00-07:00``."""


class Settings(Value, frozen=True, kw_only=True):
    """All settings, complete and checked."""

    model: ModelName | None = None
    """The model of our own agent, as ``vendor/id``."""
    mode: PermissionMode = "ask"
    """What agents may do before they have to ask."""
    effort: Effort = "medium"
    """How much the model may think before it answers, where it can."""
    models: dict[ModelName, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    """What the catalogue does not know, or knows wrongly, by the model's name."""
    vendors: dict[str, VendorSettings] = field(default_factory=dict[str, VendorSettings])
    """Servers that answer for models, by the first part of the model's name."""
    limits: LimitSettings = LimitSettings()
    """Where a turn of our own agent ends, at the latest."""
    context: ContextSettings = ContextSettings()
    """What our own agent does before a conversation outgrows the model's window."""
    checkpoints: CheckpointSettings = CheckpointSettings()
    """What is kept of files that our own agent changes."""
    children: ChildSettings = ChildSettings()
    """Agents that our own agent starts."""
    permissions: PermissionSettings = PermissionSettings()
    """Rules for tool calls."""
    sandbox: SandboxSettings = SandboxSettings()
    """The cage in which commands of our own agent run."""
    tools: ToolSettings = ToolSettings()
    """The tools of our own agent."""
    mcp_servers: dict[ServerName, McpServerSettings] = field(
        default_factory=dict[str, McpServerSettings]
    )
    """MCP servers that lend tools to our own agent, by the name that you give them."""
    hooks: HooksSettings = HooksSettings()
    """Programs and functions that are run at points of a session of our own agent."""
    instructions: InstructionSettings = InstructionSettings()
    """What the model is told about a project."""
    host: HostSettings = HostSettings()
    """The process that owns the agents."""
    notifications: NotificationSettings = NotificationSettings()
    """How you are told that an agent needs you or has come to an end."""
