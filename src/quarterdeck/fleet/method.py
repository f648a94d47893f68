"""What makes a method of the fleet a request on the socket: a mark on its declaration."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["FLEET_METHODS", "FleetMethod", "fleet_method"]

F = TypeVar("F", bound=Callable[..., Any])


class FleetMethod(NamedTuple):
    """A method of the fleet that is one request and one answer."""

    declaration: Callable[..., Any]
    changes: bool
    """It is carried through even if who asked for it is gone."""


FLEET_METHODS: dict[str, FleetMethod] = {}
"""Those that are marked below, by name, in the order in which they are declared."""


def fleet_method(*, changes: bool = False) -> Callable[[F], F]:
    """Mark a method as one request and one answer; the function itself stays as it is."""

    def mark(declaration: F) -> F:
        FLEET_METHODS[declaration.__name__] = FleetMethod(declaration, changes)
        return declaration

    return mark
