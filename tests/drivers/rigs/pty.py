"""The rig for an agent that can only be used in a terminal."""

import sys
from dataclasses import replace
from functools import partial
from typing import Any

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.pty.link import PtyLink
from tests.support.driver_rig import Rig

__all__ = ["LAUNCH", "RIGS", "link"]

LAUNCH = Launch(
    agent="fake",
    command=(sys.executable, "-m", "quarterdeck.testing.tui"),
    dialect="fake",
    words={
        "session": ("--session-id", "{}"),
        "resume": ("--resume", "{}"),
        "model": ("--model", "{}"),
    },
)


def link(**changes: Any) -> PtyLink:
    """A link to the fake; ``changes`` are fields of its launch."""
    return PtyLink(replace(LAUNCH, **changes))


RIGS = [Rig(name="fake-pty", make=partial(link))]
