"""TLS that is loaded when it is used: asyncio imports it for every program.

Loading the library and making its constants into enumerations is a tenth of the CPU time until our
agent answers an editor, and no connection is made before the first prompt. Here stands a module in
its place that loads it when something of it is asked for, which asyncio does for every connection.
Whoever imported it early keeps working with what stands in its place.
"""

import sys
from threading import RLock
from types import ModuleType
from typing import Any

__all__ = ["LateModule", "delay_tls"]

_NAMES = ("ssl", "asyncio.sslproto")
"""The second uses the first as soon as it is imported."""


class LateModule(ModuleType):
    """Stands for a module of the same name until one of its names is asked for.

    Safe in threads: the first that asks loads it, the others wait.
    """

    _lock = RLock()

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_module")
        if module is None:
            module = self._load()
        return getattr(module, name)

    def _load(self) -> ModuleType:
        from importlib import import_module

        with self._lock:
            if "_module" not in self.__dict__:
                if sys.modules.get(self.__name__) is self:
                    del sys.modules[self.__name__]
                self.__dict__["_module"] = import_module(self.__name__)
            return self.__dict__["_module"]


def delay_tls() -> None:
    """Let the next imports of TLS load nothing; no effect on what is imported already."""
    for name in _NAMES:
        if name not in sys.modules:
            sys.modules[name] = LateModule(name)
