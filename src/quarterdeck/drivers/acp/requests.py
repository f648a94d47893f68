"""Messages of an ACP agent: their routing, and the answers to its requests."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import Router
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import NoticePosted, PermissionAsked, QuestionAsked
from quarterdeck.wire.ids import ToolCallId, new_request_id
from quarterdeck.wire.permissions import Cancelled, Selected
from quarterdeck.wire.rpc.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    MethodNotFoundError,
)
from quarterdeck.wire.tasks import start_task

from ..errors import NotPermittedError
from ..link import LinkHost, PermissionVerdict
from .files import ServedFiles
from .terminals import ServedTerminals
from .updates import AcpTranslator, to_plain_data

__all__ = ["AcpClientRouter", "AcpRequestHandler"]

T = TypeVar("T")

_CANCELLED = acp.RequestPermissionResponse(outcome=Cancelled())


class AcpRequestHandler:
    """Answers an agent's requests about one session."""

    def __init__(
        self,
        host: LinkHost,
        translator: AcpTranslator,
        files: ServedFiles,
        terminals: ServedTerminals,
    ) -> None:
        self._host = host
        self._translator = translator
        self._files = files
        self._terminals = terminals
        self._questions: set[asyncio.Future[Any]] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self.session: str | None = None
        """The agent's id of the session; until it is known nothing is served."""

    def serve(self, router: Router) -> None:
        """Take the requests that are for us."""
        router.on(acp.SESSION_REQUEST_PERMISSION, self._permit)
        router.on(acp.ELICITATION_CREATE, self._ask)
        router.on(acp.ELICITATION_COMPLETE, self._completed)
        router.on(acp.FS_READ_TEXT_FILE, self._read)
        router.on(acp.FS_WRITE_TEXT_FILE, self._write)
        router.on(acp.TERMINAL_CREATE, self._create)
        router.on(acp.TERMINAL_OUTPUT, self._output)
        router.on(acp.TERMINAL_WAIT_FOR_EXIT, self._wait)
        router.on(acp.TERMINAL_KILL, self._kill)
        router.on(acp.TERMINAL_RELEASE, self._release)

    async def all_answered(self) -> None:
        """Wait until every person's answer is on its way to the agent."""
        await self._all_answered.wait()

    async def drop_questions(self) -> None:
        """End what is still asked: the agent has ended the turn without waiting for an answer."""
        questions = list(self._questions)
        for question in questions:
            question.cancel()
        if questions:
            await asyncio.wait(questions)

    # People

    async def _permit(self, request: acp.RequestPermissionRequest) -> acp.RequestPermissionResponse:
        self._check(request.session_id)
        call = self._translator.requested(request)
        title = call.title or call.name or call.tool_call_id
        if not request.options:
            why = (
                "It asked for permission and offered no options: the request could not be answered."
            )
            await self._host.emit(NoticePosted(title=why, severity="warning", description=title))
            return _CANCELLED
        question = PermissionAsked(
            request=new_request_id(),
            call=ToolCallId(call.tool_call_id),
            title=title,
            options=request.options,
            kind=call.kind or "other",
            name=call.name,
            content=call.content or (),
            locations=call.locations or (),
            raw_input=call.raw_input,
        )
        verdict = await self._answer_of(self._host.permit(question))
        return _response(verdict, request) if verdict is not None else _CANCELLED

    async def _ask(self, request: acp.CreateElicitationRequest) -> acp.CreateElicitationResponse:
        if self.session is None:  # without a session no one can be asked
            return acp.CreateElicitationResponse(action="cancel")
        if request.session_id is not None:
            self._check(request.session_id)
        if request.mode not in ("form", "url"):
            raise RpcError(INVALID_PARAMS, f"an elicitation with mode {request.mode!r}")
        form = request.requested_schema if request.mode == "form" else None
        question = QuestionAsked(
            request=new_request_id(),
            text=request.message,
            form=to_plain_data(form) if form is not None else None,
            url=request.url if request.mode == "url" else None,
            call=ToolCallId(request.tool_call_id) if request.tool_call_id else None,
        )
        answer = await self._answer_of(self._host.ask(question))
        if answer is None:
            return acp.CreateElicitationResponse(action="cancel")
        if answer.action != "accept" or form is None:
            return acp.CreateElicitationResponse(action=answer.action)
        return _accepted(answer.content or {})

    async def _completed(self, note: acp.CompleteElicitationNotification) -> None:
        await self._host.emit(NoticePosted(title="The agent's request in the browser is done."))

    async def _answer_of(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """A person's answer; None when the question was dropped with its turn."""
        task = start_task(asking, name="question of an agent")
        self._questions.add(task)
        self._all_answered.clear()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._questions.discard(task)
            if not self._questions:
                self._all_answered.set()
        return None if task.cancelled() else task.result()

    # Files and terminals

    async def _read(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        self._check(request.session_id)
        return await self._served(self._files.read(request))

    async def _write(self, request: acp.WriteTextFileRequest) -> acp.Empty:
        self._check(request.session_id)
        return await self._served(self._files.write(request))

    async def _create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        self._check(request.session_id)
        return await self._served(self._terminals.create(request))

    async def _served(self, serving: Coroutine[Any, Any, T]) -> T:
        """What we did for the agent, once it was decided; a refusal is an error it can show."""
        try:
            done = await self._answer_of(serving)
        except NotPermittedError as error:
            code = REQUEST_CANCELLED if error.cancelled else INVALID_REQUEST
            raise RpcError(code, f"not allowed here: {error}") from error
        if done is None:
            raise RpcError(REQUEST_CANCELLED, "not allowed here: the turn has ended")
        return done

    async def _output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        self._check(request.session_id)
        return await self._terminals.output(request)

    async def _wait(
        self, request: acp.WaitForTerminalExitRequest
    ) -> acp.WaitForTerminalExitResponse:
        self._check(request.session_id)
        return await self._terminals.wait(request)

    async def _kill(self, request: acp.KillTerminalRequest) -> acp.Empty:
        self._check(request.session_id)
        return await self._terminals.kill(request)

    async def _release(self, request: acp.ReleaseTerminalRequest) -> acp.Empty:
        self._check(request.session_id)
        return await self._terminals.release(request)

    def _check(self, session: str) -> None:
        if session != self.session:
            raise RpcError(INVALID_PARAMS, f"there is no session {session[:100]!r} here")


def _response(
    verdict: PermissionVerdict, request: acp.RequestPermissionRequest
) -> acp.RequestPermissionResponse:
    """Say it in the agent's own options; what none of them says is no choice at all."""
    offered = {option.option_id for option in request.options}
    if verdict.cancelled or verdict.option not in offered:
        return _CANCELLED
    return acp.RequestPermissionResponse(outcome=Selected(option_id=verdict.option or ""))


def _accepted(content: dict[str, Any]) -> acp.CreateElicitationResponse:
    raw = {"action": "accept", "content": content}
    try:
        return convert(raw, acp.CreateElicitationResponse)
    except msgspec.ValidationError:  # no form has such a value; a wrong answer is worse than none
        return acp.CreateElicitationResponse(action="cancel")


_MOST_EARLY = 10_000
"""Updates that are kept while the session has no name yet."""
_SHOWN = 100_000
"""Bytes of a strange message that are kept."""


class AcpClientRouter(Router):
    """The client's side of the protocol.

    What it does not know becomes an ``UnknownEvent`` event.
    """

    def __init__(self, translator: AcpTranslator) -> None:
        super().__init__("client", unstable=True)
        self._translator = translator
        self._take = translator.take
        self._early: list[acp.SessionNotification] | None = []
        self._too_early = 0
        self.session: str | None = None
        """The session whose updates are ours."""
        self.on(acp.SESSION_UPDATE, self._update)

    def on_notification(self, method: str, params: Raw | None) -> Awaitable[None] | None:
        """Take a notification; one that is not known or cannot be read is kept as it is."""
        try:
            return super().on_notification(method, params)
        except MethodNotFoundError:
            return self._strange(method, params, "an unknown notification")
        except msgspec.DecodeError as error:
            return self._strange(method, params, f"it cannot be read: {error}")

    async def catch_up(self) -> None:
        """Handle the updates that came before the session had an id; call it once it has one."""
        early, self._early = self._early or (), None
        await self._catch_up(early)

    async def _catch_up(self, early: Iterable[acp.SessionNotification]) -> None:
        for note in early:
            if (step := self._update(note)) is not None:
                await step
        if self._too_early:
            raise RpcError(
                INVALID_REQUEST,
                f"{self._too_early} updates arrived before the session was open and were dropped",
            )

    def _update(self, note: acp.SessionNotification) -> Awaitable[None] | None:
        if note.session_id == self.session:
            return self._take(note.update)
        if self.session is None and self._early is not None:
            if len(self._early) < _MOST_EARLY:
                self._early.append(note)
            else:
                self._too_early += 1
            return None
        update = note.update
        body: Any = update.raw if isinstance(update, acp.UnknownUpdate) else update
        raw = {"sessionId": note.session_id, "update": to_plain_data(body)}
        return self._translator.strange(raw, "an update of another session")

    def _strange(self, method: str, params: Raw | None, reason: str) -> Awaitable[None]:
        shown: Any = None
        if params is not None:
            shown = bytes(params)[:_SHOWN].decode("utf-8", "replace")
            with suppress(msgspec.DecodeError):
                shown = msgspec.json.decode(params)
        return self._translator.strange({"method": method, "params": shown}, reason)
