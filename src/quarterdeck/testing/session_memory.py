"""What a fake remembers of its sessions between processes."""

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["SessionMemory"]


class SessionMemory:
    """One session, kept under ``FAKE_STATE``; without that variable nothing is kept."""

    def __init__(self, agent: str, id_: str | None, *, fork: bool = False) -> None:
        place = os.environ.get("FAKE_STATE")
        self._folder = Path(place) if place else None
        self._agent = agent
        self.is_known = id_ is None or self._folder is None or self._path(id_).is_file()
        self.prompts: list[str] = []
        self.turns = 0
        if id_ is not None and self.is_known and self._folder is not None:
            kept: dict[str, Any] = json.loads(self._path(id_).read_text())
            self.prompts, self.turns = kept["prompts"], kept["turns"]
        self.id = id_ if id_ is not None and not fork else self._new()

    def keep(self, prompt: str) -> None:
        """Begin a turn with this prompt."""
        self.prompts.append(prompt)
        self.turns += 1
        self._write()

    def _write(self) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            kept = {"prompts": self.prompts, "turns": self.turns}
            self._path(self.id).write_text(json.dumps(kept))

    def fork(self, turns: int) -> str:
        """Make another session of the first turns; gives its id."""
        self.id = self._new()
        self.prompts, self.turns = self.prompts[:turns], turns
        self._write()
        return self.id

    def _new(self) -> str:
        """Ids count up, so that tests can name them."""
        count = 1
        while self._folder is not None and self._path(f"{self._agent}-{count}").exists():
            count += 1
        return f"{self._agent}-{count}"

    def _path(self, id_: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{Path(id_).name}.json"
