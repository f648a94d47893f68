"""Quarterdeck: command many coding agents, of any make, from one place."""

# Not from typing, which the smallest of our programs do without.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from quarterdeck.drivers.connect import connect

__all__ = ["__version__", "connect"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name != "connect":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from quarterdeck.drivers.connect import connect

    return connect
