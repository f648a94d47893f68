"""Every setting there is. The text under each field is the settings reference.

A field's default is the lowest layer. Tables with free names (``models``, ``vendors``) are
``dict`` fields. After adding a setting run ``quarterdeck config reference`` and put its output
into ``docs/configuration.md``; a test compares them.
"""

from typing import Literal

from msgspec import field

from quarterdeck.wire.settings import Effort, PermissionMode, VendorWire
from quarterdeck.wire.values import Value
from quarterdeck.wire.worktrees import LandingMethod

from .host_settings import HostSettings, RemoteHostSettings
from .setting_types import (
    Allowance,
    BranchPattern,
    BudgetText,
    CallKind,
    Count,
    Days,
    Delay,
    Dollars,
    Gigabytes,
    HostName,
    ModelName,
    Occasion,
    PersonName,
    QuietHours,
    Retries,
    Seconds,
    ServerName,
    Share,
    Url,
    Variable,
)

__all__ = [
    "ADDED_UP",
    "FREE_OF_TRUST",
    "HOOK_POINTS",
    "SECRET",
    "ApproverSettings",
    "BashSettings",
    "BudgetSettings",
    "CheckpointSettings",
    "ChildSettings",
    "ContextSettings",
    "FetchSettings",
    "HookSettings",
    "HooksSettings",
    "HostSettings",
    "InstructionSettings",
    "LandingSettings",
    "LimitSettings",
    "McpServerSettings",
    "McpSettings",
    "MeterSettings",
    "ModelSettings",
    "PermissionSettings",
    "PersonSettings",
    "PriceSettings",
    "RemoteHostSettings",
    "SandboxSettings",
    "Settings",
    "ToolSettings",
    "VendorSettings",
    "WebSettings",
    "WorkbenchSettings",
    "WorktreeSettings",
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
    {"permissions.allow", "permissions.ask", "permissions.deny", "permissions.approvers"}
    | {"meter.agents"}
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
    """Overrides of the catalogue for one model."""

    window: Count | None = None
    """Maximum tokens of prompt and answer together."""
    max_output: Count | None = None
    """Maximum tokens of one answer."""
    images: bool | None = None
    """Whether it accepts images."""
    thinking: bool | None = None
    """Whether it can think before it answers."""
    tools: bool | None = None
    """Whether it can call tools."""
    prices: PriceSettings = PriceSettings()
    """What its tokens cost."""


class VendorSettings(Value, frozen=True, kw_only=True):
    """A server that provides models."""

    base_url: Url | None = None
    """URL of its server. A vendor that is not built in needs this and ``wire``."""
    api_key_env: Variable | None = None
    """The environment variable that holds its key. Keys themselves never go into a file."""
    wire: VendorWire | None = None
    """The protocol of its server."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Headers for every request. Never shown."""


class LimitSettings(Value, frozen=True, kw_only=True):
    """Limits of one turn of our own agent."""

    model_calls: Count | Literal["adaptive", "unbounded"] = "adaptive"
    """Calls of the model in one turn; ``adaptive`` continues while there is progress."""
    tokens: Count | None = None
    """Tokens of one turn, input and output together."""
    seconds: Seconds | None = None
    """Time of one turn, without the time spent waiting for people."""
    cost: Dollars | None = None
    """Cost of one turn, for models whose prices are known."""
    max_concurrent_tools: Count = 8
    """Tool calls that may run at the same time."""
    retries: Retries = 4
    """How often a failed call of the model is retried if the failure is temporary."""
    repeats: Count | Literal["unbounded"] = 8
    """How often a turn may repeat the same tool calls with the same results, one after another or
    in cycles of up to three; then it ends. Calls of five seconds or longer count as a fifth."""


class ContextSettings(Value, frozen=True, kw_only=True):
    """How our own agent keeps a conversation within the model's context window."""

    enabled: bool = True
    """Whether this happens automatically; ``/compact`` works in any case."""
    clear_at: Share = 0.6
    """How full the window may be before old tool results are cleared. All thresholds are shares of
    the window minus the room for an answer."""
    summarise_at: Share = 0.75
    """How full it may be before a summary is written in the background."""
    wait_at: Share = 0.92
    """How full it may be before the turn waits for the summary."""
    keep_turns: Count = 3
    """Number of newest turns to keep verbatim, up to a quarter of the window."""
    summary_model: ModelName | None = None
    """The model that writes summaries. Unset: the session's model."""


class CheckpointSettings(Value, frozen=True, kw_only=True):
    """Snapshots of files around turns, so that turns of every agent can be undone."""

    enabled: bool = True
    """Whether snapshots are taken."""
    patience: Seconds = 10.0
    """How long a snapshot of a work tree may take; after that, only changes by the file tools of
    our own agent can be undone in that turn."""
    ignored: tuple[str, ...] = ()
    """Patterns of ignored files that snapshots cover too, as in `.gitignore`: `[".env"]`."""
    ignored_bytes: Count = 50_000_000
    """How many bytes the files that `ignored` matches may have together; beyond that, no snapshot
    is taken and a notice says so."""
    plain_files: Count = 10_000
    """How many files a directory outside of git may have; a larger one is not covered."""
    plain_bytes: Count = 500_000_000
    """How many bytes the files of a directory outside of git may have together."""


class ChildSettings(Value, frozen=True, kw_only=True):
    """Agents that our own agent starts with ``spawn_agent``."""

    depth: Retries = 2
    """How deeply agents may be nested below a session; 0: it starts none."""
    live: Count = 8
    """How many may run at one time, on all levels together."""
    model_calls: Count = 100
    """Calls of the model that one agent may make, unless its profile sets a number."""
    seconds: Seconds | None = None
    """How long one agent may take, without the time spent waiting for people. Unset: only its
    parent's limit."""
    answer_bytes: Count = 20_000
    """How many bytes of an answer the waiting agent sees. The log has the full answer."""


class PersonSettings(Value, frozen=True, kw_only=True):
    """A person who answers requests; your own file alone counts."""

    uid: Retries | None = None
    """The number of the user on this machine whose programs answer in this person's name. No two
    people can have the same."""
    devices: bool = False
    """Whether devices that are paired for this person (``web pair --person``) answer in their name.
    Who can pair a device is then this person, too."""


class ApproverSettings(Value, frozen=True, kw_only=True):
    """Who has to allow a call before it runs. See ``docs/permissions.md``."""

    match: str | None = None
    """Only calls that this pattern touches, such as ``bash(git push:*)``. Unset: every call that
    needs permission."""
    people: tuple[PersonName, ...] = ()
    """The people who may answer, by their names in ``people``. A denial of one denies."""
    needed: Count = 1
    """How many of them have to allow it."""


class PermissionSettings(Value, frozen=True, kw_only=True):
    """Rules for tool calls. Each layer adds to the lists; deny wins over ask, ask over allow."""

    allow: tuple[str, ...] = ()
    """Calls that are allowed without asking."""
    ask: tuple[str, ...] = ()
    """Calls that always need permission, whatever the mode or an allow rule says."""
    deny: tuple[str, ...] = ()
    """Calls that are never allowed."""
    patience: Seconds | None = None
    """How long a request waits for an answer before it is denied. Unset: forever."""
    unheld: Literal["refuse", "warn"] = "refuse"
    """What to do with another agent that cannot enforce the mode or a rule: refuse to start it, or
    start it with a warning and report violations afterwards."""
    on_violation: Literal["report", "stop"] = "report"
    """What to do when another agent acted without permission: report it, or also end its turn."""
    approvers: tuple[ApproverSettings, ...] = ()
    """Who has to allow which calls. Each layer adds to the list, and all that match a call count.
    Empty: the first answer decides."""


class SandboxSettings(Value, frozen=True, kw_only=True):
    """The sandbox for commands of our own agent."""

    network: bool = False
    """Whether commands may use the network."""
    writable: tuple[str, ...] = ()
    """Directories that commands may write to, besides the workspace and the temporary directory."""
    require: bool = False
    """Whether to refuse commands if no sandbox is available, instead of asking first."""


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
    """Tools of MCP servers."""

    wait: Delay = 3.0
    """How long the first call of the model waits for servers that are starting. Slower servers are
    added later."""


class ToolSettings(Value, frozen=True, kw_only=True):
    """The tools of our own agent."""

    output_bytes: Count = 50_000
    """How many bytes of a tool's output the model sees."""
    bash: BashSettings = BashSettings()
    """The tool that runs commands."""
    fetch: FetchSettings = FetchSettings()
    """The tool that fetches pages."""
    mcp: McpSettings = McpSettings()
    """Tools of MCP servers."""


class McpServerSettings(Value, frozen=True, kw_only=True):
    """An MCP server: a program to start, or a URL."""

    command: str | None = None
    """The program to start; it uses its standard input and output."""
    args: tuple[str, ...] = ()
    """The program's arguments."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for the program; ``${NAME}`` is replaced by one of yours. Of your other variables
    it only sees a few such as ``PATH`` and ``HOME``. Never shown."""
    cwd: str | None = None
    """Working directory of the program; relative to the workspace, or with ``~``. Unset: the
    session's directory."""
    url: Url | None = None
    """URL of a server that is already running; it must support streamable HTTP."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Headers for every request, such as ``Authorization``; ``${NAME}`` is replaced by a variable
    of yours. Never shown."""
    timeout: Seconds = 120.0
    """How long a call may take without progress."""
    start_timeout: Seconds = 30.0
    """How long it may take to list its tools."""
    enabled: bool = True
    """Whether it is used."""
    trusted: bool = False
    """Whether to trust its read-only hints, so that such tools need no permission."""
    tools: tuple[str, ...] = ()
    """Only these tools; ``*`` matches anything; empty: all."""
    without: tuple[str, ...] = ()
    """Not these tools; ``*`` matches anything."""


class InstructionSettings(Value, frozen=True, kw_only=True):
    """Project instructions for the model."""

    files: tuple[str, ...] = ()
    """Files to read besides ``AGENTS.md``; relative to the workspace, or with ``~``."""


class HookSettings(Value, frozen=True, kw_only=True):
    """A program or a function that is run at a point of a session. See ``docs/hooks.md``."""

    match: str | None = None
    """Only for tool calls that match this rule, such as ``bash(git push:*)``."""
    command: str | tuple[str, ...] | None = None
    """The program and its arguments, or a line for the shell."""
    python: str | None = None
    """Instead of a command: ``module:function``, or the name of an installed one."""
    timeout: Seconds = 60.0
    """How long it may take before it is killed and ignored."""


class HooksSettings(Value, frozen=True, kw_only=True):
    """Programs and functions that are run at points of a session of our own agent."""

    session_start: tuple[HookSettings, ...] = ()
    """When a session starts or resumes."""
    session_end: tuple[HookSettings, ...] = ()
    """When a session is closed."""
    prompt: tuple[HookSettings, ...] = ()
    """Before a prompt is sent to the model."""
    before_tool: tuple[HookSettings, ...] = ()
    """Before a tool call is checked and run."""
    after_tool: tuple[HookSettings, ...] = ()
    """After a tool call has run."""
    before_compaction: tuple[HookSettings, ...] = ()
    """Before the conversation is summarised."""
    after_compaction: tuple[HookSettings, ...] = ()
    """After the conversation was summarised."""
    turn_end: tuple[HookSettings, ...] = ()
    """When the model ends its turn."""
    notification: tuple[HookSettings, ...] = ()
    """When a person is asked something."""
    continue_at_most: Retries = 3
    """How often hooks may continue one turn."""

    @property
    def any(self) -> bool:
        """Whether there is a hook at all."""
        return any(getattr(self, point) for point in HOOK_POINTS)


class NotificationSettings(Value, frozen=True, kw_only=True):
    """How you are notified that an agent needs you, is done or failed; once for each event."""

    on: tuple[Occasion, ...] = ("needed", "done", "failed", "conflict")
    """When: an agent needs you, is done, has failed, or changes what another one changes too."""
    bell: bool = True
    """Whether a terminal that shows agents rings its bell."""
    desktop: bool = False
    """Whether the host shows it on the desktop, with ``notify-send`` or ``osascript``."""
    command: tuple[str, ...] = ()
    """A program and its arguments that the host runs; it gets the notification as JSON on its
    standard input and in variables that begin with ``QUARTERDECK_NOTE_``."""
    delay: Delay = 2.0
    """Seconds to wait; a request that you answer in this time causes no notification."""
    quiet: QuietHours | None = None
    """Hours of the day without notifications, such as ``22:00-07:00``."""


class LandingSettings(Value, frozen=True, kw_only=True):
    """How the work of agents is landed. See ``docs/landing.md``."""

    method: LandingMethod = "squash"
    """One commit (``squash``), a merge commit with the agent's commits (``merge``), or the agent's
    commits on top of the branch (``rebase``)."""
    check: str | None = None
    """A command line for the shell that must succeed before work is landed, such as ``make test``.
    It runs in a temporary worktree with the result. Unset: no check."""
    check_timeout: Seconds = 1800.0
    """How long the check may take before it is ended and counts as failed."""
    batch: bool = False
    """Whether a queue checks all agents together first; if that fails, it searches for the agent
    whose work fails and lands the others."""
    on_failure: Literal["hand-back", "report"] = "hand-back"
    """What a queue does with work that conflicts or fails the check: send it to its agent as a
    prompt, or only report it."""
    sandbox: bool = True
    """Whether the check runs in the sandbox, where there is one: it runs code that an agent wrote.
    ``sandbox.network`` and ``sandbox.writable`` count."""


class WorktreeSettings(Value, frozen=True, kw_only=True):
    """Git worktrees of agents."""

    default: bool = False
    """Whether every new agent in a git repository gets a worktree of its own; ``--no-worktree`` and
    ``--worktree`` override it."""
    branch: BranchPattern = "quarterdeck/{agent}"
    """The branch of a new worktree; ``{agent}`` is replaced by the name of the agent or the name
    that you give to the worktree."""
    place: str | None = None
    """Directory for new worktrees; relative to the repository, or with ``~``. Unset: a directory
    of Quarterdeck's own, outside the repository."""
    include_ignored: tuple[str, ...] = ()
    """Ignored files to copy into a new worktree, as patterns of ``.gitignore``, besides those that
    the file ``.worktreeinclude`` of the repository lists."""
    setup: tuple[str, ...] = ()
    """Command lines for the shell that prepare a new worktree before the agent starts."""
    teardown: tuple[str, ...] = ()
    """Command lines for the shell that are run before a worktree is removed."""
    timeout: Seconds = 600.0
    """How long one of these commands may take."""
    sandbox: bool = True
    """Whether these commands run in the sandbox, where there is one, when an agent may have written
    what they run: set-up for an agent that another agent starts, and every tear-down.
    ``sandbox.network`` and ``sandbox.writable`` count."""
    remove_after: tuple[Literal["merge", "archive"], ...] = ("merge", "archive")
    """When a worktree without uncommitted work is removed by itself: after its changes were
    merged, or after its agents were archived. An adopted worktree is never removed."""
    keep_days: Days = 7.0
    """How many days such a worktree stays after its last use."""
    keep_size: Gigabytes | None = None
    """If all worktrees together are larger than this many gigabytes, those that may be removed go
    earlier, the longest unused first. Unset: no limit."""
    trash_days: Days = 30.0
    """How many days a discarded worktree can be restored."""
    trash_ignored: bool = False
    """Whether a discarded worktree keeps all its ignored files, such as build output, and not only
    those that were copied into it and changed."""


class MeterSettings(Value, frozen=True, kw_only=True):
    """The meter, through which model calls of other agents can be led."""

    agents: tuple[str, ...] = ()
    """Agents whose model calls pass through it, by name; `"*"`: every agent whose file says how.
    In a project's file: there."""


class WorkbenchSettings(Value, frozen=True, kw_only=True):
    """The workbench; your own file alone counts."""

    hosts: tuple[str, ...] = ()
    """The hosts that it shows together, as for ``--host``: ``local``, names of ``hosts``, URLs.
    Empty: that of this machine. Read at its start."""
    keys: Literal["default", "vim"] = "default"
    """The keys of the input and of lists. ``vim``: the input has a normal and an insert mode. Read
    from your own settings at the start of the workbench."""
    signs: Literal["auto", "unicode", "ascii"] = "auto"
    """Whether signs and lines are drawn in ASCII. ``auto``: if the locale is not UTF-8, or on a
    terminal whose font has few signs (``TERM`` is ``linux`` or ``dumb``)."""


class WebSettings(Value, frozen=True, kw_only=True):
    """The browser interface; your own file alone counts. See ``docs/web.md``."""

    ntfy: Url | None = None
    """A topic of ntfy that gets notifications too, such as ``https://ntfy.sh/my-secret-topic``. Who
    knows the topic can read them."""
    webhook: Url | None = None
    """An address that gets notifications too, as JSON."""
    decide_in_notifications: tuple[CallKind, ...] = ()
    """Kinds of calls that can be allowed and denied from a notification, without opening the page,
    such as ``["read", "search"]``. Other notifications open the page."""


class BudgetSettings(Value, frozen=True, kw_only=True):
    """What agents may use. Each is a list such as ``["5usd", "200ktok"]``. See ``docs/budgets.md``.

    ``day`` and ``all`` count in your own file alone.
    """

    agent: tuple[BudgetText, ...] = ()
    """For each agent, with its own sub-agents."""
    tree: tuple[BudgetText, ...] = ()
    """For each agent that you start, with all that it starts."""
    project: tuple[BudgetText, ...] = ()
    """For all agents of a project together."""
    day: tuple[BudgetText, ...] = ()
    """For all agents together, each day."""
    all: tuple[BudgetText, ...] = ()
    """For all agents together."""
    warn_at: Share = 0.8
    """The part of a budget from which on you and the agent are warned."""
    allowance: Allowance = 0.05
    """The part of a budget that agents may use beyond it, to wrap up."""


class Settings(Value, frozen=True, kw_only=True):
    """All settings, complete and checked."""

    model: ModelName | None = None
    """The model of our own agent, as ``vendor/id``."""
    mode: PermissionMode = "ask"
    """What agents may do without asking."""
    effort: Effort = "medium"
    """How much the model may think before it answers, if it can think."""
    fallback: tuple[str, ...] = ()
    """Agents that continue the work of one that fails, in this order, each once."""
    models: dict[ModelName, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    """Overrides of the catalogue, by model name."""
    vendors: dict[str, VendorSettings] = field(default_factory=dict[str, VendorSettings])
    """Servers that provide models, by the first part of the model's name."""
    limits: LimitSettings = LimitSettings()
    """Limits of one turn of our own agent."""
    context: ContextSettings = ContextSettings()
    """How our own agent keeps a conversation within the model's context window."""
    checkpoints: CheckpointSettings = CheckpointSettings()
    """Snapshots of files around turns of agents."""
    children: ChildSettings = ChildSettings()
    """Agents that our own agent starts."""
    permissions: PermissionSettings = PermissionSettings()
    """Rules for tool calls."""
    people: dict[PersonName, PersonSettings] = field(default_factory=dict[str, PersonSettings])
    """People who answer requests, by name; see ``permissions.approvers``."""
    sandbox: SandboxSettings = SandboxSettings()
    """The sandbox for commands of our own agent."""
    tools: ToolSettings = ToolSettings()
    """The tools of our own agent."""
    mcp_servers: dict[ServerName, McpServerSettings] = field(
        default_factory=dict[str, McpServerSettings]
    )
    """MCP servers whose tools our own agent can use, by a name of your choice."""
    hooks: HooksSettings = HooksSettings()
    """Programs and functions that are run at points of a session of our own agent."""
    instructions: InstructionSettings = InstructionSettings()
    """Project instructions for the model."""
    budget: BudgetSettings = BudgetSettings()
    """What agents may use."""
    landing: LandingSettings = LandingSettings()
    """How the work of agents is landed."""
    host: HostSettings = HostSettings()
    """The process that owns the agents."""
    hosts: dict[HostName, RemoteHostSettings] = field(default_factory=dict[str, RemoteHostSettings])
    """Hosts on other machines, by a name of your choice; see ``docs/remote-hosts.md``."""
    pool: str | None = None
    """The pool that ``--pool default`` means if the variable ``QUARTERDECK_POOL`` is not set: a URL
    without a password, or the path of a file with a URL; see ``docs/pool.md``."""
    notifications: NotificationSettings = NotificationSettings()
    """How you are notified that an agent needs you, is done or failed."""
    worktrees: WorktreeSettings = WorktreeSettings()
    """Git worktrees of agents."""
    meter: MeterSettings = MeterSettings()
    """The meter of model calls of other agents."""
    workbench: WorkbenchSettings = WorkbenchSettings()
    """The workbench."""
    web: WebSettings = WebSettings()
    """The browser interface."""
