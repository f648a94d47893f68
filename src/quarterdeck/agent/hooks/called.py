"""A hook that is a function of Python: called with the facts, in a thread unless it is async."""

import asyncio
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from .hook import Hook, HookFailed, Reply

__all__ = ["ENTRY_POINTS", "call_function", "load_function"]

ENTRY_POINTS = "quarterdeck.hooks"
"""The group of entry points by which installed packages offer functions."""


async def call_function(hook: Hook, facts: Mapping[str, Any], project: str) -> Reply:
    """Call the function; what it returns is read as a program's answer would be.

    A function that does not end in time is left to itself, in a thread that holds up nothing.

    Raises:
        HookFailed: it cannot be found, raised, took too long, or returned no answer.
    """
    try:
        async with asyncio.timeout(hook.timeout):
            function = await _in_thread(load_function, hook.target, project)
            if inspect.iscoroutinefunction(function):
                answer = await function(dict(facts))
            else:
                answer = await _in_thread(function, dict(facts))
    except TimeoutError as error:
        raise HookFailed(f"it did not end within {hook.timeout:g} s") from error
    except Exception as error:
        if isinstance(error, HookFailed):
            raise
        raise HookFailed(f"it raised {type(error).__name__}: {error}") from error
    if answer is None:
        return Reply()
    try:
        return msgspec.convert(answer, Reply)
    except (msgspec.ValidationError, RecursionError) as error:
        raise HookFailed(f"it returned no answer that is understood: {error}") from error


def load_function(target: str, project: str) -> Callable[..., Any]:
    """Find ``module:function``, ``file.py:function`` of the project, or an installed one's name.

    Raises:
        HookFailed: there is none.
    """
    module, colon, name = target.rpartition(":")
    try:
        if not colon:
            return _installed(target)
        owner = _from_file(module, project) if module.endswith(".py") else _import(module)
        found: Any = owner
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, OSError, SyntaxError, ValueError) as error:
        raise HookFailed(f"{target!r} cannot be loaded: {error}") from error
    if not callable(found):
        raise HookFailed(f"{target!r} is no function")
    return found


def _import(module: str) -> Any:
    return importlib.import_module(module)


def _installed(name: str) -> Callable[..., Any]:
    from importlib.metadata import entry_points

    found = tuple(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise HookFailed(f"no installed package offers {name!r} as one of {ENTRY_POINTS!r}")
    return found[0].load()


def _from_file(file: str, project: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    path = Path(project) / Path(file).expanduser()
    spec = spec_from_file_location(f"quarterdeck_hook_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{str(path)!r} is no Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a thread that nobody has to wait for: the loop's own are waited for at its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = function(*arguments)
        except StopIteration as stopped:  # no future takes one
            error = RuntimeError(f"StopIteration: {stopped}")
        except Exception as raised:
            error = raised
        except BaseException as raised:  # such as SystemExit: it ends the hook, not us
            error = RuntimeError(repr(raised))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, daemon=True, name="quarterdeck hook").start()
    return await future
