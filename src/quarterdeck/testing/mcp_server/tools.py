"""The server's tools: each does one thing that a client must bear."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .responder import FakeTool, FakeToolCall, Message

__all__ = ["PIXEL", "TOOLS"]

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
    told = {"cwd": str(Path.cwd()), "pid": os.getpid(), **os.environ}
    return {"content": [], "structuredContent": told}


@_tool("seen")
def _seen(say: FakeToolCall) -> Message:
    """Tell what has been cancelled, deleted and resumed."""
    return _text(",".join(say.responder.quirks.seen))


@_tool("headers")
def _headers(say: FakeToolCall) -> Message:
    """Tell what came along with the message."""
    return {"content": [], "structuredContent": say.channel.headers}
