"""Two sides of a connection in memory: typed calls, refusals, extensions, order."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from quarterdeck.wire.acp.connection import PROTOCOL_VERSION, AcpConnection, Router, negotiate
from quarterdeck.wire.acp.errors import MalformedAnswerError, UnstableMethodError
from quarterdeck.wire.acp.schema import (
    INITIALIZE,
    SESSION_CANCEL,
    SESSION_FORK,
    SESSION_LIST,
    SESSION_PROMPT,
    SESSION_SET_MODE,
    SESSION_UPDATE,
    AgentMessageChunk,
    CancelNotification,
    Empty,
    ForkSessionRequest,
    ForkSessionResponse,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    PromptRequest,
    PromptResponse,
    SessionNotification,
    SetSessionModeRequest,
    UnknownUpdate,
)
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc import MethodNotFoundError, Peer, memory_pair


@asynccontextmanager
async def connected(agent: Router, client: Router):
    near, far = memory_pair()
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(AcpConnection(near, agent, name="client"))
        theirs = await stack.enter_async_context(AcpConnection(far, client, name="agent"))
        yield ours, theirs


async def initialize(request: InitializeRequest) -> InitializeResponse:
    return InitializeResponse(protocol_version=negotiate(request.protocol_version))


def agent_router(**options: bool) -> Router:
    router = Router("agent", **options)
    router.on(INITIALIZE, initialize)
    return router


async def test_updates_arrive_in_order_before_the_answer():
    got: list[str] = []
    agent, client = agent_router(), Router("client")

    async def prompt(request: PromptRequest) -> PromptResponse:
        for word in ("a", "b", "c"):
            chunk = AgentMessageChunk(content=text(word))
            note = SessionNotification(session_id=request.session_id, update=chunk)
            await ours.send(SESSION_UPDATE, note)
        return PromptResponse(stop_reason="end_turn")

    def update(note: SessionNotification) -> None:
        assert isinstance(note.update, AgentMessageChunk)
        assert isinstance(note.update.content, TextContent)
        got.append(note.update.content.text)

    agent.on(SESSION_PROMPT, prompt)
    client.on(SESSION_UPDATE, update)
    async with connected(agent, client) as (ours, theirs):
        answer = await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
        assert answer.protocol_version == 1
        done = await theirs.call(
            SESSION_PROMPT, PromptRequest(session_id="s", prompt=(text("go"),))
        )
        assert (done.stop_reason, got) == ("end_turn", ["a", "b", "c"])


async def test_requests_before_initialize_are_refused():
    agent = agent_router()

    async def listing(_: ListSessionsRequest) -> ListSessionsResponse:
        return ListSessionsResponse(sessions=())

    agent.on(SESSION_LIST, listing)
    async with connected(agent, Router("client")) as (_, theirs):
        with pytest.raises(RpcError) as caught:
            await theirs.call(SESSION_LIST, ListSessionsRequest())
        assert caught.value.code == -32600
        await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
        assert (await theirs.call(SESSION_LIST, ListSessionsRequest())).sessions == ()


async def test_failed_initialize_does_not_open_the_door():
    async with connected(agent_router(), Router("client")) as (_, theirs):
        with pytest.raises(RpcError) as caught:
            await theirs.peer.request("initialize", {"protocolVersion": "one"})
        assert caught.value.code == -32602
        with pytest.raises(RpcError) as caught:
            await theirs.call(SESSION_LIST, ListSessionsRequest())
        assert caught.value.code == -32600


async def test_unhandled_request_is_method_not_found():
    agent = agent_router(initialize_first=False)
    async with connected(agent, Router("client")) as (_, theirs):
        with pytest.raises(RpcError) as caught:
            await theirs.call(SESSION_SET_MODE, SetSessionModeRequest(session_id="s", mode_id="m"))
        assert caught.value.code == -32601


async def test_wrong_params_are_invalid_params():
    agent = agent_router()

    async def prompt(_: PromptRequest) -> PromptResponse:
        raise AssertionError("not reached")

    agent.on(SESSION_PROMPT, prompt)
    async with connected(agent, Router("client")) as (_, theirs):
        await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
        with pytest.raises(RpcError) as caught:
            await theirs.peer.request("session/prompt", {"sessionId": 1, "prompt": []})
        assert caught.value.code == -32602
        assert "sessionId" in caught.value.message


async def test_unstable_messages_are_refused_in_both_directions():
    async def fork(_: ForkSessionRequest) -> ForkSessionResponse:
        return ForkSessionResponse(session_id="t")

    request = ForkSessionRequest(session_id="s", cwd="/")
    agent = agent_router(initialize_first=False)
    agent.on(SESSION_FORK, fork)
    async with connected(agent, Router("client", unstable=True)) as (_, theirs):
        with pytest.raises(RpcError) as caught:
            await theirs.call(SESSION_FORK, request)
        assert caught.value.code == -32601
    async with connected(agent, Router("client")) as (_, theirs):
        with pytest.raises(UnstableMethodError, match="unstable=True"):
            await theirs.call(SESSION_FORK, request)


async def test_unstable_messages_work_with_leave():
    async def fork(request: ForkSessionRequest) -> ForkSessionResponse:
        return ForkSessionResponse(session_id=request.session_id + "'")

    agent = agent_router(unstable=True, initialize_first=False)
    agent.on(SESSION_FORK, fork)
    async with connected(agent, Router("client", unstable=True)) as (_, theirs):
        forked = await theirs.call(SESSION_FORK, ForkSessionRequest(session_id="s", cwd="/"))
        assert forked.session_id == "s'"


async def test_extensions_go_to_the_fallback_and_else_are_unknown():
    heard: list[str] = []

    async def extension(method: str, params: msgspec.Raw | None) -> object:
        if method != "_echo":
            raise MethodNotFoundError(method)
        return params

    agent = agent_router(initialize_first=False)
    agent.on_extension(extension)
    agent.on_extension_notification(lambda method, _: heard.append(method))
    async with connected(agent, Router("client")) as (ours, theirs):
        raw = await theirs.peer.request("_echo", {"x": 1})
        assert msgspec.json.decode(raw) == {"x": 1}
        for connection, method in ((theirs, "_other"), (ours, "_echo")):
            with pytest.raises(RpcError) as caught:
                await connection.peer.request(method, {})
            assert caught.value.code == -32601
        await theirs.peer.notify("_note", {})
        await theirs.peer.request("_echo", {})
        assert heard == ["_note"]


async def test_unknown_notification_is_ignored_and_the_link_lives():
    agent = agent_router()
    async with connected(agent, Router("client")) as (ours, theirs):
        await theirs.peer.notify("session/whatever", {})
        await theirs.peer.notify("$/progress", {})
        await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
        assert ours.peer.counters.ignored == 2


async def test_messages_of_the_wrong_side_are_a_mistake():
    client = Router("client")
    with pytest.raises(ValueError, match="for the agent"):
        client.on(INITIALIZE, initialize)
    async with connected(agent_router(), client) as (ours, _):
        with pytest.raises(ValueError, match="sent to the agent"):
            await ours.call(INITIALIZE, InitializeRequest(protocol_version=1))


async def test_null_counts_as_an_empty_result_and_a_wrong_one_is_named():
    class Loose:
        async def on_request(self, method: str, params: object, context: object) -> object:
            return None

        def on_notification(self, method: str, params: object) -> None:
            return None

    near, far = memory_pair()
    async with Peer(near, Loose()), AcpConnection(far, Router("client")) as theirs:
        request = SetSessionModeRequest(session_id="s", mode_id="m")
        assert await theirs.call(SESSION_SET_MODE, request) == Empty()
        with pytest.raises(MalformedAnswerError, match=r"session/list.*sessions"):
            await theirs.call(SESSION_LIST, ListSessionsRequest())


async def test_unknown_update_is_delivered_and_passed_on_as_it_came():
    first: list[SessionNotification] = []
    seen: list[bytes] = []
    client = Router("client")
    client.on(SESSION_UPDATE, first.append)
    update = {"sessionUpdate": "weather", "sun": [1, 2]}
    near, far = memory_pair()
    async with (
        AcpConnection(near, agent_router()) as ours,
        AcpConnection(far, client, observers=[lambda _, frame: seen.append(frame)]) as theirs,
    ):
        await ours.peer.notify(
            "session/update", {"sessionId": "s", "update": update, "_meta": {"a": 1}}
        )
        await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
        assert isinstance(first[0].update, UnknownUpdate)
        assert first[0].update.kind == "weather"
        await ours.send(SESSION_UPDATE, first[0])
        await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
    frames = [msgspec.json.decode(f) for f in seen if b"weather" in f]
    assert frames[0] == frames[1]


async def test_meta_overrides_nothing():
    got: list[CancelNotification] = []
    agent = agent_router()
    agent.on(SESSION_CANCEL, got.append)
    async with connected(agent, Router("client")) as (_, theirs):
        meta = {"sessionId": "EVIL", "session_id": "EVIL"}
        await theirs.send(SESSION_CANCEL, CancelNotification(session_id="s", meta=meta))
        await theirs.call(INITIALIZE, InitializeRequest(protocol_version=1))
    assert [(note.session_id, note.meta) for note in got] == [("s", meta)]


async def test_cancel_finds_the_turn_that_runs():
    running = asyncio.Event()
    cancelled = asyncio.Event()

    async def prompt(_: PromptRequest) -> PromptResponse:
        running.set()
        await cancelled.wait()
        return PromptResponse(stop_reason="cancelled")

    agent = agent_router(initialize_first=False)
    agent.on(SESSION_PROMPT, prompt)
    agent.on(SESSION_CANCEL, lambda _: cancelled.set())
    async with connected(agent, Router("client")) as (_, theirs), asyncio.TaskGroup() as group:
        turn = group.create_task(
            theirs.call(SESSION_PROMPT, PromptRequest(session_id="s", prompt=()))
        )
        await running.wait()
        await theirs.send(SESSION_CANCEL, CancelNotification(session_id="s"))
        assert (await turn).stop_reason == "cancelled"


@pytest.mark.parametrize("requested", [0, 1, 2, 65535])
def test_a_version_that_we_do_not_speak_is_not_echoed(requested: int):
    assert negotiate(requested) == PROTOCOL_VERSION == 1
