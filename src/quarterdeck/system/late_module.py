"""Modules that are loaded when they are used, where libraries import them for every program.

asyncio imports TLS: loading it and making its constants into enumerations is a tenth of the CPU
time until our agent answers an editor, and no connection is made before the first prompt. Textual
imports widgets for the names of their types. Here a module stands in the place of such a one and
loads it when something of it is asked for. Whoever imported it early keeps working with what stands
in its place.
"""

import sys
from threading import RLock
from types import ModuleType
from typing import Any

__all__ = ["TLS", "LateModule", "delay_modules"]

TLS = ("ssl", "asyncio.sslproto")
"""The second uses the first as soon as it is imported."""


class LateModule(ModuleType):
    """Stands for a module of the same name, no package, until one of its names is asked for.

    Safe in threads: the first that asks loads it, the others wait.
    """

    _lock = RLock()

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # every "from … import" asks for it
            raise AttributeError(name)
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


def delay_modules(*names: str) -> None:
    """Let the next imports of these load nothing; no effect on what is imported already."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = LateModule(name)
