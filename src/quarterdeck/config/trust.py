"""Which directories the user trusts.

A project's files can run programs and send text elsewhere; they count in full only where the
user said so once. The list is one small file, replaced as a whole, so that a crash leaves the
old one or the new one.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from quarterdeck.wire.errors import NewerVersion
from quarterdeck.wire.values import Value

from .errors import UnusableTrust
from .places import make_private

__all__ = ["TrustStore"]

VERSION = 1


class _File(Value, frozen=True, kw_only=True):
    v: Literal[1]
    trusted: tuple[str, ...] = ()


class TrustStore:
    """The trusted directories, by their real path. Blocks on files; safe between processes.

    A trusted directory covers what is below it. The home directory and those above it cover
    only themselves: to trust them must not mean to trust everything that is ever cloned.
    """

    def __init__(self, path: Path, *, home: Path | None = None) -> None:
        self._path = path
        self._home = home
        self._name = f"the list of trusted directories {str(path)!r}"

    def is_trusted(self, directory: Path) -> bool:
        """Whether the user trusts a directory, or one above it.

        Raises:
            UnusableTrust: the list is damaged or cannot be read.
            NewerVersion: a newer program wrote the list.
        """
        real = _real(directory)
        trusted = self._read()
        if str(real) in trusted:
            return True
        return any(str(p) in trusted and not self._is_wide(p) for p in real.parents)

    def trusted(self) -> tuple[Path, ...]:
        """Every directory that the user trusted, in order of time. Raises as ``is_trusted``."""
        return tuple(Path(path) for path in self._read())

    def trust(self, directory: Path) -> Path:
        """Trust a directory from now on; return its real path.

        Raises:
            UnusableTrust: it is no directory, or the list cannot be read or written.
            NewerVersion: a newer program wrote the list.
        """
        real = _real(directory)
        if not real.is_dir():
            raise UnusableTrust(f"{str(directory)!r} is not a directory; name one that exists")
        with self._locked():
            kept = [path for path in self._read() if path != str(real)]
            self._write((*kept, str(real)))
        return real

    def revoke(self, directory: Path) -> bool:
        """Trust a directory no longer; tell whether it was in the list. Raises as ``trust``.

        It is still trusted if one above it is.
        """
        real = str(_real(directory))
        with self._locked():
            before = self._read()
            if real not in before:
                return False
            self._write(tuple(path for path in before if path != real))
        return True

    def _is_wide(self, directory: Path) -> bool:
        home = _real(self._home or Path.home())
        return directory == home or directory in home.parents

    def _read(self) -> tuple[str, ...]:
        try:
            data = self._path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise self._unusable(error) from error
        try:
            raw = msgspec.json.decode(data, type=dict[str, Any])
            if isinstance(version := raw.get("v"), int) and version > VERSION:
                raise NewerVersion(self._name, version, VERSION)
            return msgspec.convert(raw, _File).trusted
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnusableTrust(
                f"{self._name} is damaged: {error}; delete it to start anew"
            ) from error

    def _write(self, trusted: tuple[str, ...]) -> None:
        import tempfile  # late: trust is read at every start and hardly ever written

        data = msgspec.json.format(msgspec.json.encode(_File(v=1, trusted=trusted)))
        try:
            descriptor, name = tempfile.mkstemp(prefix=".trust-", dir=self._path.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data + b"\n")
                    file.flush()
                    os.fsync(descriptor)
                Path(name).replace(self._path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise self._unusable(error) from error

    @contextmanager
    def _locked(self) -> Generator[None]:
        make_private(self._path.parent)
        try:
            descriptor = os.open(
                self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _unusable(self, error: OSError) -> UnusableTrust:
        return UnusableTrust(f"{self._name} cannot be used: {error.strerror or error}")


def _real(directory: Path) -> Path:
    return Path(os.path.realpath(directory))
