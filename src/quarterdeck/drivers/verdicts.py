"""What an agent asks leave for, as policy sees it, and what it is told."""

import asyncio
from collections.abc import Sequence
from typing import Any

from quarterdeck.policy.call import Call
from quarterdeck.policy.foreign import Surroundings, call_from_tool
from quarterdeck.policy.gate import Permitted, Refused
from quarterdeck.policy.lookup import look_up
from quarterdeck.policy.options import choice_of
from quarterdeck.system.local_disk import LocalDisk
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.toolcalls import ToolKind

from .link import Verdict

__all__ = ["call_of", "looked_up_call", "verdict_of"]


async def call_of(question: PermissionAsked, around: Surroundings) -> Call:
    """The call that an agent asks about."""
    return await asyncio.to_thread(
        looked_up_call,
        question.name,
        question.kind,
        question.raw_input,
        [location.path for location in question.locations],
        title=question.title,
        around=around,
    )


def looked_up_call(
    name: str | None,
    kind: ToolKind,
    raw_input: Any,
    locations: Sequence[str] = (),
    *,
    title: str = "",
    around: Surroundings,
) -> Call:
    """Make a call from what an agent says, with what our disk says about its command. Blocks.

    The agent's own ``PATH`` may differ from ours; ours is the best guess.
    """
    call = call_from_tool(name, kind, raw_input, locations, title=title, around=around)
    return look_up(call, LocalDisk())


def verdict_of(decided: Permitted | Refused, theirs: Sequence[PermissionOption]) -> Verdict:
    """What to tell the agent, in its own options where it offered any."""
    if isinstance(decided, Permitted):
        option = _option(theirs, decided.option, "allow_once", "allow_always")
        return Verdict(allowed=option is not None or not theirs, option=option)
    if decided.cancelled:
        return Verdict(allowed=False, cancelled=True, told=decided.told)
    option = _option(theirs, decided.option, "reject_once", "reject_always")
    return Verdict(allowed=False, option=option, told=decided.told)


def _option(theirs: Sequence[PermissionOption], chosen: str | None, *kinds: str) -> str | None:
    """The agent's own option that says what was decided: the chosen one, else the mildest."""
    effect = "allow" if kinds[0].startswith("allow") else "deny"
    known = [option.option_id for option in theirs]
    if chosen in known and choice_of(theirs, chosen).effect == effect:
        return chosen
    for kind in kinds:
        for option in theirs:
            if option.kind == kind:
                return option.option_id
    return None
