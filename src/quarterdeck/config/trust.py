"""Which directories the user trusts.

A project's files can run programs and send text elsewhere; they count in full only where the
user has agreed to that. The list is one small file, replaced as a whole, so that a crash leaves the
old one or the new one.
"""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from quarterdeck.wire.decoders import convert, decode_json
from quarterdeck.wire.errors import NewerVersionError
from quarterdeck.wire.filelock import hold_lock
from quarterdeck.wire.values import Value

from .errors import UnusableTrustError
from .places import make_private

__all__ = ["TrustStore"]

VERSION = 2
"""2 added ``unasked``; a list without any is written as 1, which older programs read too."""


class _File(Value, frozen=True, kw_only=True):
    v: Literal[1, 2]
    trusted: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


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
            UnusableTrustError: the list is damaged or cannot be read.
            NewerVersionError: a newer program wrote the list.
        """
        real = _real(directory)
        trusted = self._read().trusted
        if str(real) in trusted:
            return True
        return any(str(p) in trusted and not self._is_wide(p) for p in real.parents)

    def trusted(self) -> tuple[Path, ...]:
        """Every directory that the user trusted, in order of time. Raises as ``is_trusted``."""
        return tuple(Path(path) for path in self._read().trusted)

    def is_unasked(self, directory: Path) -> bool:
        """Whether the user does not want to be asked about a directory. Raises as above."""
        return str(_real(directory)) in self._read().unasked

    def leave_unasked(self, directory: Path) -> Path:
        """Never ask about a directory again; return its real path. Raises as ``trust``.

        To trust it, or to revoke that, makes it one like every other again.
        """
        real = _real(directory)
        with self._locked():
            before = self._read()
            self._write(before.trusted, (*_without(before.unasked, str(real)), str(real)))
        return real

    def trust(self, directory: Path) -> Path:
        """Trust a directory from now on; return its real path.

        Raises:
            UnusableTrustError: it is no directory, or the list cannot be read or written.
            NewerVersionError: a newer program wrote the list.
        """
        real = _real(directory)
        if not real.is_dir():
            raise UnusableTrustError(f"{str(directory)!r} is not a directory; name one that exists")
        with self._locked():
            before = self._read()
            kept = _without(before.trusted, str(real))
            self._write((*kept, str(real)), _without(before.unasked, str(real)))
        return real

    def revoke(self, directory: Path) -> bool:
        """Trust a directory no longer; return whether it was in the list. Raises as ``trust``.

        It is still trusted if one above it is.
        """
        real = str(_real(directory))
        with self._locked():
            before = self._read()
            unasked = _without(before.unasked, real)
            is_known = real in before.trusted
            if is_known or unasked != before.unasked:
                self._write(_without(before.trusted, real), unasked)
        return is_known

    def _is_wide(self, directory: Path) -> bool:
        home = _real(self._home or Path.home())
        return directory == home or directory in home.parents

    def _read(self) -> _File:
        try:
            data = self._path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return _File(v=1)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            raw = decode_json(data, dict[str, Any])
            if isinstance(version := raw.get("v"), int) and version > VERSION:
                raise NewerVersionError(self._name, version, VERSION)
            return convert(raw, _File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnusableTrustError(
                f"{self._name} is damaged: {error}; delete it to start over"
            ) from error

    def _write(self, trusted: tuple[str, ...], unasked: tuple[str, ...]) -> None:
        import tempfile  # late: trust is read at every start and hardly ever written

        file = _File(v=2 if unasked else 1, trusted=trusted, unasked=unasked)
        data = msgspec.json.format(msgspec.json.encode(file))
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
        with ExitStack() as held:
            try:
                held.enter_context(hold_lock(self._path.with_suffix(".lock")))
            except OSError as error:
                raise self._unusable(error) from error
            yield

    def _unusable(self, error: OSError) -> UnusableTrustError:
        return UnusableTrustError(f"{self._name} cannot be used: {error.strerror or error}")


def _without(paths: tuple[str, ...], path: str) -> tuple[str, ...]:
    return tuple(each for each in paths if each != path)


def _real(directory: Path) -> Path:
    return Path(os.path.realpath(directory))
