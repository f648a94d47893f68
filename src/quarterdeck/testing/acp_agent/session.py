"""What the fake agent remembers of a session, in memory and, if asked to, on disk."""

from pathlib import Path

import msgspec
from msgspec import Struct, field

from quarterdeck.wire.decoders import decode_json

__all__ = ["FakeExchange", "FakeSessions", "SavedSession"]


class FakeExchange(Struct):
    """One prompt and what was answered to it."""

    prompt: str
    answer: str = ""


class SavedSession(Struct):
    """A session as it is kept."""

    id: str
    cwd: str
    mode: str = "ask"
    model: str = "fake-1"
    title: str | None = None
    prompts: list[str] = field(default_factory=list[str])
    """System prompt, further directories and tool servers that it was opened with."""
    exchanges: list[FakeExchange] = field(default_factory=list[FakeExchange])


class FakeSessions:
    """The sessions of this agent; with a directory they outlive the process."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._live: dict[str, SavedSession] = {}
        self._count = 0

    def new(self, cwd: str) -> SavedSession:
        """Begin a session; ids count up, so that tests can name them."""
        taken = {saved.id for saved in self.all()}
        while (id_ := f"fake-{self._count}") in taken:
            self._count += 1
        saved = self._live[id_] = SavedSession(id=id_, cwd=cwd)
        self.save(saved)
        return saved

    def find(self, id_: str) -> SavedSession | None:
        """The session of that id, live or on disk."""
        if id_ in self._live:
            return self._live[id_]
        if self._directory is None or not (path := self._path(id_)).is_file():
            return None
        saved = self._live[id_] = decode_json(path.read_bytes(), SavedSession)
        return saved

    def all(self) -> list[SavedSession]:
        """Every session there is."""
        known = dict(self._live)
        if self._directory is not None and self._directory.is_dir():
            for path in sorted(self._directory.glob("*.json")):
                saved = decode_json(path.read_bytes(), SavedSession)
                known.setdefault(saved.id, saved)
        return list(known.values())

    def save(self, saved: SavedSession) -> None:
        """Keep the session's present state."""
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._path(saved.id).write_bytes(msgspec.json.encode(saved))

    def forget(self, id_: str) -> None:
        """Delete a session; one that is not there is no error."""
        self._live.pop(id_, None)
        if self._directory is not None:
            self._path(id_).unlink(missing_ok=True)

    def _path(self, id_: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{Path(id_).name}.json"
