"""The fake agent that speaks ACP."""

import sys

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.child import Launch
from tests.support.driving import Rig

__all__ = ["RIGS", "acp_rig"]

_COMMAND = (sys.executable, "-m", "quarterdeck.testing.acp_agent")


def acp_rig(*words: str, name: str = "acp", **launch: object) -> Rig:
    """The fake agent, misbehaving as the words say."""
    how = Launch(agent="fake", command=(*_COMMAND, *words), **launch)  # pyright: ignore
    return Rig(name=name, make=lambda: AcpLink(how))


RIGS = [acp_rig()]
