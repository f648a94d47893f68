"""Which addresses may be asked, and a connection to exactly the address that was checked.

A name is looked up once. Every address it has must be allowed, and the connection is made to one
of these addresses, not to the name: a second lookup could answer differently.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from quarterdeck.models.http1 import tls_context
from quarterdeck.policy.domains import Target, address_class

from ..tool import ToolError

__all__ = ["Resolve", "Streams", "check_name", "connect", "resolve_by_system"]

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses of a host; raises OSError if it has none."""
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_HEAD_LIMIT = 65_536
_PATIENCE = 5.0
"""Seconds for one address, if there are more to try."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Look a host up as every program of this machine does."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_name(target: Target, *, allow_private: bool) -> None:
    """Refuse a host that is not public by its text alone.

    Raises:
        ToolError: It is not, and that was not allowed.
    """
    if target.address_class != "public" and not allow_private:
        raise _refusal(target.host, target.host, target.address_class)


async def connect(target: Target, resolve: Resolve, *, allow_private: bool) -> Streams:
    """Connect to a checked address of the target.

    Raises:
        ToolError: An address is not allowed, or nobody answers there.
    """
    check_name(target, allow_private=allow_private)
    try:
        addresses = await resolve(target.host, target.port)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"The host {target.host!r} cannot be found: {error}.") from error
    if not addresses:
        raise ToolError(f"The host {target.host!r} has no address.")
    for address in addresses:
        where = address_class(address)
        if where != "public" and not allow_private:
            raise _refusal(target.host, address, where)
    return await _connect_one(target, addresses)


async def _connect_one(target: Target, addresses: Sequence[str]) -> Streams:
    context = await asyncio.to_thread(tls_context) if target.scheme == "https" else None
    problem = "no address"
    for number, address in enumerate(addresses, start=1):
        patience = _PATIENCE if number < len(addresses) else None
        try:
            async with asyncio.timeout(patience):
                return await asyncio.open_connection(
                    address,
                    target.port,
                    limit=_HEAD_LIMIT,
                    ssl=context,
                    server_hostname=target.host if context else None,
                    flags=socket.AI_NUMERICHOST,
                )
        except TimeoutError:
            problem = f"no answer within {_PATIENCE:g} s"
        except ssl.SSLCertVerificationError as error:
            problem = f"its certificate is not trusted: {error.verify_message}"
        except OSError as error:
            problem = error.strerror or str(error)
    raise ToolError(f"No connection to {target}: {problem}.")


def _refusal(host: str, address: str, where: str) -> ToolError:
    leads = "" if host == address else f" leads to {address}, which"
    return ToolError(
        f"{host!r}{leads} is a {where} address; fetch is not allowed to ask those. "
        "The person can allow it with the setting tools.fetch.allow_private."
    )
