"""What the server says: messages in, messages out, whatever carries them."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from .quirks import Quirks
from .tools import TOOLS, Say, schemas_gone_wrong

__all__ = ["Channel", "Voice"]

Message = dict[str, Any]
_LEGACY = "2025-11-25"
_MODERN = "2026-07-28"


class Channel(Protocol):
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


class Voice:
    """Answers messages; safe in many threads."""

    def __init__(self, quirks: Quirks) -> None:
        self.quirks = quirks
        self.extra: list[str] = []
        """Tools that were added while it ran."""
        self.cancelled: set[Any] = set()
        self.changed = threading.Condition()
        self.changes = 0
        self._greeted = False
        self._lists = 0

    def handle(self, message: Message, channel: Channel) -> None:
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
        """Add a tool and tell it to whoever listens."""
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

    def _listed(self, channel: Channel) -> None:
        quirks = self.quirks
        if quirks.always_dies or (quirks.dies and _first_time(quirks.mark)):
            time.sleep(0.05)
            channel.die()

    def initialize(self, params: Message, channel: Channel, id_: Any) -> Message:
        """Greet a client of the older era."""
        time.sleep(self.quirks.slow)
        self._greeted = True
        return {
            "protocolVersion": self.quirks.version or _LEGACY,
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }

    def discover(self, params: Message, channel: Channel, id_: Any) -> Message:
        """Say what is spoken."""
        time.sleep(self.quirks.slow)
        return {
            "resultType": "complete",
            "supportedVersions": [self.quirks.version or _MODERN],
            "capabilities": {"tools": {"listChanged": True}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "hostile", "version": "1"}},
        }

    def list(self, params: Message, channel: Channel, id_: Any) -> Message:
        """List the tools."""
        if self._lists:
            time.sleep(self.quirks.tardy)
        self._lists += 1
        found = [tool.listed for tool in TOOLS.values()]
        found += [{"name": name, "inputSchema": {"type": "object"}} for name in self.extra]
        found += schemas_gone_wrong() if self.quirks.schemas else []
        if self.quirks.endless:
            return {"tools": found[:1], "nextCursor": "more"}
        if not self.quirks.paged:
            return {"tools": found}
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(found) else {}
        return {"tools": found[at : at + 1], **more}

    def call(self, params: Message, channel: Channel, id_: Any) -> Message | None:
        """Call a tool."""
        name = str(params.get("name"))
        for _ in range(self.quirks.storm):
            channel.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        tool = TOOLS.get(name)
        if tool is None:
            return {"content": [{"type": "text", "text": f"called {name}"}]}
        say = Say(self, channel, params, id_)
        return tool.run(say)

    def listen(self, params: Message, channel: Channel, id_: Any) -> None:
        """Tell changes, until the client has enough."""
        meta = {"io.modelcontextprotocol/subscriptionId": id_}
        told = {"_meta": meta, "notifications": params.get("notifications")}
        note = "notifications/subscriptions/acknowledged"
        channel.send({"jsonrpc": "2.0", "method": note, "params": told})
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


_ANSWERS: dict[str, Callable[[Voice, Message, Channel, Any], Message | None]] = {
    "initialize": Voice.initialize,
    "server/discover": Voice.discover,
    "subscriptions/listen": Voice.listen,
    "ping": lambda voice, params, channel, id_: {},
    "tools/list": Voice.list,
    "tools/call": Voice.call,
}
