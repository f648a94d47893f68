"""Agents that are servers: ``codex app-server`` over JSON-RPC, ``opencode serve`` over HTTP.

Each may be started for a session, or run already and be shared (``running_server``).

In ``codex`` and ``opencode``, ``link`` uses the parts: ``events`` turns what a server sends into
events and is pure, ``requests`` answers what it asks, ``params`` works out what the options of a
session mean before anything starts.
"""

import os
from collections.abc import Sequence

from ..agent_process import Launch
from ..driver import DriverSessionOptions
from ..errors import OpenFailedError, UnsupportedError

__all__ = ["check_attached", "password_of"]


def check_attached(launch: Launch, opening: DriverSessionOptions, fixed: Sequence[str]) -> None:
    """Make sure that the opening sets none of these options, which are fixed by now.

    The variable that holds the password may be set: it is for us.

    Raises:
        UnsupportedError: one is set.
    """
    for option in fixed:
        value = getattr(opening if option == "arguments" else opening.options, option)
        if option == "environment":
            value = set(value) - {launch.password}
        if value:
            what = f"accept the option {option!r} for a server that runs already"
            raise UnsupportedError(launch.agent, "daemon", what)


def password_of(launch: Launch, opening: DriverSessionOptions) -> str:
    """The password of the server at ``launch.url``; empty if it has none.

    Raises:
        OpenFailedError: the variable that should hold it is not set.
    """
    name = launch.password
    if not name:
        return ""
    found = {**os.environ, **launch.environment, **opening.options.variables}.get(name)
    if not found:
        text = f"{launch.agent}: the variable {name!r}, which holds the password of "
        raise OpenFailedError(f"{text}{launch.url!r}, is not set.")
    return found
