"""Where the tutorial happens: a project, a home and a host of its own, and how far it has come.

Everything is below one directory in the state of the user. Commands run in an environment that
names only that directory, so the user's own agents, settings and log are not touched. When the
tutorial is left, only the number of the steps that are done stays.
"""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock

from .steps import PROJECT_FILES, STEPS, TutorialStep

__all__ = ["ScratchSpace", "TutorialError"]

_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "NO_COLOR", "COLORTERM", "TZ")
"""What commands see of the user's environment, besides PATH; no keys."""
_SETTINGS = (
    '# Settings of the tutorial alone.\nmodel = "scripted/tutorial"\nmode = "ask"\n\n'
    "[notifications]\nbell = false\n\n[host]\nidle_minutes = 10\n"
)
_IDENTITY = "[user]\n\tname = Tutorial\n\temail = tutorial@localhost\n"
_MOST_SECONDS = 120.0
_CHECK_SECONDS = 15.0
_PAUSE = 0.2


class TutorialError(QuarterdeckError):
    """The tutorial cannot go on; the message says why and what to do."""


class ScratchSpace:
    """The tutorial's project, home and progress. Blocks; ``lock`` keeps other tutorials out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._progress = directory / "progress.json"
        self._root = root = directory / "space"
        self.project = root / "harbour"
        self._home = root / "home"
        self._environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self._home),
            "QUARTERDECK_HOME": str(root / "quarterdeck"),
            "GIT_PAGER": "cat",
        }
        self._places = Places.find(self._environment)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Keep other tutorials of this user out.

        Raises:
            TutorialError: one runs already.
        """
        make_private(self._directory)
        handle = open_lock(self._directory / "lock")
        try:
            is_first = try_lock(handle)
        except OSError as error:
            os.close(handle)
            raise TutorialError(f"{str(self._directory)!r} cannot be locked: {error}") from error
        if not is_first:
            os.close(handle)
            raise TutorialError("the tutorial is open in another terminal; end it there first")
        try:
            yield
        finally:
            self.remove()
            if not self._progress.exists():
                shutil.rmtree(self._directory, ignore_errors=True)
            release_lock(handle)

    def read_done(self) -> int:
        """How many steps are done; 0 also if all are."""
        try:
            done = decode_json(self._progress.read_bytes(), int)
        except (OSError, msgspec.DecodeError):
            return 0
        return done if 0 < done < len(STEPS) else 0

    def write_done(self, done: int) -> None:
        """Note how many steps are done; nothing is noted once all are."""
        if 0 < done < len(STEPS):
            self._progress.write_bytes(msgspec.json.encode(done))
        else:
            self._progress.unlink(missing_ok=True)

    def create(self) -> None:
        """Make the project anew, in the state before the first step.

        Raises:
            TutorialError: git is missing, or something cannot be written.
        """
        self.remove()
        if shutil.which("git") is None:
            raise TutorialError("the tutorial needs git; install it and start again")
        try:
            self._write_files()
        except OSError as error:
            raise TutorialError(
                f"the tutorial cannot write to {str(self._root)!r}: {error.strerror or error}"
            ) from error
        for words in (
            ("git", "init", "-q", "-b", "main"),
            ("git", "add", "."),
            ("git", "commit", "-q", "-m", "A harbour that greets ships"),
        ):
            done = subprocess.run(
                words, cwd=self.project, env=self._environment, capture_output=True, text=True
            )
            if done.returncode:
                raise TutorialError(f"{' '.join(words)} failed: {done.stderr.strip()}")

    def remove(self) -> None:
        """Stop the host and delete everything; nothing happens if there is nothing."""
        if not self._root.exists():
            return
        from quarterdeck.fleet.host.launcher import stop_host

        with suppress(QuarterdeckError, OSError):
            asyncio.run(stop_host(self._places, timeout=20.0, force=True))
        shutil.rmtree(self._root, ignore_errors=True)

    def run(self, command: str, *, is_shown: bool = True, has_input: bool = False) -> int:
        """Run a shell command in the project; its exit code. 124: it took too long."""
        output = None if is_shown else subprocess.DEVNULL
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self.project,
            env=self._environment,
            stdin=None if has_input else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # A program that reads the terminal must stay in the group that may.
            process_group=None if has_input else 0,
        )
        try:
            return child.wait(None if has_input else _MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            if child.poll() is None and not has_input:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def check(self, step: TutorialStep, *, patience: float = _CHECK_SECONDS) -> str | None:
        """What is missing for a step to be done, after some patience; None: nothing."""
        return asyncio.run(self._check(step, patience))

    async def _check(self, step: TutorialStep, patience: float) -> str | None:
        from quarterdeck.fleet.client import HostClient

        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        async with HostClient.connect(
            self._places, start=True, environ=self._environment, name="tutorial"
        ) as fleet:
            while (problem := await step.check(fleet, self.project)) is not None:
                if loop.time() >= deadline:
                    break
                await asyncio.sleep(_PAUSE)
        return problem

    def _write_files(self) -> None:
        make_private(self._root)
        for directory in (self.project, self._home, self._root / "bin"):
            directory.mkdir()
        make_private(self._places.config)
        self._places.config_file.write_text(_SETTINGS, "utf-8")
        (self._home / ".gitconfig").write_text(_IDENTITY, "utf-8")
        for name, text in PROJECT_FILES.items():
            (self.project / name).write_text(text, "utf-8")
        for name in ("quarterdeck", "qd"):
            program = self._root / "bin" / name
            program.write_text(
                f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m quarterdeck "$@"\n'
            )
            program.chmod(0o700)
