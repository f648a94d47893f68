"""What people have typed and not sent: one file for each agent, kept over restarts and crashes."""

import asyncio
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

__all__ = ["NEW", "DraftSaver", "Drafts"]

NEW = "new"
"""The key of what is typed while there is no agent."""

_SENDING = "-sending"
_SAVE = 0.3
"""Seconds after which what was typed is on disk."""


class Drafts:
    """Drafts by the agent's session.

    What is put is in memory at once and on disk with the next ``flush``. Two workbenches do not
    disturb each other unless both write to one agent; then the later draft stays.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._texts: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._held: dict[str, str] = {}
        self._sending: dict[str, list[str]] = {}

    def get(self, key: str) -> str:
        """The draft for an agent; empty if there is none."""
        return self._texts.get(_file_name(key), "")

    def put(self, key: str, text: str) -> bool:
        """Note a draft; True if it is another than before."""
        if self.get(key) == text:
            return False
        name = _file_name(key)
        self._texts[name] = text
        self._dirty.add(name)
        return True

    def hold(self, key: str, holder: str) -> str:
        """Take the draft of an agent for an input, instead of what that input had before.

        Returns the key of the draft: another than ``key`` while another input has that one, so
        that two inputs for the same agent do not overwrite each other.
        """
        self.release(holder)
        if key in self._held:
            return f"{key}-{holder}"
        self._held[key] = holder
        return key

    def release(self, holder: str) -> None:
        """An input is gone; what it held is free."""
        for key in [key for key, by in self._held.items() if by == holder]:
            del self._held[key]

    def begin_sending(self, key: str, text: str) -> None:
        """A draft is on its way: it counts as not sent until ``end_sending``."""
        sending = self._sending.setdefault(key, [])
        sending.append(text)
        self.put(key + _SENDING, "\n".join(sending))

    def end_sending(self, key: str, text: str, *, is_sent: bool) -> None:
        """It has arrived, or else it is a draft again, before what was typed meanwhile."""
        if not is_sent:
            self._restore(key, text)
        sending = self._sending.get(key, [])
        with suppress(ValueError):
            sending.remove(text)
        self.put(key + _SENDING, "\n".join(sending))

    def _restore(self, key: str, text: str) -> None:
        self.put(key, "\n".join(filter(None, (text, self.get(key)))))

    def load(self) -> None:
        """Read what is on disk. Blocks.

        What was on its way when the program was killed is a draft again: sending it twice is for
        a person to decide, losing it is not.
        """
        with suppress(OSError):
            for path in sorted(self._directory.glob("*.txt")):
                with suppress(OSError):
                    self._texts[path.stem] = path.read_text("utf-8", "replace")
        for key in list(self._texts):
            if key.endswith(_SENDING):
                self._restore(key.removesuffix(_SENDING), self.get(key))
                self.put(key, "")

    def flush(self) -> None:
        """Write what changed; a draft that is empty has no file. Blocks.

        Raises:
            OSError: it cannot be written; it stays in memory, and the next time is another try.
        """
        for key in list(self._dirty):
            text = self._texts.get(key, "")
            self._write(self._directory / f"{key}.txt", text)
            if self._texts.get(key, "") == text:
                self._dirty.discard(key)

    def _write(self, path: Path, text: str) -> None:
        if not text:
            path.unlink(missing_ok=True)
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._directory, prefix=".draft-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


class DraftSaver:
    """Puts drafts on disk while the application runs.

    Args:
        app: runs timers and workers.
        drafts: what is saved.
        show_message: shows what went wrong; True with it.
    """

    def __init__(
        self, app: "App[None]", drafts: Drafts, show_message: "Callable[[str, bool], None]"
    ) -> None:
        self._app = app
        self._drafts = drafts
        self._show_message = show_message
        self._saving = asyncio.Lock()

    def save_soon(self) -> None:
        """Save after a short time, in which more may be typed."""
        self._app.set_timer(_SAVE, self.save)

    def save(self) -> None:
        """Save in the background, now."""
        self._app.run_worker(self._save)

    async def close(self) -> None:
        """Save for the last time. Never raises."""
        with suppress(OSError):
            await asyncio.to_thread(self._drafts.flush)

    async def _save(self) -> None:
        async with self._saving:
            try:
                await asyncio.to_thread(self._drafts.flush)
            except OSError as error:
                self._show_message(f"cannot save your draft: {error}", True)


def _file_name(key: str) -> str:
    """A key as a file's name; ids of sessions are one already."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in key)[:100]
