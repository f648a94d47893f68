"""What to do about an agent that did not start."""

import re
from collections.abc import Mapping

from quarterdeck.wire.errors import QuarterdeckError

from .description import Agent
from .errors import AgentMissing, LoginNeeded, OpenFailed

__all__ = ["login_hint"]

_ABOUT_LOGIN = re.compile(
    r"""(?xi)
    \blog(?:ged)?[ _-]?in\b | \bsign(?:ed)?[ _-]?in\b | \blogin\b | \bauth(?:enticat|oriz|\b)
    | \bunauthori[sz]ed\b | \b40[13]\b | \bapi[ _-]?key | \bcredential | \baccess[ _-]token
    | _API_KEY\b
    """
)


def login_hint(agent: Agent, environment: Mapping[str, str], error: QuarterdeckError) -> str | None:
    """How to log in, where that is the likely cause of a failed start; None where it is not.

    Blocks on files: whether they are there, never what they hold.
    """
    if not isinstance(error, OpenFailed) or isinstance(error, AgentMissing):
        return None
    if not isinstance(error, LoginNeeded) and not _ABOUT_LOGIN.search(str(error)):
        from .probe import login_state

        if login_state(agent.login, environment) != "no":
            return None
    ways = [agent.login.hint] if agent.login.hint else []
    if isinstance(error, LoginNeeded) and error.methods:
        ways.append(f"run `quarterdeck login {agent.name}`")
    if not ways:
        return None
    return f"If it is not logged in: {', or '.join(ways)}."
