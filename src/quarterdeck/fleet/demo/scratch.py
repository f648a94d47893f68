"""The folder of a demo: its project, its home and host, and how all of it is removed.

Who runs the demo holds a lock on a file in the folder. When it is gone, however it ended, the
keeper gets the lock: a process of its own that ends the host and removes the folder. Where the
keeper was killed too, the next demo removes it. Functions here block.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from types import TracebackType

from quarterdeck.config.places import Places, make_private
from quarterdeck.config.trust import TrustStore
from quarterdeck.system.process_tree import (
    MARK_VARIABLE,
    ProcessTree,
    find_processes,
    send_signal,
)
from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["DemoError", "DemoScratch", "find_stale", "keep_watch", "sweep_stale"]

_PREFIX = "quarterdeck-demo-"
_LOCK = ".quarterdeck-demo"
"""Says that the folder is ours; held while the demo runs. Empty until the person keeps it."""
_KEPT = "kept\n"
_PROJECT = "tides"
_AGENT = "fake"
_PACE = 0.09
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "NO_COLOR", "COLORTERM", "TZ")
"""What the demo sees of the person's environment, besides PATH; no keys."""
_SETTINGS = """\
# Settings of the demo alone.
model = "scripted/demo"

[permissions]
allow = ["bash(git commit:*)", "bash(git merge:*)"]

[landing]
check = "python3 -m unittest"

[notifications]
bell = false

[host]
idle_minutes = 10
"""
_IDENTITY = "[user]\n\tname = Demo\n\temail = demo@localhost\n[commit]\n\tgpgsign = false\n"
_GIT_SECONDS = 20.0
_STOP_SECONDS = 5.0
_END_SECONDS = 10.0
_PAUSE = 0.02


class DemoError(QuarterdeckError):
    """The demo cannot begin; the message says why and what to do."""


class DemoScratch:
    """A demo's own folder; entering it makes everything, leaving it removes everything.

    Args:
        is_fast: the scripts have no pauses.
        environ: the person's environment; None: that of this process.
    """

    def __init__(self, *, is_fast: bool = False, environ: Mapping[str, str] | None = None) -> None:
        self._is_fast = is_fast
        self._environ = os.environ if environ is None else environ
        self._lock = -1
        self._keeper: subprocess.Popen[bytes] | None = None
        self.folder = Path()
        """Everything of the demo is below it."""
        self.is_kept = False

    @property
    def project(self) -> Path:
        """The project that the agents work on."""
        return self.folder / _PROJECT

    @property
    def model(self) -> str:
        """What our own agent's words come from."""
        return f"scripted/{self.folder / 'demo.toml'}" if self._is_fast else "scripted/demo"

    @property
    def second_agent(self) -> str:
        """The name of the other vendor's agent."""
        return _AGENT

    @property
    def places(self) -> Places:
        """Where its settings, log and host are."""
        return _places_in(self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """What its host runs with; every process of the demo has the folder's name as a mark."""
        path = self._environ.get("PATH", os.defpath)
        return {
            **{name: self._environ[name] for name in _PASSED_ON if name in self._environ},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{path}",
            "HOME": str(self.folder / "home"),
            "QUARTERDECK_HOME": str(self.folder / "qd"),
            MARK_VARIABLE: self.folder.name,
        }

    def __enter__(self) -> "DemoScratch":
        """Make it.

        Raises:
            DemoError: git is missing, or something cannot be written. Nothing is left behind.
        """
        path = self._environ.get("PATH", os.defpath)
        if shutil.which("git", path=path) is None:
            raise DemoError("the demo needs git, which is not on PATH; install it and start again")
        sweep_stale()
        try:
            folder = tempfile.mkdtemp(prefix=_PREFIX)
        except OSError as error:
            raise _failed(Path(tempfile.gettempdir()), error) from error
        self.folder = Path(os.path.realpath(folder))
        try:
            self._lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._keeper = _start_keeper(self.folder)
            self._write()
        except BaseException as error:
            self.remove()
            if isinstance(error, OSError):
                raise _failed(self.folder, error) from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove it, unless it is kept."""
        self.remove()

    def keep(self) -> None:
        """Let the folder stay when the demo ends."""
        self.is_kept = True
        os.pwrite(self._lock, _KEPT.encode(), 0)

    def remove(self) -> None:
        """End the host, and remove everything that is not kept. Doing it again does nothing."""
        if self._lock < 0:
            return
        _remove(self.folder)
        os.close(self._lock)
        self._lock = -1
        if self._keeper is not None:
            self._keeper.wait()  # it has nothing to do any more

    def _write(self) -> None:
        places = self.places
        for directory in (self.project, self.folder / "home"):
            directory.mkdir()
        make_private(places.config)
        make_private(places.agents)
        places.config_file.write_text(_SETTINGS, "utf-8")
        (places.agents / f"{_AGENT}.toml").write_text(self._describe_agent(), "utf-8")
        (self.folder / "second_agent.toml").write_text(_read("second_agent.toml"), "utf-8")
        if self._is_fast:
            (self.folder / "demo.toml").write_text(_read_fast_script(), "utf-8")
        for name, content in tomllib.loads(_read("project.toml")).items():
            (self.project / name).write_text(content, "utf-8")
        self._commit()
        TrustStore(places.trust_file).trust(self.project)

    def _describe_agent(self) -> str:
        command = [sys.executable, "-P", "-m", "quarterdeck", "testing", "acp-agent"]
        command += ["--script", str(self.folder / "second_agent.toml")]
        command += ["--pace", "0" if self._is_fast else str(_PACE)]
        words = ", ".join(f'"{_escape(word)}"' for word in command)
        return (
            f'title = "Fake agent, scripted"\nvendor = "none, it is a fake"\n'
            f"\n[transports.acp]\ncommand = [{words}]\n"
        )

    def _commit(self) -> None:
        """Put the project under version control, with an author of its own."""
        from quarterdeck.system.errors import GitError
        from quarterdeck.system.git.command import GitPlaces, run_git

        top = str(self.project)
        places = GitPlaces(git_dir=f"{top}/.git", work_tree=top, cwd=top)
        try:
            run_git(places, ("init", "-q", "-b", "main"), seconds=_GIT_SECONDS)
            with (self.project / ".git" / "config").open("a", encoding="utf-8") as config:
                config.write(_IDENTITY)
            run_git(places, ("add", "."), seconds=_GIT_SECONDS)
            message = "Tides, with a test that fails"
            run_git(places, ("commit", "-q", "-m", message), seconds=_GIT_SECONDS)
        except GitError as error:
            raise DemoError(f"the demo cannot make its repository: {error}") from error


def find_stale() -> list[Path]:
    """Folders of demos that no process runs any more, and that are not kept."""
    return [folder for folder in _folders() if _is_stale(folder)]


def sweep_stale() -> int:
    """Remove what such demos left; returns how many there were."""
    stale = find_stale()
    for folder in stale:
        _remove(folder)
    return len(stale)


def keep_watch(folder: Path) -> None:
    """Wait until the owner of a folder is gone, then remove it unless it is kept."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    fcntl.flock(lock, fcntl.LOCK_EX)
    if (folder / _LOCK).is_file():
        _remove(folder)


def _start_keeper(folder: Path) -> "subprocess.Popen[bytes]":
    code = (
        "import sys; from pathlib import Path; from quarterdeck.fleet.demo.scratch import "
        "keep_watch; keep_watch(Path(sys.argv[1]))"
    )
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _folders() -> list[Path]:
    found: list[Path] = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = folder / _LOCK
            if not folder.is_symlink() and lock.is_file() and lock.stat().st_uid == os.getuid():
                found.append(Path(os.path.realpath(folder)))
    return sorted(found)


def _is_stale(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.pread(lock, 16, 0) != _KEPT.encode()
    except OSError:
        return False
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """End every process of a demo; remove its folder unless it is kept."""
    from ..host.launcher import stop_host

    with suppress(QuarterdeckError, OSError):
        asyncio.run(stop_host(_places_in(folder), timeout=_STOP_SECONDS, force=True))
    _kill_processes(folder.name)
    if (folder / _LOCK).read_text("utf-8") != _KEPT:
        shutil.rmtree(folder, ignore_errors=True)


def _kill_processes(mark: str) -> None:
    """Also those that the host does not know, and a host that was only just started."""
    deadline = time.monotonic() + _END_SECONDS
    while (left := find_processes([ProcessTree(mark)])) and time.monotonic() < deadline:
        for one in left:
            send_signal(one, signal.SIGKILL)
        time.sleep(_PAUSE)


def _places_in(folder: Path) -> Places:
    return Places.find({"QUARTERDECK_HOME": str(folder / "qd")})


def _read(name: str) -> str:
    return (resources.files("quarterdeck.fleet.demo") / name).read_text("utf-8")


def _read_fast_script() -> str:
    """The script of our own agent, without its pauses."""
    import re

    source = resources.files("quarterdeck.models.script") / "data" / "demo.toml"
    return re.sub(r", pause = [0-9.]+", "", source.read_text("utf-8"))


def _escape(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"')


def _failed(place: Path, error: OSError) -> DemoError:
    return DemoError(
        f"the demo cannot write its project to {str(place)!r}: {error.strerror or error}; "
        "make room there, or set TMPDIR to another directory"
    )
