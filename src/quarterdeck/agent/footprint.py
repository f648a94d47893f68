"""What a call reads and changes, so that calls of one step that touch the same take turns."""

from msgspec import Struct

from quarterdeck.policy.call import Access, Call
from quarterdeck.policy.modes import ActionKind
from quarterdeck.policy.paths import is_below

__all__ = ["EVERYTHING", "Footprint", "footprint_of"]

_READING: frozenset[ActionKind] = frozenset(("run reading", "run reading outside", "read"))
_LONG = 1000
"""Characters of a command beyond which it is not read here: that takes time."""


class Footprint(Struct, frozen=True):
    """The paths that a call reads and changes; a directory stands for all that is below."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def meets(self, other: "Footprint") -> bool:
        """Whether one of them changes what the other reads or changes."""
        return _overlap(self.writes, other.reads + other.writes) or _overlap(
            other.writes, self.reads
        )


EVERYTHING = Footprint(writes=("/",))
"""Of a call of which nothing is known."""


def footprint_of(call: Call) -> Footprint:
    """What the call touches. A tool that names neither path nor command touches nothing here."""
    if call.command is not None:
        return _of_command(call, call.command)
    return Footprint(reads=_paths(call, "read"), writes=_paths(call, "write"))


def _of_command(call: Call, line: str) -> Footprint:
    from quarterdeck.policy.call_parts import parts_of

    if len(line) > _LONG or any(part.action not in _READING for part in parts_of(call)):
        return EVERYTHING
    return Footprint(reads=("/",))


def _paths(call: Call, access: Access) -> tuple[str, ...]:
    return tuple(use.resolved for use in call.paths if use.access == access)


def _overlap(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(is_below(a, (b,)) or is_below(b, (a,)) for a in some for b in others)
