"""A hook as it is declared, how it is run (a program or a Python function), and what it may
answer.
"""

import asyncio
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from quarterdeck.system.api import CommandSpec, EndingDeadlines
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.process import spawn
from quarterdeck.wire.decoders import convert, decode_json
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.policy.rules import Pattern
    from quarterdeck.system.process import LocalProcess

__all__ = [
    "ENTRY_POINTS",
    "Hook",
    "HookError",
    "HookReply",
    "HookRunError",
    "call_function",
    "load_function",
    "read_reply",
    "refusal",
    "run_command",
]


class HookError(QuarterdeckError):
    """A hook is declared wrongly."""


class HookRunError(QuarterdeckError):
    """A hook did not come to an answer; the text is for people, its work is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook of one point."""

    name: str
    """Its name for people: what it runs, shortened."""
    source: str
    """The file that declares it."""
    timeout: float
    """Seconds."""
    argv: tuple[str, ...] = ()
    """The program and its arguments; empty: it is a function."""
    target: str = ""
    """``module:function``, or the name of an installed one."""
    match: str | None = None
    """The rule of ``pattern``, as it was written."""
    pattern: "Pattern | None" = None
    """Only for calls that this holds for; None: for all."""

    def __str__(self) -> str:
        return repr(self.name)


class HookReply(Struct, frozen=True, kw_only=True):
    """What a hook answers; fields that are not known are ignored."""

    decision: Literal["allow", "ask", "deny"] | None = None
    reason: str = ""
    input: dict[str, Any] | None = None
    context: str = ""
    goes_on: bool = field(name="continue", default=False)


def read_reply(data: bytes) -> HookReply:
    """Read what a program printed; nothing at all is an answer without a word.

    Raises:
        HookRunError: it is not the JSON that we understand.
    """
    if not data.strip():
        return HookReply()
    try:
        return decode_json(data, HookReply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = data[:80].decode("utf-8", "replace")
        raise HookRunError(f"its output is not a valid answer: {error} ({shown!r})") from error


def refusal(hook: Hook, words: str) -> HookReply:
    """The answer of a program that left with code 2: it refuses, by what it wrote to stderr."""
    return HookReply(decision="deny", reason=words.strip() or f"{hook} refused without a reason")


ENTRY_POINTS = "quarterdeck.hooks"
"""The group of entry points by which installed packages offer functions."""


async def call_function(hook: Hook, facts: Mapping[str, Any], project: str) -> HookReply:
    """Call the function; what it returns is read as a program's answer would be.

    A function that does not end in time is left to itself, in a thread that holds up nothing.

    Raises:
        HookRunError: it cannot be found, raised, took too long, or returned no answer.
    """
    try:
        async with asyncio.timeout(hook.timeout):
            function = await _in_thread(load_function, hook.target, project)
            if inspect.iscoroutinefunction(function):
                answer = await function(dict(facts))
            else:
                answer = await _in_thread(function, dict(facts))
    except TimeoutError as error:
        raise HookRunError(f"it did not end within {hook.timeout:g} s") from error
    except Exception as error:
        if isinstance(error, HookRunError):
            raise
        raise HookRunError(f"it raised {type(error).__name__}: {error}") from error
    if answer is None:
        return HookReply()
    try:
        return convert(answer, HookReply)
    except (msgspec.ValidationError, RecursionError) as error:
        raise HookRunError(f"its return value is not a valid answer: {error}") from error


def load_function(target: str, project: str) -> Callable[..., Any]:
    """Find ``module:function``, ``file.py:function`` of the project, or an installed one's name.

    Raises:
        HookRunError: there is none.
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
        raise HookRunError(f"{target!r} cannot be loaded: {error}") from error
    if not callable(found):
        raise HookRunError(f"{target!r} is not a function")
    return found


def _import(module: str) -> Any:
    return importlib.import_module(module)


def _installed(name: str) -> Callable[..., Any]:
    from importlib.metadata import entry_points

    found = tuple(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise HookRunError(f"no installed package offers {name!r} as one of {ENTRY_POINTS!r}")
    return found[0].load()


def _from_file(file: str, project: str) -> Any:
    path = Path(project) / Path(file).expanduser()
    spec = spec_from_file_location(f"quarterdeck_hook_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{str(path)!r} is not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a thread that is not waited for: the loop waits for its own threads at its end."""
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
        with suppress(RuntimeError):  # the loop is closed: there is no waiter left
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, daemon=True, name="quarterdeck hook").start()
    return await future


_MOST_OUTPUT = 1_000_000
_MOST_WORDS = 10_000
"""Characters of standard error that are reported."""
_ENDING = EndingDeadlines(ask=0.0, terminate=0.5, kill=5.0)
_REFUSES = 2


@dataclass(slots=True)
class _Printed:
    data: bytearray
    total: int = 0


async def run_command(
    hook: Hook, facts: bytes, cwd: str, variables: Mapping[str, str]
) -> HookReply:
    """Run the program, in a process group of its own that is ended whatever happens.

    Raises:
        HookRunError: it could not be started, failed, took too long, or printed no answer.
    """
    command = CommandSpec(argv=hook.argv, cwd=cwd, env=variables)
    try:
        process = await spawn(command)
    except (OperatingSystemError, ValueError) as error:
        raise HookRunError(f"it could not be started: {error}") from error
    printed = _Printed(bytearray())
    try:
        async with asyncio.timeout(hook.timeout):
            await _talk(process, facts, printed)
            left = await process.wait()
    except TimeoutError as error:
        raise HookRunError(f"it did not end within {hook.timeout:g} s and was killed") from error
    finally:
        await process.end(_ENDING)
    words = process.stderr()[-_MOST_WORDS:]
    if left.code == _REFUSES:
        return refusal(hook, words)
    if left.code != 0:
        text = f": {words.strip()}" if words.strip() else ""
        raise HookRunError(f"it ended with {left}{text}")
    if printed.total > _MOST_OUTPUT:
        raise HookRunError(f"it printed {printed.total} bytes; the limit is {_MOST_OUTPUT}")
    return read_reply(bytes(printed.data))


async def _talk(process: "LocalProcess", facts: bytes, printed: _Printed) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_listen(process, printed))
        group.create_task(_tell(process, facts))


async def _tell(process: "LocalProcess", facts: bytes) -> None:
    try:
        await process.send(facts)
    except (LinkBrokenError, LinkClosedError):
        return  # one that does not want to know is fine
    process.close_input()


async def _listen(process: "LocalProcess", printed: _Printed) -> None:
    while data := await process.receive():
        printed.total += len(data)
        printed.data += data[: max(0, _MOST_OUTPUT - len(printed.data))]
