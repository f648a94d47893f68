"""What the server answers, whatever carries the messages; its tools and its deliberate mistakes."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

__all__ = [
    "PIXEL",
    "TOOLS",
    "FakeTool",
    "FakeToolCall",
    "McpReplyChannel",
    "McpResponder",
    "Message",
    "Quirks",
    "quirks_of",
    "schemas_gone_wrong",
    "table",
]


@dataclass(kw_only=True)
class Quirks:
    """Given as ``name`` or ``name=value`` on the command line."""

    era: str = "legacy"
    """``legacy``, ``modern`` or ``dual``."""
    silent: bool = False
    """Answers nothing at all."""
    slow: float = 0.0
    """Seconds before it answers the greeting."""
    garbage: bool = False
    """Writes what is no message between messages."""
    leaves: bool = False
    """Ends at once when it is asked anything before ``initialize``."""
    dies: bool = False
    """Ends after it has listed its tools, once; see ``mark``."""
    always_dies: bool = False
    """Ends after it has listed its tools, every time."""
    broken: bool = False
    """Ends before it says anything, with words on standard error."""
    schemas: bool = False
    """Lists tools whose schemas are wrong, beside good ones."""
    paged: bool = False
    """Lists one tool on each page."""
    endless: bool = False
    """Lists pages without end."""
    tardy: float = 0.0
    """Seconds that it takes to list its tools, from the second time on."""
    storm: int = 0
    """How many changes of its tools it announces at once when a tool is called."""
    version: str = ""
    """The version that it claims to speak."""
    token: str = ""
    """Over HTTP: the bearer token that it wants."""
    old: bool = False
    """Over HTTP: the transport that there was at first."""
    forgets: bool = False
    """Over HTTP: forgets its session once, after the first call."""
    mark: str = ""
    """A file that is made when it has died once."""
    seen: list[str] = field(default_factory=list[str])
    """What has been cancelled, deleted and resumed."""


def quirks_of(words: tuple[str, ...]) -> Quirks:
    """Read the words of the command line. Raises SystemExit for one that is not known."""
    quirks = Quirks()
    for word in words:
        name, _, value = word.partition("=")
        name = name.replace("-", "_")
        known = getattr(quirks, name, None)
        if isinstance(known, bool):
            setattr(quirks, name, True)
        elif isinstance(known, str | int | float):
            setattr(quirks, name, type(known)(value))
        else:
            raise SystemExit(f"mcp-server: there is no quirk {name!r}")
    return quirks


Message = dict[str, Any]
_LEGACY = "2025-11-25"
_MODERN = "2026-07-28"


def table(message: Message, key: str) -> Message:
    """An inner table of a message; empty where there is none."""
    found = message.get(key)
    return cast("Message", found) if isinstance(found, dict) else {}


class McpReplyChannel(Protocol):
    """Where the answers to one message go."""

    def send(self, message: Message) -> None:
        """Send a message."""
        ...

    def send_bytes(self, data: bytes) -> None:
        """Send what may be none."""
        ...

    def ask(self, method: str, params: Message) -> Message:
        """Ask the client, as servers of the older era do; returns its result or error."""
        ...

    @property
    def headers(self) -> dict[str, str]:
        """What came along with the message."""
        ...

    def die(self) -> None:
        """End the server at once."""
        ...


@dataclass
class FakeToolCall:
    """A call that runs."""

    responder: "McpResponder"
    channel: McpReplyChannel
    params: Message
    id: Any

    @property
    def arguments(self) -> Message:
        """What it was given."""
        return table(self.params, "arguments")

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has cancelled the call."""
        return self.id in self.responder.cancelled

    def notify(self, method: str, params: Message) -> None:
        """Send the client a notification."""
        self.channel.send({"jsonrpc": "2.0", "method": method, "params": params})

    def progress(self, done: int, total: int, words: str) -> None:
        """Report its progress."""
        token = table(self.params, "_meta").get("progressToken")
        data: Message = {"progressToken": token, "progress": done, "total": total, "message": words}
        self.notify("notifications/progress", data)


@dataclass(kw_only=True)
class FakeTool:
    """A tool."""

    run: Callable[[FakeToolCall], Message | None]
    listed: Message = field(default_factory=dict[str, Any])


class McpResponder:
    """Answers messages; safe in many threads."""

    def __init__(self, quirks: Quirks, tools: Mapping[str, FakeTool]) -> None:
        self.quirks = quirks
        self._tools = tools
        self.extra: list[str] = []
        """Tools that were added while it ran."""
        self.cancelled: set[Any] = set()
        self.changed = threading.Condition()
        self.changes = 0
        self._greeted = False
        self._lists = 0

    def handle(self, message: Message, channel: McpReplyChannel) -> None:
        """Answer one message of the client."""
        method, id_ = message.get("method"), message.get("id")
        if self.quirks.silent or method is None:
            return
        if id_ is None:
            self._notified(method, message.get("params") or {})
            return
        answer = _ANSWERS.get(method)
        if not self._greeted and method != "initialize" and self.quirks.leaves:
            channel.die()
        if answer is None or not self._speaks(method):
            error = {"code": -32601, "message": f"there is no {method}"}
            channel.send({"jsonrpc": "2.0", "id": id_, "error": error})
            return
        result = answer(self, message.get("params") or {}, channel, id_)
        if result is not None and id_ not in self.cancelled:
            channel.send({"jsonrpc": "2.0", "id": id_, "result": result})
        if method == "tools/list" and not result_has_more(result):
            self._listed(channel)

    def change(self, name: str) -> None:
        """Add a tool and notify the clients that listen."""
        with self.changed:
            self.extra.append(name)
            self.changes += 1
            self.changed.notify_all()

    def _speaks(self, method: str) -> bool:
        if method in ("server/discover", "subscriptions/listen"):
            return self.quirks.era != "legacy"
        return method != "initialize" or self.quirks.era != "modern"

    def _notified(self, method: str, params: Message) -> None:
        if method == "notifications/cancelled":
            self.cancelled.add(params.get("requestId"))
            self.quirks.seen.append("cancelled")

    def _listed(self, channel: McpReplyChannel) -> None:
        quirks = self.quirks
        if quirks.always_dies or (quirks.dies and _first_time(quirks.mark)):
            time.sleep(0.05)
            channel.die()

    def initialize(self, params: Message, channel: McpReplyChannel, id_: Any) -> Message:
        """Greet a client of the older era."""
        time.sleep(self.quirks.slow)
        self._greeted = True
        return {
            "protocolVersion": self.quirks.version or _LEGACY,
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }

    def discover(self, params: Message, channel: McpReplyChannel, id_: Any) -> Message:
        """Say what is spoken."""
        time.sleep(self.quirks.slow)
        return {
            "resultType": "complete",
            "supportedVersions": [self.quirks.version or _MODERN],
            "capabilities": {"tools": {"listChanged": True}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "hostile", "version": "1"}},
        }

    def list(self, params: Message, channel: McpReplyChannel, id_: Any) -> Message:
        """List the tools."""
        if self._lists:
            time.sleep(self.quirks.tardy)
        self._lists += 1
        found = [tool.listed for tool in self._tools.values()]
        found += [{"name": name, "inputSchema": {"type": "object"}} for name in self.extra]
        found += schemas_gone_wrong() if self.quirks.schemas else []
        if self.quirks.endless:
            return {"tools": found[:1], "nextCursor": "more"}
        if not self.quirks.paged:
            return {"tools": found}
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(found) else {}
        return {"tools": found[at : at + 1], **more}

    def call(self, params: Message, channel: McpReplyChannel, id_: Any) -> Message | None:
        """Call a tool."""
        name = str(params.get("name"))
        for _ in range(self.quirks.storm):
            channel.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        tool = self._tools.get(name)
        if tool is None:
            return {"content": [{"type": "text", "text": f"called {name}"}]}
        say = FakeToolCall(self, channel, params, id_)
        return tool.run(say)

    def listen(self, params: Message, channel: McpReplyChannel, id_: Any) -> None:
        """Send changes, until the client has enough."""
        meta = {"io.modelcontextprotocol/subscriptionId": id_}
        data = {"_meta": meta, "notifications": params.get("notifications")}
        note = "notifications/subscriptions/acknowledged"
        channel.send({"jsonrpc": "2.0", "method": note, "params": data})
        seen = self.changes
        while id_ not in self.cancelled:
            with self.changed:
                self.changed.wait(0.2)
            if self.changes != seen:
                seen = self.changes
                method = "notifications/tools/list_changed"
                channel.send({"jsonrpc": "2.0", "method": method, "params": {"_meta": meta}})


def result_has_more(result: Message | None) -> bool:
    """Whether a list goes on with another page."""
    return bool(result and "nextCursor" in result)


def _first_time(mark: str) -> bool:
    try:
        with open(mark, "x"):  # noqa: PTH123 - this program imports as little as it can
            return True
    except FileExistsError:
        return False


_ANSWERS: dict[str, Callable[[McpResponder, Message, McpReplyChannel, Any], Message | None]] = {
    "initialize": McpResponder.initialize,
    "server/discover": McpResponder.discover,
    "subscriptions/listen": McpResponder.listen,
    "ping": lambda responder, params, channel, id_: {},
    "tools/list": McpResponder.list,
    "tools/call": McpResponder.call,
}


def schemas_gone_wrong() -> list[Any]:
    """Tools that no model can be shown as they are."""
    deep: Message = {}
    for _ in range(100):
        deep = {"type": "object", "properties": {"deeper": deep}}
    return [
        "no tool",
        {"name": 7, "inputSchema": {}},
        {"description": "has no name"},
        {"name": "list", "inputSchema": ["no", "object"]},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "deep", "inputSchema": deep},
        {"name": "spaces", "inputSchema": {"properties": {"two words": {"type": "string"}}}},
        {"name": "none"},
        {"name": "either", "inputSchema": {"anyOf": [{"required": ["a"]}], "required": ["a", 3]}},
        {"name": "with spaces and ümläuts", "inputSchema": {"type": "object"}},
        {"name": "twin.one", "inputSchema": {"type": "object"}},
        {"name": "twin:one", "inputSchema": {"type": "object"}},
        {"name": "n" * 200, "inputSchema": {"type": "object"}},
    ]


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
"""A picture of one point."""


TOOLS: dict[str, FakeTool] = {}


def _tool(
    name: str, properties: Message | None = None, **notes: Any
) -> Callable[[Callable[[FakeToolCall], Message | None]], Callable[[FakeToolCall], Message | None]]:
    def keep(
        run: Callable[[FakeToolCall], Message | None],
    ) -> Callable[[FakeToolCall], Message | None]:
        schema = {"type": "object", "properties": properties or {}}
        listed = {"name": name, "description": run.__doc__, "inputSchema": schema}
        TOOLS[name] = FakeTool(run=run, listed={**listed, **notes})
        return run

    return keep


def _text(words: str, *, is_error: bool = False) -> Message:
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


@_tool("echo", {"text": {"type": "string", "x-mcp-header": "Text"}})
def _echo(say: FakeToolCall) -> Message:
    """Say a text again."""
    return _text(f"echo: {say.arguments.get('text')}")


@_tool("look", annotations={"readOnlyHint": True, "title": "Look around"})
def _look(say: FakeToolCall) -> Message:
    """Change nothing, as it says."""
    return _text("looked")


@_tool("fail")
def _fail(say: FakeToolCall) -> Message:
    """End with an error of its own."""
    return _text("it went wrong", is_error=True)


@_tool("refuse")
def _refuse(say: FakeToolCall) -> None:
    """Answer with an error of the protocol."""
    error = {"code": -32602, "message": "these arguments are no good"}
    say.channel.send({"jsonrpc": "2.0", "id": say.id, "error": error})


@_tool("media")
def _media(say: FakeToolCall) -> Message:
    """Give a picture, one that is none, a sound, a link and a resource."""
    return {
        "content": [
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "image", "data": "!!!", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "demo://x", "name": "x", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "demo://y", "text": "inside"}},
            {"type": "hologram"},
            "nothing",
        ]
    }


@_tool("structured")
def _structured(say: FakeToolCall) -> Message:
    """Give a structure and no text."""
    return {"content": [], "structuredContent": {"answer": 42}}


@_tool("huge", {"size": {"type": "integer"}})
def _huge(say: FakeToolCall) -> Message:
    """Give a very long text."""
    size = int(say.arguments.get("size") or 1_000_000)
    return _text("begin " + "x" * size + " end")


@_tool("slow", {"seconds": {"type": "number"}, "steps": {"type": "integer"}})
def _slow(say: FakeToolCall) -> Message:
    """Take its time and tell how far it is."""
    seconds, steps = float(say.arguments.get("seconds") or 1), int(say.arguments.get("steps") or 0)
    for step in range(max(steps, 1)):
        until = time.monotonic() + seconds / max(steps, 1)
        while time.monotonic() < until and not say.is_cancelled:
            time.sleep(0.01)
        if steps:
            say.progress(step + 1, steps, f"step {step + 1}")
    return _text("done at last")


@_tool("hang")
def _hang(say: FakeToolCall) -> None:
    """Never answer."""
    while not say.is_cancelled:
        time.sleep(0.01)


@_tool("crash")
def _crash(say: FakeToolCall) -> None:
    """End the server in the middle of a call."""
    say.channel.die()


@_tool("half")
def _half(say: FakeToolCall) -> None:
    """Send half of an answer and end."""
    say.channel.send_bytes(b'{"jsonrpc": "2.0", "id": ')
    say.channel.die()


@_tool("mumble")
def _mumble(say: FakeToolCall) -> Message:
    """Send what is no message, answers to other questions, and then the answer."""
    for line in (b"Loading...\n", b"\xff\xfe\n", b"[]\n", b"42\n", b'{"jsonrpc": "2.0"}\n', b"\n"):
        say.channel.send_bytes(line)
    for wrong in (None, "no", 99_999):
        say.channel.send({"jsonrpc": "2.0", "id": wrong, "result": {"content": []}})
    return _text("clear at last")


@_tool("flood", {"count": {"type": "integer"}})
def _flood(say: FakeToolCall) -> Message:
    """Send very many notifications before the answer."""
    count = int(say.arguments.get("count") or 1000)
    for number in range(count):
        say.progress(number, count, "flooding")
        say.notify("notifications/message", {"level": "info", "data": f"line {number}"})
    return _text("after the flood")


@_tool("complain")
def _complain(say: FakeToolCall) -> Message:
    """Say that something is wrong with it."""
    say.notify("notifications/message", {"level": "error", "data": "the disk is full"})
    return _text("complained")


@_tool("ask")
def _ask(say: FakeToolCall) -> Message:
    """Ask the person for a name."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    wanted = {"mode": "form", "message": "Who are you?", "requestedSchema": form}
    if say.responder.quirks.era == "legacy":
        answer = say.channel.ask("elicitation/create", wanted)
    else:
        given = say.params.get("inputResponses")
        if given is None:
            requests = {"who": {"method": "elicitation/create", "params": wanted}}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
        answer = {"result": given["who"], "state": say.params.get("requestState")}
    return _text(f"heard: {answer}")


@_tool("sample")
def _sample(say: FakeToolCall) -> Message:
    """Ask for an answer of the client's model."""
    return _text(f"heard: {say.channel.ask('sampling/createMessage', {'messages': []})}")


@_tool("roots")
def _roots(say: FakeToolCall) -> Message:
    """Ask where the client works."""
    return _text(f"heard: {say.channel.ask('roots/list', {})}")


@_tool("pinged")
def _pinged(say: FakeToolCall) -> Message:
    """See whether the client is alive."""
    return _text(f"heard: {say.channel.ask('ping', {})}")


@_tool("grow", {"name": {"type": "string"}})
def _grow(say: FakeToolCall) -> Message:
    """Have one more tool from now on."""
    say.responder.change(str(say.arguments.get("name")))
    if say.responder.quirks.era == "legacy":
        say.notify("notifications/tools/list_changed", {})
    return _text("grown")


@_tool("environment")
def _environment(say: FakeToolCall) -> Message:
    """Tell its variables and where it runs."""
    data = {"cwd": str(Path.cwd()), "pid": os.getpid(), **os.environ}
    return {"content": [], "structuredContent": data}


@_tool("seen")
def _seen(say: FakeToolCall) -> Message:
    """Tell what has been cancelled, deleted and resumed."""
    return _text(",".join(say.responder.quirks.seen))


@_tool("headers")
def _headers(say: FakeToolCall) -> Message:
    """Tell what came along with the message."""
    return {"content": [], "structuredContent": say.channel.headers}
