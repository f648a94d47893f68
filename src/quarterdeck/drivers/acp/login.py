"""Logging in: the ways that an agent offers, and the failure that names them."""

from collections.abc import Sequence

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import RpcError

from ..child import Launch
from ..errors import LoginMethod, LoginNeeded

__all__ = ["login_methods", "login_needed"]


def login_methods(launch: Launch, offered: Sequence[acp.AuthMethod]) -> tuple[LoginMethod, ...]:
    """The ways to log in: by the agent itself when told to, or by a command in a terminal."""
    return tuple(
        LoginMethod(
            id=method.id,
            name=method.name,
            description=method.description,
            command=_command(launch, method) if method.type == "terminal" else None,
        )
        for method in offered
    )


def login_needed(launch: Launch, error: RpcError, offered: Sequence[acp.AuthMethod]) -> LoginNeeded:
    """The failure of an agent that wants to be logged in first."""
    reason = f"{launch.agent} wants to be logged in: {error.message}."
    return LoginNeeded(reason, login_methods(launch, offered))


def _command(launch: Launch, method: acp.AuthMethod) -> tuple[str, ...]:
    """The agent's own program with the words of this login, its variables set before it."""
    variables = {**launch.environment, **method.env}
    settings = ("env", *(f"{name}={value}" for name, value in variables.items()))
    return (*(settings if variables else ()), *launch.command, *method.args)
