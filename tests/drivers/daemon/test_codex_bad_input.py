"""A ``codex app-server`` that says what it should not: the test itself is the server."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.daemon.codex.events import CodexServerReader
from quarterdeck.drivers.daemon.codex.items import _CALLS
from quarterdeck.drivers.daemon.codex.link import CodexLink
from quarterdeck.drivers.daemon.codex.requests import CodexRequestHandler
from quarterdeck.drivers.errors import LoginNeededError, OpenFailedError, WrongProtocolError
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    UnknownEvent,
)
from quarterdeck.wire.rpc.stream import ByteStream, memory_pair
from tests.drivers.rigs.daemons import CODEX
from tests.support.contract import judge
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, Rig, drive

ANSWERS: dict[str, Any] = {
    "initialize": {"userAgent": "quarterdeck/0.0.0-test (test)"},
    "account/read": {"requiresOpenaiAuth": False},
    "thread/start": {"thread": {"id": "t"}, "model": "m"},
    "turn/start": {"turn": {"id": "u", "status": "inProgress"}},
    "turn/interrupt": {},
    "thread/backgroundTerminals/clean": {},
}
DONE = {"threadId": "t", "turn": {"id": "u", "status": "completed", "error": None}}


class Server:
    """Answers what it is asked as ``answers`` say; a string there is sent as an error."""

    def __init__(self, stream: ByteStream, answers: dict[str, Any]) -> None:
        self._stream = stream
        self._answers = {**ANSWERS, **answers}
        self.asked: list[str] = []
        self.answered: list[dict[str, Any]] = []

    async def run(self) -> None:
        rest = b""
        with suppress(LinkError):
            while data := await self._stream.receive():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    await self._take(json.loads(line))

    async def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answered.append(message)
            return
        self.asked.append(message["method"])
        answer = self._answers.get(message["method"])
        if "id" not in message or answer is None:
            return
        if isinstance(answer, str):
            error = {"code": -32600, "message": answer}
            await self.put({"id": message["id"], "error": error})
        else:
            await self.put({"id": message["id"], "result": answer})

    async def put(self, message: dict[str, Any]) -> None:
        await self.raw(json.dumps(message).encode() + b"\n")

    async def tell(self, method: str, **params: Any) -> None:
        await self.put({"method": method, "params": {"threadId": "t", "turnId": "u", **params}})

    async def say(self, text: str) -> None:
        await self.tell("item/agentMessage/delta", itemId="i", delta=text)

    async def raw(self, data: bytes) -> None:
        await self._stream.send(data)

    async def until(self, method: str) -> None:
        async with asyncio.timeout(SOON):
            while method not in self.asked:
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        await self._stream.close()


@asynccontextmanager
async def talking(cwd: Path, **answers: Any) -> AsyncGenerator[tuple[Driven, Server]]:
    ours, theirs = memory_pair()
    server = Server(theirs, answers)
    running = asyncio.create_task(server.run())
    rig = Rig(name="codex", make=lambda: CodexLink(CODEX, stream=ours))
    try:
        async with drive(rig, cwd, start_limit=5.0, cancel_limit=1.0) as driven:
            yield driven, server
        judge(driven.heard)
    finally:
        await theirs.close()
        await asyncio.wait([running])


@asynccontextmanager
async def turning(cwd: Path, **answers: Any) -> AsyncGenerator[tuple[Driven, Server]]:
    """In the middle of a turn, which must end well and still hear what is said in its end."""
    async with talking(cwd, **answers) as (driven, server):
        turn = asyncio.create_task(driven.say("go"))
        await server.until("turn/start")
        await server.say("before ")
        yield driven, server
        await server.say("after")
        await server.tell("turn/completed", **DONE)
        assert (await turn).stop == "end_turn"
        assert driven.text == "before after"


class TestLines:
    @pytest.mark.parametrize(
        ("line", "count"),
        [
            (b"garbage", 1),
            (b'{"method": "item/agentMess', 1),
            (b'{"method": "item/agentMessage/delta", "params": {', 1),
            (b"\xff\xfe\x00", 1),
            (b'[1, 2]\n3\nnull\n"x"', 4),
            (b"[" * 100_000, 1),
            (b'{"id": "never-asked", "result": {}}', 0),
            (b'{"id": 99999, "error": {"code": 1, "message": "x"}}', 0),
            (b'{"id": null, "result": 1}', 0),
            (b"\n\r\n  \n", 0),
        ],
    )
    async def test_garbage_is_counted_and_harms_nothing(
        self, tmp_path: Path, line: bytes, count: int
    ):
        async with turning(tmp_path) as (driven, server):
            await server.raw(line + b"\n")
        told = [one.title for one in driven.all(NoticePosted)]
        assert told == (
            [f"{count} lines of its output were not messages and were ignored."] if count else []
        )

    async def test_a_long_line_is_taken_and_one_too_long_ends_the_session(self, tmp_path: Path):
        async with talking(tmp_path) as (driven, server):
            turn = asyncio.create_task(driven.say("go"))
            await server.until("turn/start")
            await server.say("x" * 5_000_000)
            await driven.seen(MessageChunk)
            with suppress(LinkError):
                while True:
                    await server.raw(b"y" * 1_000_000)
            assert (await turn).stop == "failed"
            over = await driven.session.wait()
            assert over.how == "broken" and "longer than the limit" in (over.reason or "")
        assert len(driven.text) == 5_000_000

    async def test_an_output_that_ends_in_the_middle_of_a_line(self, tmp_path: Path):
        async with talking(tmp_path) as (driven, server):
            turn = asyncio.create_task(driven.say("go"))
            await server.until("turn/start")
            await server.say("last words")
            await server.raw(b'{"method": "item/agentMess')
            await server.close()
            assert (await turn).stop == "failed"
            assert (await driven.session.wait()).how == "broken"
        assert driven.text == "last words"


class TestMessages:
    async def test_unknown_notifications_are_told_as_they_are(self, tmp_path: Path):
        async with turning(tmp_path) as (driven, server):
            await server.tell("thread/mystery", deep={"er": [1]})
            await server.put({"method": "no/params"})
        first, second = driven.all(UnknownEvent)
        assert first.raw["params"]["deep"] == {"er": [1]} and second.raw["method"] == "no/params"

    async def test_unknown_requests_are_refused(self, tmp_path: Path):
        async with turning(tmp_path) as (_, server):
            await server.put({"id": 7, "method": "fs/formatDisk", "params": {}})
            async with asyncio.timeout(SOON):
                while not server.answered:
                    await asyncio.sleep(0.001)
        (answer,) = server.answered
        assert answer["id"] == 7 and answer["error"]["code"] == -32601

    async def test_what_is_of_another_thread_is_not_told(self, tmp_path: Path):
        async with turning(tmp_path) as (_, server):
            other = {"threadId": "other", "itemId": "i", "delta": "no"}
            await server.put({"method": "item/agentMessage/delta", "params": other})
            await server.put({"method": "turn/completed", "params": {**DONE, "threadId": "other"}})
            await server.tell("turn/completed", turn={"id": "another", "status": "failed"})

    @pytest.mark.parametrize("value", [None, 0, [], {}, [[]], {"a": None}, True, -1.5])
    async def test_wrong_types_everywhere(
        self, tmp_path: Path, value: Any, caplog: pytest.LogCaptureFixture
    ):
        methods = [*CodexServerReader("codex")._tells, "turn/started", "serverRequest/resolved"]
        odd = dict.fromkeys(("type", "id", "text", "changes", "content", "command"), value)
        more = dict.fromkeys(("summary", "result", "error", "prompt", "contentItems"), value)
        async with turning(tmp_path) as (_, server):
            for method in methods:
                await server.put({"method": method, "params": value})
                for key in ("item", "delta", "tokenUsage", "plan", "error", "rateLimits", "turn"):
                    await server.put({"method": method, "params": {"threadId": "t", key: value}})
                for kind in (None, *_CALLS, "reasoning", "agentMessage", "userMessage"):
                    item = {**odd, **more, "type": kind, "id": f"{method} {kind}"}
                    await server.tell(method, itemId=item["id"], item=item)
                    await server.tell(method, item={"type": kind})
            await server.tell("turn/completed", turn=value)
        assert not [record for record in caplog.records if record.levelname == "ERROR"]

    @pytest.mark.parametrize("value", [None, 0, "x", [], {}, {"questions": [3]}])
    async def test_requests_with_wrong_types_are_answered(self, tmp_path: Path, value: Any):
        methods = list(CodexRequestHandler(_NOBODY)._answers)
        async with turning(tmp_path) as (driven, server):
            for number, method in enumerate(methods):
                await server.put({"id": number, "method": method, "params": value})
            async with asyncio.timeout(SOON):
                while len(server.answered) < len(methods):
                    driven.session.gate.cancel_open()
                    await asyncio.sleep(0.001)
        assert all("result" in one or "error" in one for one in server.answered)

    async def test_what_somebody_else_has_answered_is_withdrawn(self, tmp_path: Path):
        async with turning(tmp_path) as (driven, server):
            asked = {"threadId": "t", "turnId": "u", "itemId": "c", "command": "make"}
            method = "item/commandExecution/requestApproval"
            await server.put({"id": 3, "method": method, "params": asked})
            await server.tell("serverRequest/resolved", requestId=4)
            await driven.seen(PermissionAsked)
            assert not driven.all(PermissionAnswered)
            await server.tell("serverRequest/resolved", requestId=3)
            await driven.seen(PermissionAnswered)


class TestAnswers:
    @pytest.mark.parametrize(
        ("method", "answer", "error"),
        [
            ("initialize", "go away", OpenFailedError),
            ("initialize", {}, WrongProtocolError),
            ("initialize", {"userAgent": 3}, WrongProtocolError),
            ("initialize", [], WrongProtocolError),
            ("thread/start", "no such model", OpenFailedError),
            ("thread/start", {"thread": []}, WrongProtocolError),
            ("thread/start", {"thread": {"id": 5}}, WrongProtocolError),
            ("account/read", {"requiresOpenaiAuth": True, "account": None}, LoginNeededError),
        ],
    )
    async def test_what_cannot_be_opened_is_told(
        self, tmp_path: Path, method: str, answer: Any, error: type[Exception]
    ):
        with pytest.raises(error, match="codex"):
            async with talking(tmp_path, **{method: answer}):
                pass

    async def test_an_older_one_that_cannot_tell_of_accounts_is_taken(self, tmp_path: Path):
        async with turning(tmp_path, **{"account/read": "unknown variant"}):
            pass

    async def test_a_refused_turn_fails_and_the_session_goes_on(self, tmp_path: Path):
        async with talking(tmp_path, **{"turn/start": "the model is on holiday"}) as (
            driven,
            server,
        ):
            ended = await driven.say("go")
            assert (ended.stop, ended.reason) == ("failed", "the model is on holiday")
            server._answers["turn/start"] = ANSWERS["turn/start"]
            turn = asyncio.create_task(driven.say("go"))
            async with asyncio.timeout(SOON):
                while server.asked.count("turn/start") < 2:
                    await asyncio.sleep(0.001)
            await server.tell("turn/completed", **DONE)
            assert (await turn).stop == "end_turn"

    async def test_one_that_does_not_stop_is_ended(self, tmp_path: Path):
        async with talking(tmp_path) as (driven, server):
            turn = asyncio.create_task(driven.say("go"))
            await server.until("turn/start")
            await server.say("on and on")
            await driven.seen(MessageChunk)
            await driven.session.interrupt()
            assert (await turn).stop == "cancelled"
            over = await driven.session.wait()
            assert over.how == "broken" and "did not stop" in (over.reason or "")


class TestProcesses:
    async def test_one_that_ignores_every_request_to_leave_is_killed(self, tmp_path: Path):
        script = (
            "import signal, sys, runpy\n"
            "for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):\n"
            "    signal.signal(one, signal.SIG_IGN)\n"
            "from quarterdeck.testing.daemons import codex\n"
            "import asyncio, time\n"
            "asyncio.run(codex.serve_codex())\n"
            "time.sleep(600)\n"
        )
        launch = replace(CODEX, command=(sys.executable, "-c", script))
        rig = Rig(name="codex", make=lambda: CodexLink(launch))
        async with drive(rig, tmp_path) as driven:
            assert (await driven.say("echo hi")).stop == "end_turn"
        over = await driven.session.wait()
        assert over.how == "closed" and over.signal == signal.SIGKILL.name

    @pytest.mark.parametrize("words", ["print('hello')", "import sys; sys.exit('no config')", ""])
    async def test_another_program_is_told(self, tmp_path: Path, words: str):
        launch = replace(CODEX, command=(sys.executable, "-c", words))
        rig = Rig(name="codex", make=lambda: CodexLink(launch))
        with pytest.raises(OpenFailedError, match="codex") as told:
            async with drive(rig, tmp_path):
                pass
        assert "no config" not in words or "no config" in told.value.stderr


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=st.lists(st.binary(max_size=60), max_size=12))
def test_noise_between_the_lines(noise: list[bytes], tmp_path: Path):
    async def run() -> None:
        async with turning(tmp_path) as (_, server):
            for one in noise:
                await server.raw(one.replace(b"\n", b" ") + b"\n")

    asyncio.run(run())


class _Nobody:
    """A host that is never called."""


_NOBODY: Any = _Nobody()
