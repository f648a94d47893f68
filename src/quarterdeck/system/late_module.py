"""Modules that are loaded when they are used, where libraries import them for every program.

asyncio imports TLS: loading it and making its constants into enumerations is a tenth of the CPU
time until our agent answers an editor, and no connection is made before the first prompt. What the
standard library and msgspec import for error messages, debugging and older versions of Python is
another tenth. Textual imports widgets for the names of their types.

Here a module stands in the place of such a one and loads it when something of it is asked for.
Whoever imported it early keeps working with what stands in its place. ``from module import name``
asks at once: of functions that are named beforehand it gets one that loads the module when called.
"""

import os
import sys
from collections.abc import Callable, Mapping
from threading import RLock
from types import ModuleType
from typing import Any, NotRequired, Required

__all__ = ["LateModule", "delay_functions", "delay_modules", "delay_rarely_used", "delay_tls"]

_TLS = ("ssl", "asyncio.sslproto")
"""The second uses the first as soon as it is imported."""
_RARELY_USED = (
    *("base64", "binascii", "inspect", "ipaddress", "linecache", "locale", "textwrap"),
    *("msgspec.inspect", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml"),
)
"""What asyncio, logging, msgspec, subprocess and urllib import, and we for images."""


class LateModule(ModuleType):
    """Stands for a module of the same name until one of its names is asked for.

    Safe in threads: the first that asks loads it, the others wait.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["__late_lock__"] = RLock()

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # every "from … import" asks for it
            raise AttributeError(name)
        return getattr(_load(self), name)


def _load(late: LateModule) -> ModuleType:
    """The module itself."""
    held = vars(late)
    if "__late_module__" not in held:
        from importlib import import_module

        with held["__late_lock__"]:
            if "__late_module__" not in held:
                if sys.modules.get(late.__name__) is late:
                    del sys.modules[late.__name__]
                held["__late_module__"] = import_module(late.__name__)
    return held["__late_module__"]


def delay_modules(*names: str) -> None:
    """Let the next imports of these load nothing; no effect on what is imported already."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = LateModule(name)


def delay_functions(module: str, *names: str) -> None:
    """Let the next imports of a module, and of these functions from it, load nothing."""
    delay_modules(module)
    late = sys.modules[module]
    if isinstance(late, LateModule):
        vars(late).update({name: _late_function(late, name) for name in names})


def _late_function(late: LateModule, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(_load(late), name)(*arguments, **named)

    return call


def delay_tls() -> None:
    """Let asyncio be imported, and connections be made that are not encrypted, without TLS."""
    delay_modules(*_TLS)
    # asyncio asks this of every socket that it connects.
    _provide("ssl", {"SSLSocket": _EncryptedSocket("SSLSocket", (), {})})


class _EncryptedSocket(type):
    """What stands for the type of encrypted sockets: there are none until TLS is loaded."""

    def __instancecheck__(cls, instance: object) -> bool:
        module: Any = sys.modules["ssl"]
        return not isinstance(module, LateModule) and isinstance(instance, module.SSLSocket)


def delay_rarely_used() -> None:
    """Let asyncio, pathlib and msgspec be imported without what they hardly ever use."""
    delay_modules(*_RARELY_USED)
    delay_functions("copy", "copy")
    delay_functions("traceback", "extract_stack")
    # Of these msgspec wants names that Python has by now.
    delay_functions("typing_extensions", "get_type_hints")
    _provide("typing_extensions", {"NotRequired": NotRequired, "Required": Required})
    if hasattr(os, "uname"):
        # uuid, which msgspec imports, only asks whether this is AIX.
        delay_modules("platform")
        _provide("platform", {"system": lambda: os.uname().sysname})


def _provide(module: str, names: Mapping[str, Any]) -> None:
    """Let these names of a module be asked for without loading it."""
    late = sys.modules[module]
    if isinstance(late, LateModule):
        vars(late).update(names)
