"""Logging in: the ways that an agent offers, and the failure that names them."""

from collections.abc import Sequence
from typing import Any, cast

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import RpcError

from ..child import Launch
from ..errors import LoginMethod, LoginNeeded

__all__ = ["TERMINAL_LOGIN", "Greeting", "OfferedLogin", "login_methods", "login_needed"]

TERMINAL_LOGIN: dict[str, Any] = {"terminal-auth": True}
"""What a client's capabilities say to be told of commands for a terminal in ``_meta``."""


class OfferedLogin(acp.AuthMethod, frozen=True, kw_only=True):
    """A way to log in, with what drafts of the protocol add to it."""

    vars: Any = None
    """Of the type ``env_var``: the variables, as names or as objects with a ``name``."""
    link: Any = None


class Greeting(acp.InitializeResponse, frozen=True, kw_only=True):
    """The answer to ``initialize``."""

    auth_methods: tuple[OfferedLogin, ...] = ()


def login_methods(launch: Launch, offered: Sequence[OfferedLogin]) -> tuple[LoginMethod, ...]:
    """The ways to log in: by the agent when told to, by a command in a terminal, by variables."""
    return tuple(_method(launch, method) for method in offered)


def login_needed(launch: Launch, error: RpcError, offered: Sequence[OfferedLogin]) -> LoginNeeded:
    """The failure of an agent that wants to be logged in first."""
    reason = f"{launch.agent} wants to be logged in: {error.told}."
    return LoginNeeded(reason, login_methods(launch, offered))


def _method(launch: Launch, method: OfferedLogin) -> LoginMethod:
    command = _command(launch, method)
    variables = _variables(method)
    return LoginMethod(
        id=method.id,
        name=method.name,
        description=method.description,
        kind="terminal" if command else "variables" if variables else "agent",
        command=command,
        variables=variables,
        link=method.link if isinstance(method.link, str) else None,
    )


def _command(launch: Launch, method: OfferedLogin) -> tuple[str, ...] | None:
    """The agent's own program with the words of this login, its variables set before it."""
    told = _object((method.meta or {}).get("terminal-auth"))
    if method.type == "terminal":
        program, words = launch.command, method.args
        variables = {**launch.environment, **method.env}
    elif isinstance(told.get("command"), str):
        program, words = (told["command"],), _texts(told.get("args"))
        own = {k: v for k, v in _object(told.get("env")).items() if isinstance(v, str)}
        variables = {**launch.environment, **own}
    else:
        return None
    settings = ("env", *(f"{name}={value}" for name, value in variables.items()))
    return (*(settings if variables else ()), *program, *words)


def _variables(method: OfferedLogin) -> tuple[str, ...]:
    told: Any = method.vars
    if method.type != "env_var" or not isinstance(told, list):
        return ()
    found: list[str] = []
    for one in cast("list[Any]", told):
        fields = _object(one)
        name = one if isinstance(one, str) else fields.get("name")
        if isinstance(name, str) and fields.get("optional") is not True:
            found.append(name)
    return tuple(found)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(item for item in items if isinstance(item, str))
