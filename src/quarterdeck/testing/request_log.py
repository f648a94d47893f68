"""The log of a model server: every request as a line of JSON."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from quarterdeck.testing.model_server import RecordedRequest

__all__ = ["RequestLog"]

_SECRET = frozenset(["authorization", "x-api-key", "x-goog-api-key", "cookie", "api-key"])


class RequestLog:
    """Appends requests to a file, in a thread, while it is open; keys are masked.

    Lines are written soon, in the order of ``add``; all of them are in the file after closing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._added = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._is_closing = False

    async def __aenter__(self) -> "RequestLog":
        # A file that cannot be written fails here and not in the middle of a run.
        await asyncio.to_thread(_append, self._path, b"")
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._writer is not None
        self._is_closing = True
        self._added.set()
        await self._writer

    def add(self, record: "RecordedRequest") -> None:
        """Append a request that has been answered."""
        self._lines.append(msgspec.json.encode(_line(record)) + b"\n")
        self._added.set()

    async def _write(self) -> None:
        while self._lines or not self._is_closing:
            await self._added.wait()
            self._added.clear()
            lines, self._lines = self._lines, []
            await asyncio.to_thread(_append, self._path, b"".join(lines))


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _line(record: "RecordedRequest") -> dict[str, Any]:
    try:
        body: Any = record.json
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = record.body.decode("utf-8", "replace")
    return {
        "number": record.number,
        "time": round(record.time, 3),
        "method": record.method,
        "path": record.path,
        "agent": record.agent,
        "wire": record.wire,
        "scene": record.scene,
        "round": record.round,
        "outcome": record.outcome,
        "headers": {k: "***" if k in _SECRET else v for k, v in record.headers.items()},
        "body": body,
    }
