"""Where a host on another machine is: ``ssh://[user@]box[:port][/directory]``, or a name for it.

Everything of an address that becomes a word on the command line of ``ssh`` is checked here: it
cannot begin with ``-`` and holds nothing that ssh, a shell or a proxy command would interpret.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from quarterdeck.config.host_settings import RemoteHostSettings

from ..errors import HostAddressError

__all__ = ["RemoteAddress", "find_address", "parse_address"]

_SCHEME = "ssh://"
_FORM = "ssh://[USER@]HOST[:PORT][/DIRECTORY]"
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,15})?)\]")
_PORT = re.compile(r"[0-9]{1,5}")
_PROGRAM = re.compile(r"(?:~/)?[A-Za-z0-9_./+@,=][A-Za-z0-9_./+@,=-]*")


class RemoteAddress(Struct, frozen=True, kw_only=True):
    """A host on another machine, as it was checked."""

    name: str
    """What the person calls it: a name of the settings, or the URL."""
    host: str
    """For ssh: a name of its configuration, a host name, or an IP address without brackets."""
    user: str | None = None
    """None: ssh decides."""
    port: int | None = None
    """None: ssh decides."""
    directory: str | None = None
    """Where relative paths begin there; None: the home directory."""
    program: str = "quarterdeck"
    """The program there: a name on its PATH, or a path, which may begin with ``~/``."""

    @property
    def destination(self) -> str:
        """As ssh takes it; never begins with ``-``."""
        return self.host if self.user is None else f"{self.user}@{self.host}"


def find_address(given: str, hosts: Mapping[str, RemoteHostSettings]) -> RemoteAddress:
    """The address that ``--host`` names: a URL, or a host of the settings.

    Raises:
        HostAddressError: it is neither.
    """
    if "://" in given:
        return parse_address(given)
    settings = hosts.get(given)
    if settings is None:
        raise HostAddressError(given, _explain_unknown(given, hosts))
    if settings.url is None:
        raise HostAddressError(
            given, f"the setting hosts.{given}.url is missing; set it to {_FORM}"
        )
    found = parse_address(settings.url)
    if _PROGRAM.fullmatch(settings.program) is None:
        raise HostAddressError(
            given,
            f"hosts.{given}.program: {settings.program!r} is not a program's name or a path of "
            "letters, digits and _ . / + @ , = -",
        )
    return RemoteAddress(
        name=given,
        host=found.host,
        user=found.user,
        port=found.port,
        directory=settings.directory or found.directory,
        program=settings.program,
    )


def _explain_unknown(given: str, hosts: Mapping[str, RemoteHostSettings]) -> str:
    from difflib import get_close_matches

    if near := get_close_matches(given, list(hosts), n=1):
        return f"your settings have no such host; did you mean {near[0]!r}?"
    if _HOST.fullmatch(given):
        return f"your settings have no such host; name one there, or write ssh://{given}"
    return f"your settings have no such host; name one there, or write {_FORM}"


def parse_address(url: str) -> RemoteAddress:
    """Read a URL.

    Raises:
        HostAddressError: it is none that ssh could be given safely; says which part.
    """
    if not url.startswith(_SCHEME):
        raise HostAddressError(url, f"only SSH is supported; write {_FORM}")
    machine, slash, path = url.removeprefix(_SCHEME).partition("/")
    login, at, place = machine.rpartition("@")
    if ":" in login:
        raise HostAddressError(
            _SCHEME + place, "a password cannot be part of it; use a key and an SSH agent"
        )
    if at and _USER.fullmatch(login) is None:
        raise HostAddressError(url, f"{login!r} is not a user name of letters, digits and _ . + -")
    host, port = _split_port(url, place)
    return RemoteAddress(
        name=url,
        host=host,
        user=login if at else None,
        port=port,
        directory=_read_directory(url, slash + path),
    )


def _split_port(url: str, place: str) -> tuple[str, int | None]:
    numeric = _IPV6.match(place)
    if numeric is not None:
        host, rest = numeric[1], place[numeric.end() :]
        colon, port = rest[:1], rest[1:]
        is_good = colon in ("", ":")
    else:
        host, colon, port = place.partition(":")
        is_good = _HOST.fullmatch(host) is not None
    if not is_good:
        raise HostAddressError(
            url,
            f"{place!r} is not a host name of letters, digits and _ . - (an IPv6 address stands in "
            "brackets)",
        )
    if not colon:
        return host, None
    if _PORT.fullmatch(port) is None or not 1 <= int(port) <= 65_535:
        raise HostAddressError(url, f"{port!r} is not a port from 1 to 65535")
    return host, int(port)


def _read_directory(url: str, path: str) -> str | None:
    if path in ("", "/"):
        return None
    if not path.isprintable():
        raise HostAddressError(url, "its directory holds a character that cannot be printed")
    # As in the addresses of git: /~/project is below the home directory.
    return path[1:] if path.startswith("/~") else path
