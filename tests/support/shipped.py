"""Rigs by the files of agents that ship: their words and permissions, a fake as the program."""

import sys
from dataclasses import replace
from functools import partial

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.daemon.codex.link import CodexLink
from quarterdeck.drivers.daemon.opencode.link import OpencodeLink
from quarterdeck.drivers.pipe.oneshot_link import OneshotLink
from tests.drivers.rigs import daemons, oneshot
from tests.support.driver_rig import Rig

__all__ = ["shipped_daemon", "shipped_pipe"]


def shipped_pipe(agent: str) -> Rig:
    """An agent that runs once for each turn."""
    launch = make_launch(find_agent(agent), "pipe")
    fake = (sys.executable, "-m", "quarterdeck.testing.oneshot_cli", "--as", agent)
    launch = replace(launch, command=(*fake, *launch.command[1:]))
    make = partial(OneshotLink, launch, oneshot.dialect_of(launch))
    return Rig(name=f"{agent}-pipe", make=make)


def shipped_daemon(agent: str) -> Rig:
    """An agent that is a server."""
    fake, make = {
        "codex": (daemons.CODEX.command, CodexLink),
        "opencode": (daemons.OPENCODE.command, OpencodeLink),
    }[agent]
    launch = replace(make_launch(find_agent(agent), "daemon"), command=fake)
    return Rig(name=f"{agent}-daemon", make=partial(make, launch))
