"""The rig for Claude Code over its pipe, with the words of its file."""

import sys
from dataclasses import replace
from functools import partial
from typing import Any

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.pipe.claude.link import ClaudeLink
from tests.support.driver_rig import Rig

__all__ = ["LAUNCH", "RIGS", "link"]

LAUNCH = replace(
    make_launch(find_agent("claude"), "pipe"),
    command=(sys.executable, "-m", "quarterdeck.testing.claude_cli"),
)


def link(**changes: Any) -> ClaudeLink:
    """A link to the fake; ``changes`` are fields of its launch."""
    return ClaudeLink(replace(LAUNCH, **changes))


RIGS = [Rig(name="claude-pipe", make=partial(link))]
