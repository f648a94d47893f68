"""The fake agent as a program: its options, and its side of the protocol."""

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.acp.extensions import (
    SESSION_STEERING,
    STEERING_SUPPORTED,
    SteeringRequest,
    SteeringResponse,
)
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc import ByteStream, stdio_stream
from quarterdeck.wire.settings import ConfigChoice, ConfigOption, Mode
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.values import AcpValue

from .commands import run_line
from .prompt_run import PromptRun, StopTurnError
from .session import FakeExchange, FakeSessions, SavedSession

__all__ = ["FakeAgent", "main", "options"]

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
BUSY = -32600

_MODES = (Mode(id="ask", name="Ask"), Mode(id="plan", name="Plan"))
_MODELS = ("fake-1", "fake-2")
_LOGINS = (
    acp.AuthMethod(id="pretend", name="Pretend to log in"),
    acp.AuthMethod(
        id="type", name="Type it", type="terminal", args=("--type",), env={"FAKE_LOGIN": "1"}
    ),
)


class _KeyLogin(acp.AuthMethod, frozen=True, kw_only=True):
    vars: tuple[dict[str, str], ...] = ()


_MORE_LOGINS = (
    acp.AuthMethod(
        id="meta",
        name="By a command",
        meta={"terminal-auth": {"command": "sh", "args": ["-c", 'echo done > "$FAKE_LOGIN_FILE"']}},
    ),
    _KeyLogin(id="key", name="By a key", type="env_var", vars=({"name": "FAKE_AGENT_KEY"},)),
    acp.AuthMethod(id="refused", name="Always refused"),
)


class _SetModel(AcpValue, frozen=True, kw_only=True):
    session_id: str
    model_id: str


_SET_MODEL: Method[_SetModel, acp.Empty] = Method(
    name="session/set_model", params=_SetModel, result=acp.Empty, side="agent"
)
"""As it was before options."""


def options() -> argparse.ArgumentParser:
    """The ways in which the agent can be made to misbehave."""
    parser = argparse.ArgumentParser(
        prog="acp-agent",
        description="A fake agent that speaks ACP on stdin and stdout; its prompts are commands.",
    )
    add = parser.add_argument
    state = os.environ.get("FAKE_STATE")
    kept = Path(state) if state else None
    add(
        "--state",
        type=Path,
        default=kept,
        help="directory to keep sessions in; default: $FAKE_STATE",
    )
    add(
        "--protocol-version",
        type=int,
        default=1,
        help="protocol version in the answer to initialize",
    )
    add("--banner", help="line to print on stdout before anything else")
    add("--exit-at-start", type=int, help="exit at once with this code")
    add("--slow-start", type=float, default=0.0, help="seconds to wait before reading anything")
    add(
        "--needs-login",
        action="store_true",
        help="refuse session/new until authenticate was called",
    )
    add("--terminal-login", action="store_true", help="also offer a login in a terminal")
    add("--more-logins", action="store_true", help="offer more logins: _meta, env_var, refused")
    add("--login-file", type=Path, help="file whose existence means that login was done")
    add(
        "--type",
        action="store_true",
        help="act as the login in a terminal: write --login-file and exit",
    )
    add("--no-resume", action="store_true", help="offer load, but neither resume nor fork")
    add(
        "--old-models",
        action="store_true",
        help="offer models in the old form, before config options",
    )
    add("--no-settings", action="store_true", help="offer no modes, options or models")
    add("--able", action="store_true", help="accept more directories and a system prompt")
    add("--no-load", action="store_true", help="offer neither load, resume nor list")
    add("--ignore-cancel", action="store_true", help="never react to session/cancel")
    add(
        "--update-first",
        action="store_true",
        help="send an update before the answer to session/new",
    )
    add("--no-steering", action="store_true", help="accept no message while a turn runs")
    add("--script", type=Path, help="TOML file of scenes: what a prompt contains, and commands")
    add("--pace", type=float, default=0.0, help="seconds for each word of say-slowly; 0: no pauses")
    add("--silent", action="store_true", help="read, but never answer")
    return parser


class _Scene(Struct, frozen=True, forbid_unknown_fields=True):
    """What is done for a prompt that contains some words."""

    contains: str
    commands: tuple[str, ...]


class _Script(Struct, frozen=True, forbid_unknown_fields=True):
    scenes: tuple[_Scene, ...]


def _read_script(path: Path | None) -> tuple[_Scene, ...]:
    return msgspec.toml.decode(path.read_bytes(), type=_Script).scenes if path is not None else ()


class FakeAgent:
    """The agent's side of the protocol; one for a connection."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self._settings = settings
        self._sessions = FakeSessions(settings.state)
        self._script = _read_script(settings.script)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._steering: dict[str, list[str]] = {}
        """The lines of the turns that run which are still to be done."""
        self._has_logged_in = not settings.needs_login
        self._connection: AcpConnection | None = None
        self._stream: ByteStream | None = None

    async def serve(self, stream: ByteStream) -> None:
        """Talk until the client hangs up."""
        self._stream = stream
        async with AcpConnection(stream, self._router(), name="client") as connection:
            self._connection = connection
            await connection.wait_closed()
        for task in self._running.values():
            task.cancel()

    def _router(self) -> Router:
        router = Router("agent", unstable=True)
        router.on(acp.INITIALIZE, self._initialize)
        router.on(acp.AUTHENTICATE, self._authenticate)
        router.on(acp.LOGOUT, self._logout)
        router.on(acp.SESSION_NEW, self._new)
        router.on(acp.SESSION_PROMPT, self._prompt)
        router.on(acp.SESSION_CANCEL, self._cancel)
        router.on(acp.SESSION_SET_MODE, self._set_mode)
        router.on(acp.SESSION_SET_CONFIG_OPTION, self._set_option)
        router.on(acp.SESSION_CLOSE, self._close)
        router.on(acp.SESSION_DELETE, self._delete)
        router.on(acp.SESSION_SET_TITLE, self._set_title)
        if self._settings.old_models:
            router.on(_SET_MODEL, self._set_model)
        if not self._settings.no_steering:
            router.on(SESSION_STEERING, self._steer)
        if not self._settings.no_load:
            router.on(acp.SESSION_LOAD, self._load)
            router.on(acp.SESSION_LIST, self._list)
            if not self._settings.no_resume:
                router.on(acp.SESSION_RESUME, self._resume)
                router.on(acp.SESSION_FORK, self._fork)
        return router

    async def _initialize(self, request: acp.InitializeRequest) -> acp.InitializeResponse:
        if self._settings.silent:
            await asyncio.sleep(3600)
        settings = self._settings
        there = None if settings.no_load else acp.Empty()
        more = None if settings.no_resume else there
        able = acp.Empty() if settings.able else None
        return acp.InitializeResponse(
            protocol_version=self._settings.protocol_version,
            agent_capabilities=acp.AgentCapabilities(
                load_session=there is not None,
                prompt_capabilities=acp.PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=acp.SessionCapabilities(
                    list=there,
                    resume=more,
                    fork=more,
                    close=acp.Empty(),
                    delete=acp.Empty(),
                    title=able,
                    additional_directories=able,
                    system_prompt=acp.SessionSystemPromptCapabilities() if able else None,
                ),
                auth=acp.AgentAuthCapabilities(logout=acp.Empty()),
            ),
            auth_methods=(
                *_LOGINS[: 2 if settings.terminal_login else 1],
                *(_MORE_LOGINS if settings.more_logins else ()),
            ),
            agent_info=acp.Implementation(name="fake", version="1.0.0", title="Fake agent"),
            meta=None if settings.no_steering else STEERING_SUPPORTED,
        )

    async def _authenticate(self, request: acp.AuthenticateRequest) -> acp.Empty:
        if request.method_id == "refused":
            raise RpcError(-32603, "Internal error", {"details": "the account is closed"})
        if request.method_id not in ("pretend", "key"):
            raise RpcError(-32602, f"no such login: {request.method_id!r}")
        self._has_logged_in = True
        return acp.Empty()

    async def _logout(self, request: acp.Empty) -> acp.Empty:
        self._has_logged_in = not self._settings.needs_login
        return acp.Empty()

    async def _new(self, request: acp.NewSessionRequest) -> Any:
        if not (self._has_logged_in or await asyncio.to_thread(self._has_file)):
            raise RpcError(AUTH_REQUIRED, "log in first")
        saved = self._sessions.new(request.cwd)
        if self._settings.update_first:
            await self._work(saved).update(acp.AgentMessageChunk(content=text("too early")))
        saved.prompts = [
            *(block.text for block in _texts(request.system_prompt)),
            *request.additional_directories,
            *(server.name for server in request.mcp_servers),
        ]
        return self._opened(saved, named=True)

    def _has_file(self) -> bool:
        file: Path | None = self._settings.login_file
        return file is not None and file.exists()

    def _opened(self, saved: SavedSession, *, named: bool = False) -> Any:
        """The answer to an opened session, in the form that the options ask for."""
        answer: dict[str, Any] = {"sessionId": saved.id} if named else {}
        if self._settings.no_settings:
            return answer
        answer["modes"] = _modes(saved)
        if self._settings.old_models:
            models = [{"modelId": name, "name": name} for name in _MODELS]
            answer["models"] = {"currentModelId": saved.model, "availableModels": models}
        else:
            answer["configOptions"] = _options(saved)
        return answer

    async def _load(self, request: acp.LoadSessionRequest) -> Any:
        saved = self._found(request.session_id)
        work = self._work(saved)
        for exchange in saved.exchanges:
            await work.update(acp.UserMessageChunk(content=text(exchange.prompt)))
            await work.update(acp.AgentMessageChunk(content=text(exchange.answer)))
        return self._opened(saved)

    async def _resume(self, request: acp.ResumeSessionRequest) -> Any:
        saved = self._found(request.session_id)
        return self._opened(saved)

    async def _fork(self, request: acp.ForkSessionRequest) -> Any:
        source = self._found(request.session_id)
        saved = self._sessions.new(request.cwd)
        saved.exchanges = list(source.exchanges)
        self._sessions.save(saved)
        return self._opened(saved, named=True)

    async def _list(self, request: acp.ListSessionsRequest) -> acp.ListSessionsResponse:
        return acp.ListSessionsResponse(
            sessions=tuple(
                acp.SessionInfo(session_id=saved.id, cwd=saved.cwd, title=saved.title)
                for saved in self._sessions.all()
                if request.cwd in (None, saved.cwd)
            )
        )

    async def _prompt(self, request: acp.PromptRequest) -> acp.PromptResponse:
        saved = self._found(request.session_id)
        if saved.id in self._running:
            raise RpcError(BUSY, f"session {saved.id!r} is busy with another prompt")
        text = "\n".join(block.text for block in request.prompt if isinstance(block, TextContent))
        saved.exchanges.append(FakeExchange(prompt=text))
        work = self._work(saved)
        lines = self._steering[saved.id] = self._commands(text)
        task = self._running[saved.id] = start_task(
            _lines(work, lines), name=f"prompt of {saved.id}"
        )
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            self._running.pop(saved.id, None)
            self._steering.pop(saved.id, None)
        saved.exchanges[-1].answer = "".join(work.answer)
        self._sessions.save(saved)
        return acp.PromptResponse(stop_reason=_stop_reason(task), usage=work.usage)

    def _commands(self, prompt: str) -> list[str]:
        """The commands of the first scene whose words the prompt contains, or the prompt itself."""
        for scene in self._script:
            if scene.contains in prompt:
                return list(scene.commands)
        return prompt.splitlines() or [""]

    async def _steer(self, request: SteeringRequest) -> SteeringResponse:
        saved = self._found(request.session_id)
        lines = self._steering.get(saved.id)
        if lines is None:
            return SteeringResponse(outcome="promptRequired", reason="noRunningTurn")
        message = "\n".join(
            block.text for block in request.prompt if isinstance(block, TextContent)
        )
        lines += message.splitlines()
        return SteeringResponse(outcome="injected")

    def _cancel(self, request: acp.CancelNotification) -> None:
        task = self._running.get(request.session_id)
        if task is not None and not self._settings.ignore_cancel:
            task.cancel()

    async def _set_mode(self, request: acp.SetSessionModeRequest) -> acp.Empty:
        saved = self._found(request.session_id)
        if request.mode_id not in {mode.id for mode in _MODES}:
            raise RpcError(-32602, f"no such mode: {request.mode_id!r}")
        saved.mode = request.mode_id
        await self._work(saved).update(acp.CurrentModeUpdate(current_mode_id=saved.mode))
        return acp.Empty()

    async def _set_option(
        self, request: acp.SetSessionConfigOptionRequest
    ) -> acp.SetSessionConfigOptionResponse:
        saved = self._found(request.session_id)
        if request.config_id != "model" or request.value not in _MODELS:
            raise RpcError(-32602, f"cannot set {request.config_id!r} to {request.value!r}")
        saved.model = str(request.value)
        return acp.SetSessionConfigOptionResponse(config_options=_options(saved))

    async def _set_model(self, request: "_SetModel") -> acp.Empty:
        if request.model_id not in _MODELS:
            raise RpcError(-32602, f"no such model: {request.model_id!r}")
        self._found(request.session_id).model = request.model_id
        return acp.Empty()

    async def _set_title(self, request: acp.SetSessionTitleRequest) -> acp.SetSessionTitleResponse:
        self._found(request.session_id).title = request.title
        return acp.SetSessionTitleResponse(title=request.title)

    async def _close(self, request: acp.CloseSessionRequest) -> acp.Empty:
        if task := self._running.get(request.session_id):
            task.cancel()
        return acp.Empty()

    async def _delete(self, request: acp.DeleteSessionRequest) -> acp.Empty:
        self._sessions.forget(request.session_id)
        return acp.Empty()

    def _found(self, id_: str) -> SavedSession:
        saved = self._sessions.find(id_)
        if saved is None:
            raise RpcError(NOT_FOUND, f"no such session: {id_!r}")
        return saved

    def _work(self, saved: SavedSession) -> PromptRun:
        assert self._connection is not None
        assert self._stream is not None
        return PromptRun(self._connection, self._stream, saved, pace=self._settings.pace)


async def _lines(work: PromptRun, lines: list[str]) -> None:
    while lines:
        await run_line(work, lines.pop(0))


def _stop_reason(task: asyncio.Task[None]) -> str:
    if task.cancelled():
        return "cancelled"
    match task.exception():
        case None:
            return "end_turn"
        case StopTurnError(error=None, reason=reason):
            return reason
        case StopTurnError(error=error) if error is not None:
            raise error
        case RpcError() as error:
            raise error
        case error:
            raise RpcError(-32603, f"the command failed: {error!r}")


def _texts(prompt: acp.SystemPrompt | None) -> list[TextContent]:
    blocks = prompt.content if prompt is not None else ()
    return [block for block in blocks if isinstance(block, TextContent)]


def _modes(saved: SavedSession) -> acp.SessionModeState:
    return acp.SessionModeState(current_mode_id=saved.mode, available_modes=_MODES)


def _options(saved: SavedSession) -> tuple[ConfigOption, ...]:
    choices = tuple(ConfigChoice(value=name, name=name) for name in _MODELS)
    model = ConfigOption(
        id="model",
        name="Model",
        type="select",
        category="model",
        current_value=saved.model,
        options=choices,
    )
    return (model,)


async def _serve(settings: argparse.Namespace) -> None:
    stream = await stdio_stream()
    if settings.banner is not None:
        await stream.send(settings.banner.encode() + b"\n")
    await FakeAgent(settings).serve(stream)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the agent on stdin and stdout."""
    settings = options().parse_args(arguments)
    if settings.exit_at_start is not None:
        sys.stderr.write("leaving at once\n")
        sys.exit(settings.exit_at_start)
    if settings.type:
        settings.login_file.write_text(os.environ.get("FAKE_LOGIN", ""))
        sys.exit(0 if os.isatty(0) else 3)
    time.sleep(settings.slow_start)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(settings))
    os._exit(0)  # children and threads of ours must not hold us up
