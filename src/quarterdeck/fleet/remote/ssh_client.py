"""Runs OpenSSH for one address: commands there, and a socket there forwarded to one here.

One connection serves them all (``ControlMaster``). It belongs to ssh and not to us: the commands of
a person use it one after the other, and it ends ``PERSIST_SECONDS`` after the last of them.

ssh never asks a person (``BatchMode``), has no terminal to ask on, and every run of it has a
deadline. What it says about a failure decides which error is raised.
"""

import asyncio
import hashlib
import os
import re
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places
from quarterdeck.system.environment import child_environment
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.terminal_text import escape_controls

from ..errors import HostError, HostUnreachableError, RemoteHostError, RemoteProblem
from ..host.lock import LONGEST_PATH, make_socket_directory
from .address import RemoteAddress

__all__ = ["CONNECT_SECONDS", "PERSIST_SECONDS", "SshClient", "SshResult"]

PERSIST_SECONDS = 60
"""How long the connection stays after its last use."""
CONNECT_SECONDS = 10
"""How long a machine may take to answer."""
RUN_SECONDS = 30.0
"""How long a command there may take, the connection included."""
_CONTROL_SECONDS = 10.0
"""How long ssh may take for what it does here alone."""

_OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_SECONDS}",
    "ServerAliveInterval=15",  # three of them without an answer: the connection is dead
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    f"ControlPersist={PERSIST_SECONDS}",
    "StreamLocalBindUnlink=yes",
    "StreamLocalBindMask=0177",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)
"""They win over the person's configuration, which decides on the rest: keys, names, jumps."""
_VARIABLES = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_SK_PROVIDER", "KRB5CCNAME")
_MOST_BYTES = 64 * 1024
_PLAIN_PATH = re.compile(r"/[\w./+@,=-]*")
"""Of these characters ssh takes none for a token, a variable or a separator."""
_SUFFIX = 18
"""What ssh adds to the path of its socket while it makes it."""
_SHOWN_LINES = 3


class SshResult(Struct, frozen=True, kw_only=True):
    """How a run of ssh ended."""

    code: int
    output: str
    errors: str


class SshClient:
    """ssh to one address.

    Args:
        address: where to; its parts are checked.
        places: in whose runtime directory our ends of sockets are.
    """

    def __init__(self, address: RemoteAddress, places: Places) -> None:
        self._address = address
        self._places = places

    async def run(self, *arguments: str, seconds: float = RUN_SECONDS) -> SshResult:
        """Run the installed ``quarterdeck`` there; connects if there is no connection.

        Args:
            arguments: of it; words of ours, which mean nothing to a shell.
            seconds: how long it may take.

        Raises:
            HostUnreachableError: the machine does not answer.
            RemoteHostError: there is no ssh, the login is refused, or no such program is there.
        """
        control = await asyncio.to_thread(self.make_control_path)
        line = _remote_line(self._address.program, arguments)
        options = [*_OPTIONS, f"ControlPath={control}", "ClearAllForwardings=yes"]
        result = await self._ssh([*_spell(options), *self._destination, line], seconds)
        if result.code == 255:
            raise self._explain(result.errors)
        if result.code in (126, 127):
            raise self._error("program-missing", self._explain_missing())
        return result

    async def forward(self, socket: str) -> str:
        """Forward a socket there to one here; returns the path of ours, for this user alone.

        Raises:
            RemoteHostError: its path is none that ssh can be given, or ssh refuses.
            HostUnreachableError: the connection is gone.
        """
        if _PLAIN_PATH.fullmatch(socket) is None or len(os.fsencode(socket)) > LONGEST_PATH:
            raise self._error(
                "failed",
                f"its socket {socket!r} has a path that ssh cannot be given; set QUARTERDECK_HOME "
                "there to a short one of letters and digits",
            )
        local = await asyncio.to_thread(self._make_path, f"fwd-{self._mark(socket)}.sock", 0)
        wanted = ["-L", f"{local}:{socket}"]
        # What is forwarded already stays so: several clients share it.
        result = await self._control("forward", *wanted)
        if result.code == 0 and not await asyncio.to_thread(Path(local).exists):
            # Someone removed the socket here, and ssh believes that it is there.
            await self._control("cancel", *wanted)
            result = await self._control("forward", *wanted)
        if result.code == 0:
            return local
        if "forwarding" in result.errors.lower():
            raise self._error("forwarding-refused", self._explain_forwarding(result.errors))
        raise HostUnreachableError(
            f"the connection to {self._address.name!r} ended: {_last_lines(result.errors)}"
        )

    async def close(self) -> bool:
        """End the connection, and so every forwarded socket; False: there was none."""
        return (await self._control("exit")).code == 0

    def explain_closed_forward(self) -> RemoteHostError:
        """The error for a socket that is forwarded and closed at once by the machine there."""
        return self._error("forwarding-refused", self._explain_forwarding(""))

    async def _control(self, command: str, *arguments: str) -> SshResult:
        """Ask the process that has the connection; talks to no machine."""
        control = await asyncio.to_thread(self.make_control_path)
        # No configuration: it could have forwards of its own, which would be asked for as well.
        words = ["-F", "none", "-O", command, *_spell([f"ControlPath={control}", "LogLevel=ERROR"])]
        return await self._ssh([*words, *arguments, *self._destination], _CONTROL_SECONDS)

    @property
    def _destination(self) -> tuple[str, ...]:
        address = self._address
        port = () if address.port is None else ("-p", str(address.port))
        return (*port, "--", address.destination)

    async def _ssh(self, words: list[str], seconds: float) -> SshResult:
        # A file, not a pipe: an old ssh lets the connection keep its error output open.
        with await asyncio.to_thread(tempfile.TemporaryFile) as errors:
            child = await self._start(words, errors)
            try:
                async with asyncio.timeout(seconds):
                    return await _collect(child, errors)
            except TimeoutError:
                raise HostUnreachableError(
                    f"{self._address.name!r} did not answer within {seconds:.0f} s; check the "
                    f"network, and whether `{self._shown_ssh}` works"
                ) from None
            finally:
                await _end(child)

    async def _start(self, words: list[str], errors: IO[bytes]) -> asyncio.subprocess.Process:
        starting = start_task(
            asyncio.create_subprocess_exec(
                "ssh",
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env=child_environment(inherit=_VARIABLES),
                start_new_session=True,  # without a terminal it cannot ask for anything
            ),
            name="ssh: start",
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # It may run by now: what it started would keep its output open, and us waiting.
            with suppress(OSError):
                await _end(await starting)
            raise
        except FileNotFoundError:
            raise self._error(
                "ssh-missing", "the program 'ssh' is not installed here; install OpenSSH's client"
            ) from None
        except OSError as error:
            raise self._error("ssh-missing", f"ssh cannot be started: {error}") from error

    def make_control_path(self) -> str:
        """The path of the connection's socket; its directory is made. Blocks shortly."""
        return self._make_path(f"ssh-{self._mark()}", _SUFFIX)

    def _make_path(self, name: str, spare: int) -> str:
        """A path for a socket in a directory of ours. Blocks shortly."""
        temporary = Path(tempfile.gettempdir()) / f"quarterdeck-{os.getuid()}"
        for directory in (self._places.runtime, temporary, Path("/tmp") / temporary.name):
            path = directory / name
            is_short = len(os.fsencode(path)) + spare <= LONGEST_PATH
            if is_short and _PLAIN_PATH.fullmatch(str(path)):
                make_socket_directory(path)
                return str(path)
        raise UnusablePlaceError(
            f"cannot create a socket for ssh: {str(self._places.runtime)!r} is too long or holds "
            "characters that ssh interprets; set QUARTERDECK_HOME to another path"
        )

    def _mark(self, *more: str) -> str:
        address = self._address
        facts = "\n".join((address.destination, str(address.port or ""), *more))
        return hashlib.sha256(facts.encode()).hexdigest()[:12]

    @property
    def _shown_ssh(self) -> str:
        address = self._address
        return f"ssh {address.destination}" + (f" -p {address.port}" if address.port else "")

    def _error(self, problem: RemoteProblem, why: str) -> RemoteHostError:
        return RemoteHostError(problem, f"cannot use the host {self._address.name!r}: {why}")

    def _explain(self, errors: str) -> HostError:
        """The error for what ssh says when it cannot connect or log in."""
        name, ssh = self._address.name, self._shown_ssh
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in errors:
            return self._error(
                "key-changed",
                "its host key is not the one that you know: it was installed anew, or another "
                "machine answers in its place. Nothing was sent. Ask its administrator for the new "
                f"fingerprint, remove the old key with `ssh-keygen -R`, then run `{ssh}` once",
            )
        if "Host key verification failed" in errors or "host key is known for" in errors:
            return self._error(
                "key-unknown",
                f"its host key is not known here; run `{ssh}` once, compare the fingerprint and "
                "accept it",
            )
        if _LOGIN.search(errors):
            return self._error(
                "login-refused",
                "it refuses your key, or wants a password or the passphrase of a key, which cannot "
                "be typed here; load the key into an SSH agent (`ssh-add`) and check with "
                f"`ssh -o BatchMode=yes {ssh.removeprefix('ssh ')}` "
                f"({_last_lines(errors)})",
            )
        if _UNREACHABLE.search(errors) or not errors.strip():
            return HostUnreachableError(
                f"cannot reach {name!r}: {_last_lines(errors) or 'the connection ended'}"
            )
        return self._error("failed", f"ssh says: {_last_lines(errors)}")

    def _explain_missing(self) -> str:
        program = self._address.program
        return (
            f"there is no program {program!r} there, on the PATH of a login shell or in "
            "~/.local/bin; install Quarterdeck there, or name its path in the setting "
            "hosts.NAME.program"
        )

    def _explain_forwarding(self, errors: str) -> str:
        text = _last_lines(errors)
        return (
            "its SSH server does not forward Unix sockets; set AllowStreamLocalForwarding to "
            "'yes' or 'local' in its sshd_config" + (f" ({text})" if text else "")
        )


_LOGIN = re.compile(
    r"Permission denied|Too many authentication failures|No more authentication methods"
    r"|no mutual signature|Authentication failed"
)
_UNREACHABLE = re.compile(
    r"Could not resolve hostname|Connection (?:refused|timed out|reset|closed)|timed out"
    r"|No route to host|(?:Network|Host) is (?:unreachable|down)|Broken pipe|banner exchange"
    r"|kex_exchange_identification|Connection to .* (?:closed|timed out)|mux_client|Control socket"
)


def _remote_line(program: str, arguments: tuple[str, ...]) -> str:
    """A command line for the person's shell there, whichever that is.

    A POSIX login shell runs the program, so that a host that it starts has the PATH of the person's
    profile, on which agents are.
    """
    named = f'"$HOME"/{program[2:]}' if program.startswith("~/") else program
    words = " ".join((named, *arguments))
    assert re.fullmatch(r'[\w./+@,="$ -]+', words), words
    return f"exec sh -lc 'PATH=\"$PATH:$HOME/.local/bin\"; export PATH; exec {words}'"


def _spell(options: list[str]) -> list[str]:
    return [word for option in options for word in ("-o", option)]


async def _collect(child: asyncio.subprocess.Process, errors: IO[bytes]) -> SshResult:
    assert child.stdout is not None
    output = bytearray()
    while data := await child.stdout.read(_MOST_BYTES):
        output += data
        del output[:-_MOST_BYTES]
    code = await child.wait()
    last = await asyncio.to_thread(_read_last, errors)
    return SshResult(
        code=code, output=output.decode("utf-8", "replace"), errors=last.decode("utf-8", "replace")
    )


def _read_last(file: IO[bytes]) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_BYTES))
    return file.read(_MOST_BYTES)


async def _end(child: asyncio.subprocess.Process) -> None:
    """Make sure that it is over, with all that it started but the connection."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return escape_controls("; ".join(lines[-_SHOWN_LINES:]))
