"""Kills this process in the middle of what it does to the disk, at a place that can be found again.

Changes are counted as Python makes them, and each start of a program is one.
"""

import os
import signal
from pathlib import Path

__all__ = ["KillSwitch"]

_CHANGES = {
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "shutil.rmtree",
    "subprocess.Popen",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class KillSwitch:
    """Kills this process before its change to the disk of a number, while it is armed.

    Directories that git is given for one command are in ``/tmp``, and are no state.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.is_armed = True
        self._folder = str(folder)
        self._left = number

    def __call__(self, event: str, facts: tuple[object, ...]) -> None:
        if self.is_armed and self._is_change(event, facts):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _is_change(self, event: str, facts: tuple[object, ...]) -> bool:
        if event in ("subprocess.Popen", "os.posix_spawn"):
            return True
        if event == "open":
            is_write = isinstance(facts[2], int) and facts[2] & _WRITES
            return bool(is_write) and self._is_inside(facts[0], None)
        return event in _CHANGES and self._is_inside(facts[0], facts[-1])

    def _is_inside(self, path: object, directory: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        name = os.fsdecode(path)
        if not name.startswith("/") and isinstance(directory, int):
            name = str(Path(f"/proc/self/fd/{directory}").readlink())
        return not name.startswith("/") or name.startswith(self._folder)
