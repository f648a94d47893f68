"""Playing a script: which reply answers a question.

The player knows no vendor. A ``ScriptQuestion`` is what a request asks, whatever its form; the
answer is a ``Performance``.
"""

import itertools
import json
import re
from collections import Counter
from typing import TypeAlias, TypeVar

from quarterdeck.models.script.format import (
    Script,
    ScriptFailure,
    ScriptFault,
    ScriptReply,
    ScriptScene,
)
from quarterdeck.models.script.performance import Performance, play_reply
from quarterdeck.models.script.question import ScriptQuestion
from quarterdeck.models.script.tools import sample_of

__all__ = ["ScriptPlayer"]

_NAMED = re.compile(r"\bscene:([\w.-]*\w)")
_ECHO = ScriptScene(replies=(ScriptReply.of("You said: {{prompt}}"),))
_Key: TypeAlias = tuple[str | int | None, ...]
_Trouble = TypeVar("_Trouble", ScriptFailure, ScriptFault)


class ScriptPlayer:
    """Plays one script for any number of conversations.

    Which reply comes is told by the question alone, so that a process that resumes a conversation
    goes on where it stood. Only three things are remembered: how often a limited error or fault
    has happened for a prompt, how far a script in ``sequence`` is, and which call ids are taken.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._line = [
            (name, reply, number)
            for name, scene in script.scenes.items()
            for reply in scene.replies
            for number in range(1, reply.repeat + 1)
        ] if script.play == "sequence" else []  # fmt: skip
        self._next = 0
        self._happened: Counter[_Key] = Counter()
        self._ids = itertools.count(1)

    def play(self, question: ScriptQuestion) -> Performance:
        """The answer to this question. Its beats may be left unplayed."""
        if (aside := _answer_aside(question)) is not None:
            return self._perform(question, "(aside)", ScriptReply.of(aside), 1)
        if self._script.play == "sequence":
            return self._play_next(question)
        name, scene = self._choose(question)
        reply, number = _reply_at(scene, question.round)
        return self._perform(question, name, reply, number)

    def _play_next(self, question: ScriptQuestion) -> Performance:
        if self._next >= len(self._line):
            message = f"The script is over: it has {len(self._line)} replies."
            over = ScriptReply(error=ScriptFailure(status=400, message=message))
            return self._perform(question, "(over)", over, 1)
        name, reply, number = self._line[self._next]
        performance = self._perform(question, name, reply, number, place=self._next)
        # A limited error or fault is asked for again, and then the reply itself is due.
        trouble = performance.failure or performance.fault
        if trouble is None or trouble.times is None:
            self._next += 1
        return performance

    def _choose(self, question: ScriptQuestion) -> tuple[str, ScriptScene]:
        scenes = self._script.scenes
        for name, scene in scenes.items():
            if scene.when is not None and question.fulfils(scene.when):
                return name, scene
        if (named := _NAMED.search(question.prompt)) is not None:
            name = named[1]
            if name in scenes:
                return name, scenes[name]
            text = f"There is no scene {name!r}; this script has: {', '.join(scenes)}."
            return name, ScriptScene(replies=(ScriptReply.of(text),))
        if self._script.default is not None:
            return self._script.default, scenes[self._script.default]
        return "echo", _ECHO

    def _perform(
        self,
        question: ScriptQuestion,
        scene: str,
        reply: ScriptReply,
        number: int,
        place: int | None = None,
    ) -> Performance:
        key: _Key = (place,)
        if place is None:
            key = (question.agent, scene, question.prompt, question.turn, question.round)
        failure = self._due(reply.error, (*key, "error"))
        return Performance(
            scene=scene,
            reply=reply,
            failure=failure,
            fault=None if failure else self._due(reply.fault, (*key, "fault")),
            beats=play_reply(
                reply,
                question,
                scene=scene,
                number=number,
                # The round is read again from the id, see ``History.add_result``.
                new_id=lambda: f"r{question.round}x{question.length}x{next(self._ids)}",
            ),
            input_bytes=question.size,
        )

    def _due(self, trouble: _Trouble | None, key: _Key) -> _Trouble | None:
        """The trouble, unless it has happened as often as it should."""
        if trouble is None or trouble.times is None:
            return trouble
        if self._happened[key] >= trouble.times:
            return None
        self._happened[key] += 1
        return trouble


def _answer_aside(question: ScriptQuestion) -> str | None:
    """The text for a request that agents make besides the conversation, past the script."""
    if question.schema is not None:
        return json.dumps(sample_of(question.schema))
    if question.max_output == 1:
        return "1"
    if question.wants_title:
        return "A scripted title"
    return None


def _reply_at(scene: ScriptScene, place: int) -> tuple[ScriptReply, int]:
    """The reply for this round, and which repetition of it that is; the last one repeats."""
    for reply in scene.replies:
        if place < reply.repeat:
            return reply, place + 1
        place -= reply.repeat
    return scene.replies[-1], scene.replies[-1].repeat + place + 1
