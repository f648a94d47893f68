"""Exit codes of a headless run; documented in docs/headless.md."""

from quarterdeck.wire.events import GoalEnd, TurnEnd, TurnEnded

__all__ = [
    "CANCELLED",
    "DENIED",
    "DIVERGED",
    "ERROR",
    "LIMIT",
    "OK",
    "REFUSAL",
    "TOKENS",
    "UNREACHED",
    "VIOLATED",
    "exit_code",
    "goal_code",
]

OK = 0
ERROR = 1
TOKENS = 2
REFUSAL = 3
DENIED = 4
CANCELLED = 5
UNREACHED = 6
LIMIT = 7
VIOLATED = 8
DIVERGED = 9

_CODES: dict[TurnEnd, int] = {
    "end_turn": OK,
    "max_tokens": TOKENS,
    "max_turn_requests": LIMIT,
    "refusal": REFUSAL,
    "cancelled": CANCELLED,
    "failed": ERROR,
}


_GOAL_CODES: dict[GoalEnd, int] = {
    "reached": OK,
    "limit": LIMIT,
    "stuck": UNREACHED,
    "refused": REFUSAL,
}


def goal_code(how: GoalEnd, *, was_denied: bool) -> int:
    """The code for how a goal ended; one that was not reached may have lacked a refused call."""
    code = _GOAL_CODES[how]
    return DENIED if was_denied and code != OK else code


def exit_code(
    ended: TurnEnded,
    *,
    was_denied: bool,
    was_violated: bool = False,
    was_interrupted: bool = False,
) -> int:
    """The code for how a turn ended; a call refused for lack of a person to ask is not success.

    A call that an agent made without permission takes precedence. Some agents end their turn as
    cancelled or refused when a call of theirs is refused.
    """
    if was_violated:
        return VIOLATED
    code = _CODES[ended.stop]
    may_be_denial = code in (OK, REFUSAL) or (code == CANCELLED and not was_interrupted)
    return DENIED if was_denied and may_be_denial else code
