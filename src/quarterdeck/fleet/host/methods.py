"""The host's methods: the name, the parameters and the result of each; terminals last."""

from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct

from quarterdeck.journal.search_hit import SearchHit
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Origin
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.values import Value

from ..api import (
    AgentInfo,
    Fleet,
    FleetStatus,
    FleetTerminalOptions,
    ImportedSession,
    InboxItem,
    SpawnOptions,
    TerminalInfo,
    WaitFor,
)

__all__ = [
    "AGENT",
    "AGENTS",
    "ANSWER",
    "ARCHIVE",
    "ATTACH_SCREEN",
    "CALL_SCREEN",
    "CLOSE",
    "CLOSE_TERMINAL",
    "DELETE",
    "DETACH_SCREEN",
    "EDIT",
    "ENDED",
    "FOLLOW",
    "FORK",
    "GRANTS",
    "HELLO",
    "IMPORT_SESSION",
    "INBOX",
    "INTERRUPT",
    "KILL",
    "METHODS",
    "OPEN_TERMINAL",
    "PASTE_TERMINAL",
    "PROTOCOL",
    "READ",
    "RECORDS",
    "RENAME",
    "REPLY",
    "RESIZE_TERMINAL",
    "RESUME",
    "REVOKE",
    "SCREEN_ACTIVE",
    "SCREEN_CALL",
    "SEARCH",
    "SEND",
    "SET_OPTION",
    "SPAWN",
    "STATUS",
    "STOP",
    "TAKEN",
    "TERMINALS",
    "TERMINAL_METHODS",
    "UNFOLLOW",
    "WAIT",
    "WATCH_TERMINAL",
    "WRITE_TERMINAL",
    "AttachScreen",
    "BatchTaken",
    "DetachScreen",
    "Follow",
    "FollowResult",
    "Hello",
    "HostMethod",
    "NoParams",
    "OpenTerminalParams",
    "PasteTerminalParams",
    "Records",
    "RecordsPage",
    "ResizeTerminalParams",
    "ScreenActive",
    "ScreenCall",
    "SubscriptionEnded",
    "TerminalParams",
    "Unfollow",
    "WatchTerminalResult",
    "Welcome",
    "WriteTerminalParams",
]

PROTOCOL = 1
"""The version of this vocabulary; host and client must speak the same."""

R = TypeVar("R")


class HostMethod(Struct, Generic[R], frozen=True, kw_only=True):
    """A request that the host answers."""

    name: str
    params: type[Struct]
    result: Any
    """The type of the result, as msgspec reads it."""
    changes: bool = False
    """It is carried through even if who asked for it is gone."""

    async def call(self, fleet: Fleet, params: Struct) -> Any:
        """Call the fleet's method of this name."""
        method = getattr(fleet, self.name.partition("/")[2])
        return await method(**{name: getattr(params, name) for name in params.__struct_fields__})


class NoParams(Value, frozen=True, kw_only=True):
    """No parameters."""


class Hello(Value, frozen=True, kw_only=True):
    """The first thing a client says."""

    version: str
    protocol: int
    name: str = ""
    """What the client is, for logs."""


class Welcome(Struct, frozen=True, kw_only=True):
    """The host's answer to it."""

    version: str
    protocol: int
    pid: int


class SpawnParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.spawn``."""

    wish: SpawnOptions


class AgentsParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.agents``."""

    archived: bool = False
    parent: SessionId | None = None


class AgentParams(Value, frozen=True, kw_only=True):
    """An agent, by name or id."""

    agent: str


class SendParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.send``."""

    agent: str
    content: tuple[ContentBlock, ...]
    origin: Origin = "person"
    sender: SessionId | None = None


class EditParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.edit``."""

    agent: str
    message: MessageId
    content: tuple[ContentBlock, ...] | None


class InterruptParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.interrupt``."""

    agent: str
    keep_queue: bool = True


class KillParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.kill``."""

    agent: str
    reason: str | None = None


class ArchiveParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.archive``."""

    agent: str
    archived: bool = True


class ForkParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.fork``."""

    agent: str
    name: str | None = None
    prompt: str | None = None


class ImportParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.import_session``."""

    agent: str
    id: str
    homes: dict[str, str]
    name: str | None = None
    cwd: str | None = None


class RenameParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.rename``."""

    agent: str
    name: str


class SetOptionParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.set_option``."""

    agent: str
    option: str
    value: str | bool


class AnswerParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.answer``."""

    request: RequestId
    choice: str
    by: str = "person"
    feedback: str | None = None


class ReplyParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.reply``."""

    request: RequestId
    action: QuestionAction
    by: str = "person"
    content: dict[str, Any] | None = None


class RevokeParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.revoke``."""

    grant: str
    by: str = "person"


class ReadParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.read``."""

    agent: str | None = None
    after: int = 0
    before: int | None = None
    limit: int = 200


class RecordsPage(Struct, frozen=True, kw_only=True):
    """Some of the records that were asked for, as long as they fit into one message."""

    records: tuple[Raw, ...]
    is_cut: bool = False
    """There are more within what was asked for: ask again from here."""


class WaitParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.wait``."""

    agents: tuple[str, ...]
    until: WaitFor = "all"
    timeout: float | None = None


class SearchParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.search``."""

    words: str
    limit: int = 50


class AttachScreen(Value, frozen=True, kw_only=True):
    """See ``Fleet.attach_screen``; the calls come as ``screen/call``."""

    screen: int
    """The client's own number for it: it knows the screen before the first call comes."""
    cwd: str
    idle: float = 0.0


class DetachScreen(Value, frozen=True, kw_only=True):
    """No more calls for it, please."""

    screen: int


class ScreenActive(Value, frozen=True, kw_only=True):
    """See ``WorkbenchRegistration.active``."""

    screen: int
    cwd: str | None = None


class CallScreenParams(Value, frozen=True, kw_only=True):
    """See ``Fleet.call_screen``."""

    name: str
    arguments: dict[str, Any]
    by: str = "person"


class ScreenCall(Struct, frozen=True, kw_only=True):
    """To the client: what a screen of its own shall do. The answer is the result."""

    screen: int
    name: str
    arguments: dict[str, Any]
    by: str


class Follow(Value, frozen=True, kw_only=True):
    """See ``Fleet.follow``; the records come as ``fleet/records``."""

    after: int | None = None
    agent: str | None = None


class FollowResult(Struct, frozen=True, kw_only=True):
    """The records will come under this id, those after ``after``."""

    subscription: int
    after: int
    session: SessionId | None = None
    """The agent's, if one was named."""


class Unfollow(Value, frozen=True, kw_only=True):
    """No more of them, please."""

    subscription: int


class Records(Struct, frozen=True, kw_only=True):
    """To the client: what is next in a subscription, in order."""

    subscription: int
    records: tuple[Raw, ...]
    """Records, or what is seen of a terminal."""


class BatchTaken(Value, frozen=True, kw_only=True):
    """To the host: the oldest batch of a subscription was used; another may come."""

    subscription: int


class SubscriptionEnded(Struct, frozen=True, kw_only=True):
    """To the client: a subscription is over; ``data`` is that of an error answer."""

    subscription: int
    message: str
    code: int
    data: Any = None


HELLO = HostMethod[Welcome](name="host/hello", params=Hello, result=Welcome)
STOP = HostMethod[None](name="host/stop", params=NoParams, result=None)
FOLLOW = HostMethod[FollowResult](name="fleet/follow", params=Follow, result=FollowResult)
UNFOLLOW = HostMethod[None](name="fleet/unfollow", params=Unfollow, result=None)
ATTACH_SCREEN = HostMethod[None](name="fleet/attach_screen", params=AttachScreen, result=None)
DETACH_SCREEN = HostMethod[None](name="fleet/detach_screen", params=DetachScreen, result=None)
SCREEN_ACTIVE = HostMethod[None](name="fleet/screen_active", params=ScreenActive, result=None)
READ = HostMethod[RecordsPage](name="fleet/read", params=ReadParams, result=RecordsPage)
SPAWN = HostMethod[AgentInfo](
    name="fleet/spawn", params=SpawnParams, result=AgentInfo, changes=True
)
AGENTS = HostMethod[list[AgentInfo]](
    name="fleet/agents", params=AgentsParams, result=list[AgentInfo]
)
AGENT = HostMethod[AgentInfo](name="fleet/agent", params=AgentParams, result=AgentInfo)
SEND = HostMethod[MessageId](name="fleet/send", params=SendParams, result=MessageId, changes=True)
EDIT = HostMethod[bool](name="fleet/edit", params=EditParams, result=bool, changes=True)
INTERRUPT = HostMethod[None](
    name="fleet/interrupt", params=InterruptParams, result=None, changes=True
)
KILL = HostMethod[None](name="fleet/kill", params=KillParams, result=None, changes=True)
CLOSE = HostMethod[None](name="fleet/close", params=AgentParams, result=None, changes=True)
ARCHIVE = HostMethod[None](name="fleet/archive", params=ArchiveParams, result=None, changes=True)
DELETE = HostMethod[None](name="fleet/delete", params=AgentParams, result=None, changes=True)
RESUME = HostMethod[AgentInfo](
    name="fleet/resume", params=AgentParams, result=AgentInfo, changes=True
)
FORK = HostMethod[AgentInfo](name="fleet/fork", params=ForkParams, result=AgentInfo, changes=True)
IMPORT_SESSION = HostMethod[ImportedSession](
    name="fleet/import_session", params=ImportParams, result=ImportedSession, changes=True
)
RENAME = HostMethod[AgentInfo](
    name="fleet/rename", params=RenameParams, result=AgentInfo, changes=True
)
SET_OPTION = HostMethod[None](
    name="fleet/set_option", params=SetOptionParams, result=None, changes=True
)
INBOX = HostMethod[list[InboxItem]](name="fleet/inbox", params=NoParams, result=list[InboxItem])
ANSWER = HostMethod[bool](name="fleet/answer", params=AnswerParams, result=bool, changes=True)
REPLY = HostMethod[bool](name="fleet/reply", params=ReplyParams, result=bool, changes=True)
GRANTS = HostMethod[list[Grant]](name="fleet/grants", params=NoParams, result=list[Grant])
REVOKE = HostMethod[bool](name="fleet/revoke", params=RevokeParams, result=bool, changes=True)
WAIT = HostMethod[list[AgentInfo]](name="fleet/wait", params=WaitParams, result=list[AgentInfo])
SEARCH = HostMethod[list[SearchHit]](
    name="fleet/search", params=SearchParams, result=list[SearchHit]
)
CALL_SCREEN = HostMethod[Any](name="fleet/call_screen", params=CallScreenParams, result=Any)
STATUS = HostMethod[FleetStatus](name="fleet/status", params=NoParams, result=FleetStatus)

METHODS: dict[str, HostMethod[Any]] = {
    method.name: method
    for method in (
        *(SPAWN, AGENTS, AGENT, SEND, EDIT, INTERRUPT, KILL, CLOSE, ARCHIVE, RESUME, FORK, RENAME),
        *(SET_OPTION, INBOX, DELETE, ANSWER, REPLY, GRANTS, REVOKE, WAIT, SEARCH, STATUS),
        *(CALL_SCREEN, IMPORT_SESSION),
    )
}
"""Those that are a call of the fleet and nothing else."""

RECORDS = "fleet/records"
ENDED = "fleet/ended"
TAKEN = "fleet/taken"
SCREEN_CALL = "screen/call"


class OpenTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.open_terminal``."""

    wish: FleetTerminalOptions


class TerminalParams(Value, frozen=True, kw_only=True):
    """A terminal by its id, or an agent whose screen it is."""

    terminal: str


class WatchTerminalResult(Struct, frozen=True, kw_only=True):
    """What is seen will come as ``fleet/records`` under this id; ``fleet/unfollow`` ends it."""

    subscription: int


class WriteTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.write_terminal``."""

    terminal: str
    data: bytes
    """In JSON as base64."""


class PasteTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.paste_terminal``."""

    terminal: str
    text: str


class ResizeTerminalParams(Value, frozen=True, kw_only=True):
    """See ``Terminals.resize_terminal``."""

    terminal: str
    columns: int
    rows: int


WATCH_TERMINAL = HostMethod[WatchTerminalResult](
    name="fleet/watch_terminal", params=TerminalParams, result=WatchTerminalResult
)
OPEN_TERMINAL = HostMethod[TerminalInfo](
    name="fleet/open_terminal", params=OpenTerminalParams, result=TerminalInfo, changes=True
)
TERMINALS = HostMethod[list[TerminalInfo]](
    name="fleet/terminals", params=NoParams, result=list[TerminalInfo]
)
# What is typed into a program that does not read waits, and must not hold up the host's end.
WRITE_TERMINAL = HostMethod[None](
    name="fleet/write_terminal", params=WriteTerminalParams, result=None
)
PASTE_TERMINAL = HostMethod[None](
    name="fleet/paste_terminal", params=PasteTerminalParams, result=None
)
RESIZE_TERMINAL = HostMethod[None](
    name="fleet/resize_terminal", params=ResizeTerminalParams, result=None
)
CLOSE_TERMINAL = HostMethod[None](
    name="fleet/close_terminal", params=TerminalParams, result=None, changes=True
)

TERMINAL_METHODS: dict[str, HostMethod[Any]] = {
    method.name: method
    for method in (
        *(OPEN_TERMINAL, TERMINALS, WRITE_TERMINAL, PASTE_TERMINAL, RESIZE_TERMINAL),
        CLOSE_TERMINAL,
    )
}
"""Those that are a call of the fleet and nothing else."""
