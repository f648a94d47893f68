"""Answers the model calls of an agent from a cassette, and notes where they differ from it."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING

from quarterdeck.agent.replay.check import ReplayReport
from quarterdeck.agent.replay.conductor import Divergence, diff_values
from quarterdeck.agent.replay.recorded_run import StepPlace
from quarterdeck.wire.ids import SessionId

from ..meter.api import CallPlayer, CallRefusal, PassedRequest, PlayedAnswer
from .file import Cassette, PartReference, RecordedCall
from .request_parts import PlainForm, RequestPart, split_request

__all__ = ["CassettePlayer"]

_SETTLE = 10.0
"""Seconds in which calls that are still missing may come when the turn is over."""
_MOST_CHANGES = 5
"""Parts of a request whose differences are shown."""
_MODEL_IN_PATH = re.compile(r"/models/[^/:?]+")


class CassettePlayer:
    """One rerun of an agent."""

    def __init__(self, cassette: Cassette, form: PlainForm) -> None:
        self.cassette = cassette
        self.notes: dict[str, None] = {}
        self.divergences: list[Divergence] = []
        self._form = form
        self._unused = list(cassette.calls)
        self._others: dict[tuple[str, str], RecordedCall] = {}
        """The last answers to requests that are no model calls; these may be asked again."""
        self._known: set[tuple[str | None, str | None]] = set()
        """Differences that were reported: they come again in each later request."""
        self._compared = 0
        self._steps = 0
        self._turn = 0
        self._step = 0
        self._is_over = False
        self._moved = asyncio.Event()

    async def add_prompt(self, text: str) -> None:
        """A turn begins."""
        self._turn += 1
        self._step = 0

    async def answer(self, request: PassedRequest) -> PlayedAnswer | CallRefusal:
        """The recorded answer to a request, or why there is none."""
        self._form.add_secrets(request.secrets)
        if request.wire is None:
            return self._answer_other(request)
        self._step += 1
        self._steps += 1
        place = StepPlace(turn=self._turn, step=self._step)
        parts = await asyncio.to_thread(
            split_request, request.wire, request.path, request.body, self._form
        )
        call = self._choose(request, parts)
        if call is None:
            return self._refuse(request, parts, place)
        self._unused.remove(call)
        await asyncio.to_thread(self._compare, call, parts, place)
        self._moved.set()
        return self._play(call)

    async def settle(self) -> None:
        """The turn is over: wait for calls that are still missing, for some seconds."""
        self._is_over = True
        try:
            async with asyncio.timeout(_SETTLE):
                while self._missing():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            pass

    def report(self, session: SessionId, transcript: Sequence[str]) -> ReplayReport:
        """What came of it; ``transcript``: of the rerun."""
        place = StepPlace(turn=max(self._turn, 1), step=0)
        recorded = self.cassette.end.transcript
        found = list(self.divergences)
        found += [
            Divergence(kind="missing", place=place, what=f"model call {call.request.call}")
            for call in self._missing()
        ]
        if tuple(transcript) != recorded:
            diff = diff_values("\n".join(recorded), "\n".join(transcript))
            found.append(Divergence(kind="event", place=place, what="transcript", diff=diff))
        return ReplayReport(
            session=session,
            runs=1,
            steps=self._steps,
            compared=self._compared + max(len(recorded), len(transcript)),
            divergences=tuple(found),
            notes=tuple(self.notes),
        )

    def _missing(self) -> list[RecordedCall]:
        return [one for one in self._unused if one.request.wire is not None and one.is_whole]

    # Which answer

    def _choose(self, request: PassedRequest, parts: Sequence[RequestPart]) -> RecordedCall | None:
        """The call that is most like a request, of those that are left; the first of several."""
        wanted = _path_form(request.path)
        found = [
            call
            for call in self._unused
            if call.request.wire == request.wire and _path_form(call.request.path) == wanted
        ]
        ids = {part.id for part in parts}

        def liken(call: RecordedCall) -> tuple[bool, bool, bool, int]:
            known = call.request.parts
            return (
                [one.id for one in known if one.kind == "model"]
                == [one.id for one in parts if one.kind == "model"],
                any(p.kind == "tool" for p in known) == any(p.kind == "tool" for p in parts),
                sum(p.kind == "message" for p in known) == sum(p.kind == "message" for p in parts),
                sum(one.id in ids for one in known),
            )

        return max(found, key=liken, default=None)

    def _refuse(
        self, request: PassedRequest, parts: Sequence[RequestPart], place: StepPlace
    ) -> CallRefusal:
        words = f"model call to {request.path.partition('?')[0]}"
        if self._is_over:
            self.notes[f"a {words} came after the last turn; the cassette has none"] = None
        else:
            last = next((one for one in reversed(parts) if one.kind == "message"), None)
            diff = diff_values("", _readable(last.text)) if last is not None else ""
            self.divergences.append(Divergence(kind="extra", place=place, what=words, diff=diff))
        return CallRefusal(reason=f"the cassette has no answer to this: {place}: {words}")

    def _answer_other(self, request: PassedRequest) -> PlayedAnswer | CallRefusal:
        key = request.method, self._form.mask(request.path)
        call = next(
            (
                one
                for one in self._unused
                if one.request.wire is None and (one.request.method, one.request.path) == key
            ),
            None,
        )
        if call is not None:
            self._unused.remove(call)
            self._others[key] = call
        call = self._others.get(key)
        if call is None:
            words = f"{request.method} {key[1].partition('?')[0]}"
            self.notes[f"{words} was not recorded and was answered with an error"] = None
            return CallRefusal(reason=f"the cassette has no answer to {words}")
        return self._play(call)

    def _play(self, call: RecordedCall) -> PlayedAnswer | CallRefusal:
        if call.head is None:
            reason = call.end.reason if call.end is not None else None
            return CallRefusal(reason=reason or "the recording has no answer to this")
        return PlayedAnswer(
            status=call.head.status,
            headers=call.head.headers,
            pieces=self._read(call),
            is_whole=call.is_whole,
        )

    async def _read(self, call: RecordedCall) -> AsyncIterator[bytes]:
        for place in call.pieces:
            yield await asyncio.to_thread(self.cassette.read_piece, place)

    # What differs

    def _compare(self, call: RecordedCall, parts: Sequence[RequestPart], place: StepPlace) -> None:
        recorded = call.request.parts
        self._compared += max(len(recorded), len(parts))
        olds, news = [one.id for one in recorded], [one.id for one in parts]
        if olds == news:
            return
        names: list[str] = []
        diffs: list[str] = []
        matcher = SequenceMatcher(a=olds, b=news, autojunk=False)
        for kind, start, stop, begin, end in matcher.get_opcodes():
            if kind == "equal":
                continue
            for old, new in zip_longest(recorded[start:stop], parts[begin:end]):
                key = (old.id if old else None, new.id if new else None)
                if key not in self._known:
                    self._known.add(key)
                    names.append(_name_part(old, new))
                    diffs.append(self._diff(old, new))
        if names:
            what = f"model request: {', '.join(names[:_MOST_CHANGES])}"
            if len(names) > _MOST_CHANGES:
                what += f" and {len(names) - _MOST_CHANGES} more"
            text = "\n".join(diffs[:_MOST_CHANGES])
            self.divergences.append(Divergence(kind="request", place=place, what=what, diff=text))

    def _diff(self, old: PartReference | None, new: RequestPart | None) -> str:
        before = self.cassette.read_text(old.id) if old is not None else ""
        if before is None:
            return "[too long to be kept]"
        return diff_values(_readable(before), _readable(new.text if new is not None else ""))


def _path_form(path: str) -> str:
    return _MODEL_IN_PATH.sub("/models/*", path.partition("?")[0])


def _name_part(old: PartReference | None, new: RequestPart | None) -> str:
    part = new or old
    assert part is not None
    words = f"{part.kind} {part.name}".strip()
    if old is None:
        return f"{words} (not recorded)"
    return f"{words} (missing)" if new is None else words


def _readable(text: str) -> str:
    return text.replace("\\n", "\n")


if TYPE_CHECKING:
    from typing import cast

    _player: CallPlayer = cast("CassettePlayer", None)
