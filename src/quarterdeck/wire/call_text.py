"""A tool call in words: what is done, to what, and how a command ended.

Titles come from agents and are not escaped here; the user of a text does that.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from msgspec import UNSET

from .content import TextContent
from .events import ToolCallEnded
from .tool_calls import ContentItem, ToolKind

__all__ = ["CallText", "describe_call", "describe_exit", "find_exit_status"]


class CallText(NamedTuple):
    """What a call does; the verb of a command is empty, as the command says it."""

    verb: str
    object: str

    @property
    def words(self) -> str:
        """Both."""
        return f"{self.verb} {self.object}".strip()


_FORMS: dict[str, tuple[str, str]] = {
    "apply": ("applied", "applying"),
    "ask": ("asked", "asking"),
    "copy": ("copied", "copying"),
    "create": ("created", "creating"),
    "delete": ("deleted", "deleting"),
    "edit": ("edited", "editing"),
    "fetch": ("fetched", "fetching"),
    "find": ("found", "finding"),
    "list": ("listed", "listing"),
    "load": ("loaded", "loading"),
    "modify": ("modified", "modifying"),
    "move": ("moved", "moving"),
    "open": ("opened", "opening"),
    "overwrite": ("overwrote", "overwriting"),
    "patch": ("patched", "patching"),
    "read": ("read", "reading"),
    "remove": ("removed", "removing"),
    "rename": ("renamed", "renaming"),
    "replace": ("replaced", "replacing"),
    "run": ("ran", "running"),
    "search": ("searched", "searching"),
    "start": ("started", "starting"),
    "stop": ("stopped", "stopping"),
    "update": ("updated", "updating"),
    "use": ("used", "using"),
    "view": ("viewed", "viewing"),
    "wait": ("waited", "waiting"),
    "watch": ("watched", "watching"),
    "write": ("wrote", "writing"),
}
"""Verbs that titles begin with, as past and as present."""
_BY_KIND: dict[str, str] = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "fetch": "fetch",
}
_EXIT = re.compile(r"\A\s*(?:Error: )?Exit code:? (-?\d+)\b", re.IGNORECASE)


def describe_call(
    title: str, *, name: str | None = None, kind: ToolKind | str = "other", is_over: bool = True
) -> CallText:
    """The words of a call from what its agent says of it.

    A verb at the beginning of the title counts; else the kind says the verb. A tool of no known
    kind keeps its name before its title, unless that is there already.
    """
    first, _, rest = title.strip().partition(" ")
    verb = first.rstrip(":").lower()
    is_verb = first[:1].isupper() or (rest != "" and verb == _BY_KIND.get(kind))
    if is_verb and verb in _FORMS and (rest or verb == kind):
        return CallText(_form(verb, is_over), _bare(rest))
    if kind in _BY_KIND:
        object_ = _without(name, title.strip())
        return CallText(_form(_BY_KIND[kind], is_over), _bare(object_))
    if kind == "execute" or not name:
        return CallText("", _bare(title.strip()) or (name or ""))
    rest = _without(name, title.strip())
    shown = name if "__" in name else name.replace("_", " ")
    return CallText("", f"{shown} {rest}".strip() if rest != name else shown)


def _form(verb: str, is_over: bool) -> str:
    past, present = _FORMS[verb]
    return past if is_over else present


def _bare(text: str) -> str:
    """Without the backquotes that some agents put around all of it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == "`" and "`" not in text[1:-1]
    return text[1:-1] if is_quoted else text


def _without(name: str | None, title: str) -> str:
    """A title that does not begin with the tool's name."""
    rest = title.removeprefix(name) if name else title
    return rest.lstrip(": ") if rest != title and not rest[:1].isalnum() else title


def find_exit_status(ended: ToolCallEnded) -> str | None:
    """The exit code or signal that the end of a call reports; None: it reports none."""
    raw = ended.raw_output
    if isinstance(raw, Mapping):
        facts = cast("Mapping[str, Any]", raw)
        for field in ("signal", "exit_code", "exitCode"):
            found = facts.get(field)
            if isinstance(found, str | int) and not isinstance(found, bool) and found != "":
                return str(found)
    if ended.status == "failed" and ended.content is not UNSET:
        for item in ended.content:
            if isinstance(item, ContentItem) and isinstance(item.content, TextContent):
                match = _EXIT.match(item.content.text[:200])
                return match[1] if match else None
    return None


def describe_exit(status: str | None) -> str:
    """How a command ended that did not end well: ``exit 1``, ``SIGTERM``; else nothing."""
    if status is None or status == "0":
        return ""
    return f"exit {status}" if status.lstrip("-").isdigit() else status
