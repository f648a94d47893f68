"""The requests, notices and errors on the host's socket.

A method of the fleet is a request by its declaration in ``fleet.api``: parameters, result and
whether it changes something are read from there when it is first used. Written out here is only
what the API does not say: the greeting, subscriptions, pages of records, workbenches of a client.

An error is sent with the names of its class and of the classes above it, so that a program which
does not know a newer one raises the nearest that it knows.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, defstruct

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import QuarterdeckError, RpcError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.rpc import RpcLimits
from quarterdeck.wire.values import Value

from ..api import Fleet
from ..errors import FleetError
from ..method import FLEET_METHODS

__all__ = [
    "ATTACH_SCREEN",
    "DETACH_SCREEN",
    "ENDED",
    "FOLLOW",
    "HELLO",
    "LIMITS",
    "PROTOCOL",
    "READ",
    "RECORDS",
    "REFUSED",
    "SCREEN_ACTIVE",
    "SCREEN_CALL",
    "STOP",
    "TAKEN",
    "UNFOLLOW",
    "WATCH_TERMINAL",
    "WEB_CLIENT",
    "AttachScreen",
    "BatchTaken",
    "DetachScreen",
    "ErrorAnswer",
    "FleetRequest",
    "Follow",
    "FollowResult",
    "Hello",
    "HostMethod",
    "NoParams",
    "ReadParams",
    "Records",
    "RecordsPage",
    "ScreenActive",
    "ScreenCall",
    "SubscriptionEnded",
    "TerminalParams",
    "Unfollow",
    "WatchTerminalResult",
    "Welcome",
    "decode_error",
    "encode_error",
    "find_request",
    "fleet_request",
]

REFUSED = -32001
"""The code of an answer that carries an error of ours in its ``data``."""

_CLASS = re.compile(r"(quarterdeck(?:\.[a-z_]+)*):([A-Z][A-Za-z]*)")
_VALUE_ERROR = "builtins:ValueError"


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """The ``data`` of such an answer."""

    error: str
    """The name of the class."""
    classes: tuple[str, ...]
    """``module:class`` of it and those above it, the nearest first."""
    fields: dict[str, Any] = {}
    """What the error knows besides its message."""


def encode_error(error: QuarterdeckError | ValueError) -> RpcError:
    """Make an answer of an error."""
    classes = tuple(
        f"{kind.__module__}:{kind.__qualname__}"
        for kind in type(error).__mro__
        if issubclass(kind, (QuarterdeckError, ValueError))
    )
    fault = ErrorAnswer(error=type(error).__name__, classes=classes, fields=_fields(error))
    return RpcError(REFUSED, str(error), msgspec.to_builtins(fault))


def decode_error(answer: RpcError) -> Exception:
    """Make an error of an answer; the answer itself where it carries none of ours."""
    if answer.code != REFUSED:
        return answer
    try:
        fault = convert(answer.data, ErrorAnswer)
    except msgspec.ValidationError:
        return answer
    kind = next((found for name in fault.classes if (found := _class(name))), FleetError)
    # Constructors compose the message from parts; the message is already composed.
    error = kind.__new__(kind, answer.message)
    Exception.__init__(error, answer.message)
    for name, value in fault.fields.items():
        if not name.startswith("_"):
            setattr(error, name, value)
    return error


def _fields(error: Exception) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in vars(error).items():
        if name.startswith("_"):
            continue
        try:
            fields[name] = msgspec.to_builtins(value)
        except TypeError:  # it has no JSON form, and the message tells the rest
            continue
    return fields


def _class(name: str) -> type[Exception] | None:
    if name == _VALUE_ERROR:
        return ValueError
    match = _CLASS.fullmatch(name)
    if match is None:
        return None
    try:
        found = getattr(import_module(match[1]), match[2], None)
    except ImportError:
        return None
    if not isinstance(found, type) or not issubclass(found, QuarterdeckError):
        return None
    return cast("type[Exception]", found)


LIMITS = RpcLimits(max_in_flight=128, max_frame_bytes=64 * 1024 * 1024)
"""The same at both ends."""

WEB_CLIENT = "web"
"""What the browser interface calls itself in ``Hello``: the people at its pages are not the user
whose process it is."""

PROTOCOL = 3
"""The version of this vocabulary; host and client must speak the same."""

R = TypeVar("R")


class HostMethod(Struct, Generic[R], frozen=True, kw_only=True):
    """A request that the host answers."""

    name: str
    params: type[Struct]
    result: Any
    """The type of the result, as msgspec reads it."""


class FleetRequest(HostMethod[Any], frozen=True, kw_only=True):
    """A request that is a call of the fleet and nothing else."""

    method: str
    """The fleet's name for it."""
    signature: Signature
    """That of the method, without ``self``."""
    changes: bool
    """It is carried through even if who asked for it is gone."""

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Struct:
        """The parameters for such a call. Raises TypeError like a call with wrong arguments."""
        return self.params(**self.signature.bind(*arguments, **named).arguments)

    async def call(self, fleet: Fleet, params: Struct) -> Any:
        """Call the fleet's method with these parameters."""
        method = getattr(fleet, self.method)
        return await method(**{name: getattr(params, name) for name in params.__struct_fields__})


def find_request(name: str) -> FleetRequest | None:
    """The method of the fleet that is asked for by this name, if there is one."""
    room, _, method = name.partition("/")
    return fleet_request(method) if room == "fleet" and method in FLEET_METHODS else None


@cache
def fleet_request(method: str) -> FleetRequest:
    """The request for a declared method; made when it is first used, since a start uses few."""
    declaration, changes = FLEET_METHODS[method]
    whole = signature(declaration)
    _, *parameters = whole.parameters.values()
    fields = [
        (one.name, one.annotation)
        if one.default is Parameter.empty
        else (one.name, one.annotation, one.default)
        for one in parameters
    ]
    return FleetRequest(
        name=f"fleet/{method}",
        params=defstruct(f"{method}_params", fields, bases=(Value,), frozen=True, kw_only=True),
        result=whole.return_annotation,
        method=method,
        signature=whole.replace(parameters=parameters),
        changes=changes,
    )


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


class ScreenCall(Struct, frozen=True, kw_only=True):
    """To the client: what a screen of its own is to do. The answer is the result."""

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
RECORDS = "fleet/records"
ENDED = "fleet/ended"
TAKEN = "fleet/taken"
SCREEN_CALL = "screen/call"


class TerminalParams(Value, frozen=True, kw_only=True):
    """A terminal by its id, or an agent whose screen it is."""

    terminal: str


class WatchTerminalResult(Struct, frozen=True, kw_only=True):
    """What is seen will come as ``fleet/records`` under this id; ``fleet/unfollow`` ends it."""

    subscription: int


WATCH_TERMINAL = HostMethod[WatchTerminalResult](
    name="fleet/watch_terminal", params=TerminalParams, result=WatchTerminalResult
)
