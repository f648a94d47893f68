"""Where a pool is: a Postgres URL, whose password is never on a command line."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from quarterdeck.wire.redaction import mask_secrets

from ..errors import EngineMissingError
from .errors import PoolAddressError

__all__ = ["POOL_VARIABLE", "PoolAddress", "find_pool_address"]

POOL_VARIABLE = "QUARTERDECK_POOL"
_SCHEMES = ("postgresql://", "postgres://")
_MOST = 4_096


class PoolAddress:
    """A Postgres URL that is never shown whole.

    Args:
        url: may have a password.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def __str__(self) -> str:
        return mask_secrets(self.url)

    def __repr__(self) -> str:
        return f"PoolAddress({str(self)!r})"


def find_pool_address(
    given: str | None,
    environ: Mapping[str, str] = os.environ,
    setting: Callable[[], str | None] = lambda: None,
) -> PoolAddress:
    """The pool that a command is about. Blocks on files.

    Args:
        given: of the command line: a URL without a password, the path of a file with a URL, or
            ``default``, as None, for what the variable says, or else the setting.
        environ: where the variable is.
        setting: what the person's own settings say; as ``given``.

    Raises:
        PoolAddressError: there is none, or it cannot be used.
        EngineMissingError: the extra ``pool`` is not installed.
    """
    if given is None or given == "default":
        if url := environ.get(POOL_VARIABLE, ""):
            return _check_address(url, f"the variable {POOL_VARIABLE}", is_open=False)
        given, source = setting(), "the setting pool"
        if not given:
            raise PoolAddressError(
                f"no pool is known; give --pool URL, or set {POOL_VARIABLE} or the setting pool"
            )
    else:
        source = "--pool"
    if given.startswith(_SCHEMES):
        return _check_address(given, source, is_open=True)
    path = Path(given).expanduser()
    return _check_address(_read_file(path), f"the file {given!r}", is_open=False)


def _check_address(url: str, source: str, *, is_open: bool) -> PoolAddress:
    """``is_open``: others may read where it comes from, so it may have no password."""
    if not url.startswith(_SCHEMES):
        raise PoolAddressError(f"{source} does not have the form postgresql://HOST/DATABASE")
    if _has_password(url) and is_open:
        raise PoolAddressError(
            f"others may be able to read {source}, such as the arguments of a program, so it takes "
            f"no password; put it into PGPASSFILE or PGPASSWORD, or the URL into {POOL_VARIABLE} "
            "or a file (--pool FILE)"
        )
    return PoolAddress(url)


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST)
            is_open = os.fstat(file.fileno()).st_mode & 0o077
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PoolAddressError(
            f"--pool takes a URL (postgresql://…) or a file with one; {str(path)!r} cannot be "
            f"read: {error}"
        ) from error
    url = text.strip()
    if is_open and url.startswith(_SCHEMES) and _has_password(url):
        raise PoolAddressError(
            f"{str(path)!r} has a password, and others can read it; chmod 600 {str(path)!r}"
        )
    return url


def _has_password(url: str) -> bool:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError as error:
        raise EngineMissingError("psycopg") from error
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise PoolAddressError(f"the URL of the pool cannot be read: {error}") from error
    return bool(parts.get("password")) or bool(parts.get("sslpassword"))
