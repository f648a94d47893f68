"""What can be asked of a host: the name, the parameters and the result of each method.

The parameters of ``fleet/x`` are the arguments of ``Fleet.x`` under their own names. Unknown ones
are an error: a wish that the host does not understand must not be dropped in silence. A change
that an older program would misunderstand raises ``PROTOCOL``.
"""

from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct

from quarterdeck.journal.hits import Hit
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Origin
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.values import Value

from ..port import AgentInfo, Fleet, FleetStatus, Imported, InboxItem, Spawn, WaitFor

__all__ = [
    "AGENT",
    "AGENTS",
    "ANSWER",
    "ARCHIVE",
    "ATTACH_SCREEN",
    "CALL_SCREEN",
    "CLOSE",
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
    "PROTOCOL",
    "READ",
    "RECORDS",
    "RENAME",
    "REPLY",
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
    "UNFOLLOW",
    "WAIT",
    "AttachScreen",
    "DetachScreen",
    "Ended",
    "Follow",
    "Followed",
    "Hello",
    "Method",
    "Nothing",
    "Page",
    "Records",
    "ScreenActive",
    "ScreenCall",
    "Taken",
    "Unfollow",
    "Welcome",
]

PROTOCOL = 1
"""The version of this vocabulary; host and client must speak the same."""

R = TypeVar("R")


class Method(Struct, Generic[R], frozen=True, kw_only=True):
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


class Nothing(Value, frozen=True, kw_only=True):
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

    wish: Spawn


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


class Page(Struct, frozen=True, kw_only=True):
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
    """See ``AttachedScreen.active``."""

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


class Followed(Struct, frozen=True, kw_only=True):
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


class Taken(Value, frozen=True, kw_only=True):
    """To the host: the oldest batch of a subscription was used; another may come."""

    subscription: int


class Ended(Struct, frozen=True, kw_only=True):
    """To the client: a subscription is over; ``data`` is that of an error answer."""

    subscription: int
    message: str
    code: int
    data: Any = None


HELLO = Method[Welcome](name="host/hello", params=Hello, result=Welcome)
STOP = Method[None](name="host/stop", params=Nothing, result=None)
FOLLOW = Method[Followed](name="fleet/follow", params=Follow, result=Followed)
UNFOLLOW = Method[None](name="fleet/unfollow", params=Unfollow, result=None)
ATTACH_SCREEN = Method[None](name="fleet/attach_screen", params=AttachScreen, result=None)
DETACH_SCREEN = Method[None](name="fleet/detach_screen", params=DetachScreen, result=None)
SCREEN_ACTIVE = Method[None](name="fleet/screen_active", params=ScreenActive, result=None)
READ = Method[Page](name="fleet/read", params=ReadParams, result=Page)
SPAWN = Method[AgentInfo](name="fleet/spawn", params=SpawnParams, result=AgentInfo, changes=True)
AGENTS = Method[list[AgentInfo]](name="fleet/agents", params=AgentsParams, result=list[AgentInfo])
AGENT = Method[AgentInfo](name="fleet/agent", params=AgentParams, result=AgentInfo)
SEND = Method[MessageId](name="fleet/send", params=SendParams, result=MessageId, changes=True)
EDIT = Method[bool](name="fleet/edit", params=EditParams, result=bool, changes=True)
INTERRUPT = Method[None](name="fleet/interrupt", params=InterruptParams, result=None, changes=True)
KILL = Method[None](name="fleet/kill", params=KillParams, result=None, changes=True)
CLOSE = Method[None](name="fleet/close", params=AgentParams, result=None, changes=True)
ARCHIVE = Method[None](name="fleet/archive", params=ArchiveParams, result=None, changes=True)
DELETE = Method[None](name="fleet/delete", params=AgentParams, result=None, changes=True)
RESUME = Method[AgentInfo](name="fleet/resume", params=AgentParams, result=AgentInfo, changes=True)
FORK = Method[AgentInfo](name="fleet/fork", params=ForkParams, result=AgentInfo, changes=True)
IMPORT_SESSION = Method[Imported](
    name="fleet/import_session", params=ImportParams, result=Imported, changes=True
)
RENAME = Method[AgentInfo](name="fleet/rename", params=RenameParams, result=AgentInfo, changes=True)
SET_OPTION = Method[None](
    name="fleet/set_option", params=SetOptionParams, result=None, changes=True
)
INBOX = Method[list[InboxItem]](name="fleet/inbox", params=Nothing, result=list[InboxItem])
ANSWER = Method[bool](name="fleet/answer", params=AnswerParams, result=bool, changes=True)
REPLY = Method[bool](name="fleet/reply", params=ReplyParams, result=bool, changes=True)
GRANTS = Method[list[Grant]](name="fleet/grants", params=Nothing, result=list[Grant])
REVOKE = Method[bool](name="fleet/revoke", params=RevokeParams, result=bool, changes=True)
WAIT = Method[list[AgentInfo]](name="fleet/wait", params=WaitParams, result=list[AgentInfo])
SEARCH = Method[list[Hit]](name="fleet/search", params=SearchParams, result=list[Hit])
CALL_SCREEN = Method[Any](name="fleet/call_screen", params=CallScreenParams, result=Any)
STATUS = Method[FleetStatus](name="fleet/status", params=Nothing, result=FleetStatus)

METHODS: dict[str, Method[Any]] = {
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
