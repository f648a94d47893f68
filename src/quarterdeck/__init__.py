"""Quarterdeck: command many coding agents, from any vendor, from one place."""

from quarterdeck.version import __version__

# Not from typing, which the smallest of our programs do without.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from quarterdeck.drivers.connect import connect
    from quarterdeck.drivers.login import log_in, login_methods

__all__ = ["__version__", "connect", "log_in", "login_methods"]

_HOMES = {"connect": "connect", "log_in": "login", "login_methods": "login"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"quarterdeck.drivers.{_HOMES[name]}"), name)
