"""Hosts of addresses, and patterns over them. No name is looked up here.

``example.com`` is that host and no other, ``*.example.com`` its subdomains. Without a port a
pattern means the scheme's own; ``:8080`` means that port, ``:*`` any. A deny or ask rule is
broad: any port, and ``*.example.com`` holds for ``example.com`` too.

A name can lead to any address. The code that opens the connection classifies the address it got
with ``address_class`` and decides every redirection anew.
"""

import ipaddress
import re
from functools import lru_cache
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

__all__ = [
    "AddressClass",
    "HostPattern",
    "UrlTarget",
    "address_class",
    "parse_host",
    "parse_target",
]

AddressClass: TypeAlias = Literal[
    "public", "loopback", "private", "link-local", "metadata", "reserved"
]
"""Where an address leads. ``metadata``: where clouds hand out credentials."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST_URL = 8192
_LONGEST_HOST = 253
_METADATA = frozenset(
    (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",  # Azure's, which looks like any public address
        "fd00:ec2::254",
    )
)
_METADATA_NAMES = frozenset(("metadata.google.internal", "metadata", "instance-data"))
_INNER_SUFFIXES = (".local", ".internal", ".lan", ".home.arpa", ".intranet", ".corp", ".home")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\^`{}|<>\"]")
_NUMERIC_LABEL = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)


class UrlTarget(Struct, frozen=True, kw_only=True):
    """The server of an address: an ASCII host in lower case or an IP literal, and the port."""

    scheme: str
    host: str
    port: int
    address_class: AddressClass

    @property
    def has_default_port(self) -> bool:
        """Whether the port is the scheme's own."""
        return _DEFAULT_PORTS.get(self.scheme) == self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.has_default_port else f"{host}:{self.port}"


class HostPattern(Struct, frozen=True, kw_only=True):
    """Which hosts a rule means; ``port`` None is the scheme's own, 0 any."""

    host: str
    subdomains: bool = False
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = {None: "", 0: ":*"}.get(self.port, f":{self.port}")
        return ("*." if self.subdomains else "") + host + port

    def matches(self, target: UrlTarget) -> bool:
        """Say whether the target is meant, exactly; what an allow rule needs."""
        return self._host_fits(target.host) and (
            target.has_default_port if self.port is None else self.port in (0, target.port)
        )

    def matches_broadly(self, target: UrlTarget) -> bool:
        """Say whether the target may be meant; what a deny rule needs."""
        return self._host_fits(target.host) or target.host == self.host

    def _host_fits(self, host: str) -> bool:
        if self.subdomains:
            return host.endswith("." + self.host)
        return host == self.host


@lru_cache(maxsize=256)
def parse_target(url: str) -> UrlTarget | str:
    """Read the server of a URL, or say why that is not certain.

    Names a person could misread are not certain: user information before the host
    (``https://good.com@evil.com``), escapes, backslashes, control characters.
    """
    if len(url) > _LONGEST_URL:
        return "the address is too long"
    if _FORBIDDEN.search(url):
        return "the address has characters that programs read differently"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "the address cannot be read"
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        return f"the scheme {parts.scheme!r} is not http or https"
    if "@" in parts.netloc:
        return "the address has a user name before the host"
    host = parse_host(parts.hostname or "")
    if host is None:
        return "the address's host cannot be read"
    return UrlTarget(
        scheme=scheme,
        host=host,
        port=_DEFAULT_PORTS[scheme] if port is None else port,
        address_class=address_class(host),
    )


def parse_host(text: str) -> str | None:
    """Return a host in its one form: ASCII lower case, no final dot, IP numbers spelt out.

    None when it is no host.
    """
    host = text.strip("[]").lower()
    if not 0 < len(host) <= _LONGEST_HOST or "%" in host:
        return None
    if ":" in host:
        return _ip_literal(host)
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return None
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        return _old_ipv4(labels)
    if not all(len(x) < 64 and _LABEL.fullmatch(x) for x in labels):
        return None
    return host


def address_class(host: str) -> AddressClass:
    """Say where a host or IP literal leads, as far as its text shows.

    A name that is not known to be local counts as public.
    """
    if (ip := _ip(host)) is not None:
        return _ip_class(ip)
    if host in _METADATA_NAMES or host.endswith(".metadata.google.internal"):
        return "metadata"
    if host == "localhost" or host.endswith((".localhost", ".localdomain")):
        return "loopback"
    if "." not in host or host.endswith(_INNER_SUFFIXES):
        return "private"
    return "public"


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _ip_class(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> AddressClass:
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or _nat64(ip)
        if inner is not None:
            return _ip_class(inner)
    if str(ip) in _METADATA:
        return "metadata"
    if ip.is_loopback or ip.is_unspecified:
        return "loopback"
    if ip.is_link_local:
        return "link-local"
    if ip.is_multicast or ip.is_reserved:
        return "reserved"
    return "public" if ip.is_global else "private"


def _nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if ip in ipaddress.IPv6Network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return None


def _ip_literal(host: str) -> str | None:
    ip = _ip(host)
    return None if ip is None else str(ip)


def _old_ipv4(labels: list[str]) -> str | None:
    """Read the forms of IPv4 that C libraries take: ``127.1``, ``0x7f000001``, ``0177.0.0.1``."""
    if len(labels) > 4 or not all(_NUMERIC_LABEL.fullmatch(label) for label in labels):
        return None
    try:
        numbers = [_number(label) for label in labels]
    except ValueError:
        return None
    *heads, last = numbers
    if any(head > 255 for head in heads) or last >= 256 ** (5 - len(numbers)):
        return None
    value = last
    for index, head in enumerate(heads):
        value += head << (8 * (3 - index))
    return str(ipaddress.IPv4Address(value))


def _number(label: str) -> int:
    if label.lower().startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8 if len(label) > 1 and label.startswith("0") else 10)
