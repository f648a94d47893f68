"""What an agent asks leave for, as policy sees it, and what it is told."""

import asyncio
from collections.abc import Sequence

from quarterdeck.policy.call import Call
from quarterdeck.policy.foreign import Surroundings, call_from_tool
from quarterdeck.policy.gate import Permitted, Refused
from quarterdeck.policy.options import choice_of
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption

from .link import Verdict

__all__ = ["call_of", "verdict_of"]


async def call_of(question: PermissionAsked, around: Surroundings) -> Call:
    """The call that an agent asks about."""
    return await asyncio.to_thread(
        call_from_tool,
        question.name,
        question.kind,
        question.raw_input,
        [location.path for location in question.locations],
        title=question.title,
        around=around,
    )


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
