"""The format of scripts, and how script files are read: strictly.

A script is a TOML or JSON file of named scenes. A scene has replies, one for each model call of a
turn; a reply has parts, or fails, or breaks in the middle. ``docs/scripted-model.md`` explains
every key with examples. A key that the format does not know is an error that names the script, the
scene and the key.
"""

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta, field

from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import ModelStop
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import NewerVersionError
from quarterdeck.wire.usage import TokenUsage
from quarterdeck.wire.values import Value

__all__ = [
    "REQUEST",
    "TEMPLATE",
    "VARIABLES",
    "AbstractTool",
    "FaultKind",
    "ReplyPart",
    "SceneConditions",
    "Script",
    "ScriptCallPart",
    "ScriptError",
    "ScriptFailure",
    "ScriptFault",
    "ScriptReply",
    "ScriptScene",
    "ScriptSleepPart",
    "ScriptTextPart",
    "ScriptThinkingPart",
    "ScriptToolPart",
    "load_script",
    "parse_script",
    "shipped_scripts",
]

Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]
Status: TypeAlias = Annotated[int, Meta(ge=400, le=599)]

AbstractTool: TypeAlias = Literal["write", "shell", "read", "edit", "mcp"]
"""What a tool does, whatever the asking agent calls it."""
FaultKind: TypeAlias = Literal["garbage", "badjson", "unknown", "drop", "noend", "error", "stall"]
"""How a stream goes wrong.

``garbage``, ``badjson`` and ``unknown`` put something unreadable into the stream, which then goes
on; the others end it: the connection is cut, the end marker is missing, the vendor says that it
failed, or nothing more comes.
"""


class ScriptError(ModelSetupError):
    """A script cannot be played; the message names the file, the scene and the key."""


class ScriptTextPart(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text; a list is sent chunk by chunk."""

    text: str | tuple[str, ...]
    chunks: Count | None = None
    """In how many pieces the text is sent; one by default."""
    pause: Seconds | None = None
    """Seconds after each chunk; by default the reply's."""
    repeat: Count = 1


class ScriptThinkingPart(Value, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """Reasoning shown before the answer."""

    thinking: str | tuple[str, ...]
    chunks: Count | None = None
    pause: Seconds | None = None
    repeat: Count = 1


class ScriptToolPart(Value, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """A call of whichever offered tool does this, with the argument names that it declares."""

    tool: AbstractTool
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: str | None = None
    """What is sent in place of the arguments, valid JSON or not."""
    chunks: Count = 1
    pause: Seconds | None = None
    repeat: Count = 1


class ScriptCallPart(Value, frozen=True, kw_only=True, tag_field="type", tag="call"):
    """A call of the tool with exactly this name, offered or not."""

    call: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: str | None = None
    """What is sent in place of the arguments, valid JSON or not."""
    chunks: Count = 1
    pause: Seconds | None = None
    repeat: Count = 1


class ScriptSleepPart(Value, frozen=True, kw_only=True, tag_field="type", tag="sleep"):
    """Silence, in seconds."""

    sleep: Seconds


ReplyPart: TypeAlias = (
    ScriptTextPart | ScriptThinkingPart | ScriptToolPart | ScriptCallPart | ScriptSleepPart
)


class ScriptFailure(Value, frozen=True, kw_only=True):
    """The call is refused before any reply begins."""

    status: Status = 500
    kind: Literal["overflow", "quota", "hangup"] | None = None
    """``overflow`` and ``quota`` take each vendor's own words for a request larger than the
    window and for an empty account; ``hangup`` closes the connection without an answer."""
    message: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str | dict[str, Any] | None = None
    """In place of the vendor's error body."""
    times: Count | None = None
    """How often, per prompt; afterwards the reply's parts are played. Always by default."""


class ScriptFault(Value, frozen=True, kw_only=True):
    """The reply begins and then goes wrong."""

    kind: FaultKind
    after: Annotated[int, Meta(ge=0)] | None = None
    """How many chunks come first; all of them by default."""
    times: Count | None = None
    """How often, per prompt; afterwards the reply is played without it. Always by default."""
    seconds: Seconds = 600.0
    """How long a ``stall`` lasts before the connection is cut."""
    status: Status = 529
    """What an ``error`` says."""
    message: str | None = None

    ENDING: ClassVar[frozenset[str]] = frozenset(["drop", "noend", "error", "stall"])

    @property
    def ends(self) -> bool:
        """Whether nothing of the reply comes after the fault."""
        return self.kind in self.ENDING


class ScriptReply(Value, frozen=True, kw_only=True):
    """The answer to one model call."""

    parts: tuple[ReplyPart, ...] = ()
    usage: TokenUsage | None = None
    """By default it is counted: bytes divided by four, rounded up."""
    stop: ModelStop | None = None
    """``tool_use`` or ``end_turn`` by default."""
    delay: Seconds = 0.0
    """Seconds before the answer begins, headers included."""
    pause: Seconds = 0.0
    """Seconds after each chunk."""
    error: ScriptFailure | None = None
    fault: ScriptFault | None = None
    repeat: Count = 1
    """For how many model calls of the turn this reply stands."""

    @classmethod
    def of(cls, *parts: ReplyPart | str) -> "ScriptReply":
        """A reply of these parts; a string is text."""
        return cls(parts=tuple(ScriptTextPart(text=p) if isinstance(p, str) else p for p in parts))


class SceneConditions(Value, frozen=True, kw_only=True):
    """Conditions that must all hold for a scene to be chosen without being named."""

    contains: str | None = None
    """Text within the last prompt."""
    matches: str | None = None
    """A regular expression found in the last prompt."""
    turn: Count | None = None
    """The number of the prompt in its conversation, from 1."""
    agent: str | None = None
    """Who asks: the NAME of a server path that begins with ``/agent/NAME``."""
    model: str | None = None
    """A regular expression found in the name of the model that is asked for."""


class ScriptScene(Value, frozen=True, kw_only=True):
    """What happens in one turn. Past the last reply, the last one is played again."""

    replies: Annotated[tuple[ScriptReply, ...], Meta(min_length=1)]
    when: SceneConditions | None = None


class Script(Value, frozen=True, kw_only=True):
    """Everything a scripted model says."""

    scenes: dict[str, ScriptScene]
    play: Literal["scenes", "sequence"] = "scenes"
    """``sequence``: each model call takes the next reply of the file, whatever is asked."""
    default: str | None = None
    """The scene for prompts that choose none; by default an echo of the prompt."""

    @classmethod
    def sequence(cls, *replies: ScriptReply | str) -> "Script":
        """A script whose replies are played one after the other; a string is a text reply."""
        played = tuple(ScriptReply.of(r) if isinstance(r, str) else r for r in replies)
        return cls(scenes={"sequence": ScriptScene(replies=played)}, play="sequence")


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
        NewerVersionError: the script was written for a later version of the format.
    """
    try:
        raw = tomllib.loads(text) if form == "toml" else msgspec.json.decode(text)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as error:
        raise ScriptError(f"The script {name!r} is not valid {form.upper()}: {error}") from error
    head = _convert(raw, _Head, f"Script {name!r}")
    if head.version > VERSION:
        raise NewerVersionError(f"The script {name!r}", head.version, VERSION)
    scenes = {
        scene: _scene(table, f"Script {name!r}, scene {scene!r}")
        for scene, table in head.scenes.items()
    }
    if head.default is not None and head.default not in scenes:
        raise ScriptError(f"Script {name!r}: the default scene {head.default!r} does not exist.")
    return Script(scenes=scenes, play=head.play, default=head.default)


def _scene(raw: object, where: str) -> ScriptScene:
    """Read one scene: a table, or the list of its replies."""
    table = cast("dict[str, Any]", {"replies": raw} if isinstance(raw, list) else raw)
    if isinstance(raw, list | dict) and isinstance(replies := table.get("replies"), list):
        numbered = enumerate(cast("list[object]", replies), 1)
        tagged = [_tag_parts(reply, f"{where}, reply {number}") for number, reply in numbered]
        table = {**table, "replies": tagged}
    scene = _convert(table, ScriptScene, where)
    _check_pattern(scene.when.matches if scene.when else None, where)
    _check_pattern(scene.when.model if scene.when else None, where)
    _check_variables(table, where)
    return scene


def _tag_parts(reply: object, where: str) -> object:
    """Name the kind of each part, which in the file is its first key."""
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
                    f"{where}: there is no variable {{{{{name}}}}}; available: "
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
        return convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{where}: {error}") from error
