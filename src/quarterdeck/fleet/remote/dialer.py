"""The way to a host on another machine: find it, start it, forward its socket, connect."""

import os
import posixpath
from typing import TypeVar

import msgspec

from quarterdeck import __version__
from quarterdeck.config.places import Places
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import LinkBrokenError, LinkError
from quarterdeck.wire.rpc import ByteStream, connect_unix
from quarterdeck.wire.terminal_text import escape_to_line

from ..connection import HostConnection
from ..errors import HostError, HostVersionError, NoHostError, RemoteHostError
from ..host.launcher import REPORT_FORMAT, START_SECONDS, HostReport
from ..host.methods import PROTOCOL
from ..host.peer_credentials import read_peer_credentials
from .address import RemoteAddress
from .ssh_client import RUN_SECONDS, SshClient, SshResult

__all__ = ["RemoteDialer"]

T = TypeVar("T")

_USAGE = 2
"""The exit code of a program that does not know a command or an option."""


class RemoteDialer:
    """Connects to the host of one address, as often as needed. ``dial`` is a ``Dial``.

    Args:
        address: where it is.
        places: of this machine, for our ends of sockets.
    """

    def __init__(self, address: RemoteAddress, places: Places) -> None:
        self.address = address
        self._ssh = SshClient(address, places)
        self._fresh: HostReport | None = None
        """A report that no connection has used yet."""
        self._home = ""

    async def dial(self) -> ByteStream:
        """Connect to the host there; starts none.

        Raises:
            HostUnreachableError: the machine does not answer.
            NoHostError: no host is running there.
            HostVersionError: the program or the host there is of another version.
            RemoteHostError: something else is in the way, until a person changes it.
        """
        return await self._dial(start=False)

    async def ensure(self) -> ByteStream:
        """Connect to the host there, and start one if none is running; raises like ``dial``."""
        return await self._dial(start=True)

    async def prepare(self, *, start: bool = False) -> None:
        """Learn what has to be known to resolve paths, once; raises like ``dial``."""
        if self._home and not start:
            return
        self._fresh = await self._report(start)

    def resolve(self, path: str | None) -> str:
        """An absolute path there; relative ones begin in the address's directory, ``~`` is home.

        After ``prepare``. Whether something is there is not looked up.
        """
        base = posixpath.join(self._home, self._expand(self.address.directory or "~"))
        return posixpath.normpath(posixpath.join(base, self._expand(path or ".")))

    async def stop(self, *, seconds: float, force: bool) -> int | None:
        """Stop the host there, of whatever version it is; returns the id of its process.

        Raises:
            NoHostError: none is running.
            HostError: it is not gone in time; it says why.
        """
        words = ["host", "stop", "--json", "--timeout", f"{seconds:g}", *(["--force"] * force)]
        result = await self._ssh.run(*words, seconds=RUN_SECONDS + 2 * seconds)
        found = _find_line(result.output, _Stopped)
        if found is None:
            raise HostError(f"cannot stop the host {self.address.name!r}: {_words(result)}")
        if not found.stopped:
            raise self._no_host()
        return found.pid

    async def disconnect(self) -> bool:
        """End the connection of ssh, for all who use it; False: there was none."""
        return await self._ssh.close()

    async def _dial(self, *, start: bool) -> ByteStream:
        report, self._fresh = self._fresh, None
        if report is None or report.socket is None:
            report = await self._report(start)
        if report.socket is None:
            raise self._no_host()
        path = await self._ssh.forward(report.socket)
        await self._greet(await self._connect(path))
        return await self._connect(path)

    async def _report(self, start: bool) -> HostReport:
        words = ("host", "report", *(["--start"] * start))
        seconds = RUN_SECONDS + (START_SECONDS if start else 0)
        result = await self._ssh.run(*words, seconds=seconds)
        report = _find_line(result.output, HostReport)
        if report is None:
            raise await self._explain(result)
        self._check(report)
        self._home = report.home
        return report

    async def _connect(self, path: str) -> ByteStream:
        try:
            stream = await connect_unix(path)
        except LinkBrokenError as error:
            raise NoHostError(f"the connection to {self.address.name!r} ended: {error}") from error
        who = read_peer_credentials(stream)
        if who.uid != os.getuid():
            await stream.close()
            raise HostError(f"the process listening at {path!r} is not yours; nothing was sent")
        return stream

    async def _greet(self, stream: ByteStream) -> None:
        """See that the host answers through the forwarded socket, and say what hinders it.

        A server that forwards no sockets accepts ours and closes it: only an answer tells.
        """
        name = self.address.name
        try:
            async with HostConnection(stream, "ssh"):
                pass
        except HostVersionError as error:
            raise HostVersionError(
                f"the host {name!r} cannot be used: {error}. Stop it from here with `quarterdeck "
                f"--host {name} host stop`"
            ) from None
        except LinkError as error:
            report = await self._report(False)
            if report.socket is None:
                raise self._no_host() from error
            raise self._ssh.explain_closed_forward() from error

    def _check(self, report: HostReport) -> None:
        name = self.address.name
        if report.protocol == PROTOCOL and report.format == REPORT_FORMAT:
            return
        is_newer = (report.format, report.protocol) > (REPORT_FORMAT, PROTOCOL)
        which = "newer" if is_newer else "older"
        where = "here" if is_newer else f"on {name!r}"
        raise HostVersionError(
            f"the quarterdeck of {name!r} is {which} than this one: {report.quarterdeck} (protocol "
            f"{report.protocol}) there, {__version__} (protocol {PROTOCOL}) here; update it {where}"
        )

    async def _explain(self, result: SshResult) -> HostError:
        name = self.address.name
        if result.code != _USAGE:
            return RemoteHostError("failed", f"the host {name!r} cannot be used: {_words(result)}")
        version = (await self._ssh.run("--version")).output.strip().splitlines()
        return HostVersionError(
            f"the quarterdeck of {name!r} is older than this one and cannot be used from another "
            f"machine: {version[-1] if version else 'unknown'} there, {__version__} here; update "
            f"it on {name!r}"
        )

    def _no_host(self) -> NoHostError:
        name = self.address.name
        return NoHostError(
            f"no host is running on {name!r}; `quarterdeck --host {name} host start` starts one"
        )

    def _expand(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            return posixpath.join(self._home, path[2:])
        return path


class _Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What ``host stop --json`` writes."""

    stopped: bool
    pid: int | None = None


def _find_line(output: str, kind: type[T]) -> T | None:
    """The JSON in what came; the shell of a person may write something before it."""
    begin = output.find("{")
    while begin >= 0:
        try:
            return decode_json(output[begin:].encode(), kind)
        except msgspec.DecodeError:
            begin = output.find("{", begin + 1)
    return None


def _words(result: SshResult) -> str:
    lines = [*result.output.splitlines(), *result.errors.splitlines()]
    shown = [escape_to_line(line.strip()) for line in lines if line.strip()][-3:]
    return "; ".join(shown) or f"it wrote nothing and ended with {result.code}"
