"""What a request asks, whatever its form.

``ScriptConversation`` reads a conversation in its order and keeps what a script can depend on. The
place in a turn follows from the conversation itself, so that a resumed process goes on where it
stood.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from quarterdeck.models.script.format import SceneConditions
from quarterdeck.models.script.tools import OfferedTool

__all__ = ["ScriptConversation", "ScriptQuestion", "find_cwd"]

_CONTEXT = re.compile(
    r"<(system-reminder|system_reminder|environment_context|environment_details|user_instructions"
    r"|INSTRUCTIONS|session_context|info-msg|context)\b.*?</\1>",
    re.DOTALL,
)
"""What agents add to the words of the person, so that it is not taken for the prompt."""
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")
_STAMP = re.compile(r"r(\d+)x\d+x\d+$")
"""The round in the ids of our own calls, see ``ScriptPlayer``."""
_TITLE = re.compile(
    r"title generator|generate [\w ,-]{0,40}title|conversation topic|new topic", re.IGNORECASE
)
_CWD = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"^- Working directory: (/.+)$",  # our own agent's line; the path may hold any sign
        r"primary working directory: *(/[^\s`<\"']+)",
        r"<cwd>\s*(/[^<\s]+)\s*</cwd>",
        r"working director(?:y|ies)(?: is)?:?[\s`*-]*(/[^\s`<\"',]+)",
        r"(?:workspace|project|current) director(?:y|ies)(?: is)?:?[\s`*-]*(/[^\s`<\"',]+)",
        r"\bdirectory: *`?(/[^\s`<\"',]+)",
        r"\bcwd\b[^/\n]{0,12}(/[^\s`<\"',]+)",
    )
)


class ScriptQuestion(Struct, frozen=True, kw_only=True):
    """One request, as a player sees it."""

    prompt: str
    """The person's last message, without what the agent added to it."""
    turn: int = 1
    """The number of that prompt in its conversation, from 1."""
    round: int = 0
    """How many rounds of tool calls have been answered since."""
    length: int = 0
    """How many entries the conversation has."""
    result: str = ""
    """The last tool result since the prompt."""
    images: tuple[str, ...] = ()
    """The media types of the prompt's images."""
    system: str = ""
    tools: tuple[OfferedTool, ...] = ()
    schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer has to fit."""
    max_output: int | None = None
    size: int = 0
    """Bytes of everything that was sent."""
    model: str = "scripted"
    agent: str | None = None
    source: object = None
    """Where the working directory is looked for."""

    @property
    def wants_title(self) -> bool:
        """Whether this is an agent's side request for a title or topic."""
        # Such requests have short system texts; searching long ones costs more than the reply.
        return not self.tools and _TITLE.search(self.system, 0, 4000) is not None

    @property
    def cwd(self) -> str | None:
        """The asking agent's working directory, if it sends it to the model."""
        return find_cwd(self.source)

    def fulfils(self, when: SceneConditions) -> bool:
        """Whether every condition holds."""
        return (
            (when.contains is None or when.contains in self.prompt)
            and (when.matches is None or re.search(when.matches, self.prompt, re.S) is not None)
            and (when.turn is None or when.turn == self.turn)
            and (when.agent is None or when.agent == self.agent)
            and (when.model is None or re.search(when.model, self.model) is not None)
        )


class ScriptConversation:
    """Reads a conversation, entry by entry."""

    def __init__(self) -> None:
        self.prompt = ""
        self.turn = 0
        self.round = 0
        self.length = 0
        self.result = ""
        self.images: tuple[str, ...] = ()
        self._answered = True
        self._calling = False

    def question(self, **rest: Any) -> ScriptQuestion:
        """The state of the conversation; ``rest`` are the fields that are not part of it."""
        return ScriptQuestion(
            prompt=self.prompt,
            turn=self.turn,
            round=self.round,
            length=self.length,
            result=self.result,
            images=self.images,
            **rest,
        )

    def add_prompt(self, texts: Iterable[str], images: Iterable[str] = ()) -> None:
        """The person speaks; context that agents add on their own is no prompt."""
        self.length += 1
        text = _INTERRUPTED.sub("", _CONTEXT.sub("", "\n".join(texts))).strip()
        images = tuple(images)
        if (not text and not images) or text.startswith("# AGENTS.md"):
            return
        self.turn += self._answered
        self._answered = self._calling = False
        self.prompt, self.images = text, images
        self.round, self.result = 0, ""

    def add_answer(self, *, calls: bool) -> None:
        """The model speaks, with or without calling tools."""
        self.length += 1
        self._answered = True
        self._calling = self._calling or calls

    def add_result(self, call_id: str, text: str) -> None:
        """A tool call is answered."""
        self.length += 1
        self.result = text
        stamp = _STAMP.search(call_id)
        if stamp is not None:
            self.round = max(self.round, int(stamp.group(1)) + 1)
        elif self._calling:
            self.round += 1
        self._calling = False


def find_cwd(source: object) -> str | None:
    """The working directory that a request mentions somewhere."""
    texts = list(_strings(source))
    for pattern in _CWD:
        for text in texts:
            if (found := pattern.search(text)) is not None:
                return found.group(1).rstrip(".").rstrip("/")
    return None


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            if key not in ("tools", "parameters", "input_schema"):
                yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _strings(item)
