"""Which of two modes lets more pass, for agents that start others."""

from typing import get_args

from .modes import Answer, Deed, Mode, Sandbox, answer_of

__all__ = ["is_wider", "narrowed"]

_ORDER: dict[Answer, int] = {"deny": 0, "insist": 1, "ask": 2, "allow": 3}
_CAGED = Sandbox(in_force=True)


def is_wider(one: Mode, other: Mode) -> bool:
    """Whether a mode lets something pass that another does not; full-auto as in a sandbox."""
    deeds: tuple[Deed, ...] = get_args(Deed)
    return any(
        _ORDER[answer_of(one, deed, _CAGED)] > _ORDER[answer_of(other, deed, _CAGED)]
        for deed in deeds
    )


def narrowed(wanted: Mode, own: Mode) -> Mode:
    """The mode that is wanted, or one's own where that would be wider."""
    return own if is_wider(wanted, own) else wanted
