"""The fake agent that speaks ACP."""

import sys
from typing import Any

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_process import Launch
from tests.support.driver_rig import Rig

__all__ = ["RIGS", "acp_rig"]

_COMMAND = (sys.executable, "-m", "quarterdeck.testing.acp_agent")


def acp_rig(*words: str, login: str | None = None, **launch: Any) -> Rig:
    """The fake agent, misbehaving as the words say."""
    how = Launch(agent="fake", command=(*_COMMAND, *words), **launch)
    return Rig(name="acp", make=lambda: AcpLink(how, login=login))


RIGS = [acp_rig()]
