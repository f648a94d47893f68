"""Reading script files, strictly.

Whatever the format does not know is an error that names the script, the scene and the key.
"""

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec

from quarterdeck.models.script.format import Scene, Script, ScriptError
from quarterdeck.wire.errors import NewerVersion
from quarterdeck.wire.values import Value

__all__ = ["REQUEST", "TEMPLATE", "VARIABLES", "load_script", "parse_script", "shipped_scripts"]

VERSION = 1
TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
"""A value that the player fills in; anything else in double braces stays as it is."""
REQUEST = re.compile(r"\breq_\w+")
"""The id of a question that another agent asks."""
VARIABLES = frozenset(
    ("agent", "args", "call", "cwd", "images", "last_tool_result", "model", "n", "prompt")
) | {"request", "scene", "turn"}
_PART_KEYS = ("text", "thinking", "tool", "call", "sleep")

_PACKAGE = "quarterdeck.models.script"
_T = TypeVar("_T")


class _Head(Value, frozen=True, kw_only=True):
    """A script file before its scenes are read, so that errors can name the scene."""

    scenes: dict[str, Any]
    version: int = VERSION
    play: Literal["scenes", "sequence"] = "scenes"
    default: str | None = None


def shipped_scripts() -> tuple[str, ...]:
    """The names of the scripts that come with the package. Reads a directory."""
    folder = resources.files(_PACKAGE) / "data"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def load_script(reference: str | Path) -> Script:
    """Read a script that comes with the package by its name, or any ``.toml``/``.json`` file.

    Reads a file; in a coroutine, call it in a thread.

    Raises:
        ScriptError: there is no such script, or it is not valid.
    """
    path = Path(reference)
    if path.suffix not in (".toml", ".json"):
        known = shipped_scripts()
        if str(reference) not in known:
            raise ScriptError(
                f"There is no script {str(reference)!r}. Name one of {', '.join(known)}, "
                f"or a file that ends in .toml or .json."
            )
        source = resources.files(_PACKAGE) / "data" / f"{reference}.toml"
        return parse_script(source.read_text("utf-8"), name=str(reference))
    try:
        text = path.expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"The script {str(path)!r} cannot be read: {error}") from error
    return parse_script(text, name=str(path), form="json" if path.suffix == ".json" else "toml")


def parse_script(
    text: str, *, name: str = "script", form: Literal["toml", "json"] = "toml"
) -> Script:
    """Read a script from its text; ``name`` is what errors call it.

    Raises:
        ScriptError: the text is not of this form, or a key or value is not of the format.
        NewerVersion: the script was written for a later version of the format.
    """
    try:
        raw = tomllib.loads(text) if form == "toml" else msgspec.json.decode(text)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as error:
        raise ScriptError(f"The script {name!r} is not valid {form.upper()}: {error}") from error
    head = _convert(raw, _Head, f"Script {name!r}")
    if head.version > VERSION:
        raise NewerVersion(f"The script {name!r}", head.version, VERSION)
    scenes = {
        scene: _scene(table, f"Script {name!r}, scene {scene!r}")
        for scene, table in head.scenes.items()
    }
    if head.default is not None and head.default not in scenes:
        raise ScriptError(f"Script {name!r}: the default scene {head.default!r} is not there.")
    return Script(scenes=scenes, play=head.play, default=head.default)


def _scene(raw: object, where: str) -> Scene:
    """Read one scene: a table, or the list of its replies."""
    table = cast("dict[str, Any]", {"replies": raw} if isinstance(raw, list) else raw)
    if isinstance(raw, list | dict) and isinstance(replies := table.get("replies"), list):
        numbered = enumerate(cast("list[object]", replies), 1)
        tagged = [_tag_parts(reply, f"{where}, reply {number}") for number, reply in numbered]
        table = {**table, "replies": tagged}
    scene = _convert(table, Scene, where)
    _check_pattern(scene.when.matches if scene.when else None, where)
    _check_pattern(scene.when.model if scene.when else None, where)
    _check_variables(table, where)
    return scene


def _tag_parts(reply: object, where: str) -> object:
    """Name the kind of each part, which in the file is told by its first key."""
    if isinstance(reply, str):
        return {"parts": [{"type": "text", "text": reply}]}
    if not isinstance(reply, dict):
        return reply
    table = cast("dict[str, Any]", reply)
    parts = table.get("parts")
    if not isinstance(parts, list):
        return table
    tagged: list[object] = []
    for number, part in enumerate(cast("list[object]", parts), 1):
        if not isinstance(part, dict):
            tagged.append({"type": "text", "text": part} if isinstance(part, str) else part)
            continue
        fields = cast("dict[str, Any]", part)
        kinds = [key for key in _PART_KEYS if key in fields]
        if len(kinds) != 1:
            raise ScriptError(
                f"{where}, part {number}: a part has exactly one of the keys "
                f"{', '.join(_PART_KEYS)}; this one has {', '.join(fields) or 'none'}."
            )
        tagged.append({**fields, "type": kinds[0]})
    return {**table, "parts": tagged}


def _check_pattern(pattern: str | None, where: str) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ScriptError(f"{where}: {pattern!r} is not a regular expression: {error}") from error


def _check_variables(value: object, where: str) -> None:
    """Refuse a template value that no player fills."""
    if isinstance(value, str):
        for name in TEMPLATE.findall(value):
            if name not in VARIABLES:
                raise ScriptError(
                    f"{where}: nothing is called {{{{{name}}}}}; there are "
                    f"{', '.join(sorted(VARIABLES))}."
                )
    elif isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            _check_variables(item, where)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            _check_variables(item, where)


def _convert(raw: object, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{where}: {error}") from error
