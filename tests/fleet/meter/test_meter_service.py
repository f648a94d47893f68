"""Agents of a fleet behind the meter: who is, what they are given, what the log gets."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quarterdeck.cli.fleet.meter import format_meter
from quarterdeck.config.places import Places
from quarterdeck.drivers.agent_description import parse_agent
from quarterdeck.drivers.errors import BadAgentFileError
from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.meter.api import (
    CallEnd,
    CallRefusal,
    MeteredRequest,
    MeteredSession,
    MeterStatus,
    OpenCallGuard,
)
from quarterdeck.fleet.meter.route import make_route
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.events import EMPTY_TURN, ModelCallMetered, NoticePosted, SessionEnded
from quarterdeck.wire.ids import SessionId
from tests.support.scripted_fleet import (
    Casting,
    PlayedLink,
    events_of,
    fleet_of,
    new_agent,
    places_in,
)

if TYPE_CHECKING:
    from quarterdeck.wire.usage import TokenUsage

BODY = (
    b'{"model": "m-1", "max_tokens": 5, "stream": true, '
    b'"messages": [{"role": "user", "content": "scene:text hi"}]}'
)
VARIABLE = "ANTHROPIC_BASE_URL"


@asynccontextmanager
async def cast_in(home: Path) -> AsyncGenerator[tuple[LocalFleet, Casting]]:
    casting = Casting()
    async with fleet_of(home, casting) as fleet:
        yield fleet, casting


def turn_on(places: Places, *agents: str) -> None:
    places.config.mkdir(parents=True, exist_ok=True)
    names = ", ".join(f'"{agent}"' for agent in agents)
    (places.config / "config.toml").write_text(f"[meter]\nagents = [{names}]\n")


async def ask(address: str, body: bytes = BODY) -> bytes:
    """A model call as an agent makes it."""
    host, _, path = address.removeprefix("http://").partition("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    head = f"POST /{path}/v1/messages HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        return await reader.read()
    finally:
        writer.close()


def address_of(casting: Casting, number: int = -1) -> str:
    return casting.links[number].host.opening.options.variables[VARIABLE]


async def calls_of(fleet: LocalFleet, name: str, count: int) -> list[ModelCallMetered]:
    """What the log has about calls, once it is so much."""
    while True:
        events = await events_of(fleet, name)
        found = [event for event in events if isinstance(event, ModelCallMetered)]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.01)


class Guard(OpenCallGuard):
    def __init__(self, answer: Callable[[], CallRefusal | None] = lambda: None) -> None:
        self.answer = answer
        self.settled: list[tuple[SessionId, str | None, TokenUsage | None, bool]] = []

    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        return self.answer()

    async def settle(self, session: SessionId, request: MeteredRequest, end: CallEnd) -> None:
        self.settled.append((session, request.model, end.usage, end.reason is None))


def claude(tmp_path: Path, url: str, **fields: Any):
    return new_agent(tmp_path, name="it", environment={VARIABLE: url}, **fields)


async def test_an_agent_is_behind_the_meter_only_where_a_setting_wants_it(tmp_path: Path):
    async with ModelServer() as server, cast_in(tmp_path) as (fleet, casting):
        await fleet.spawn(claude(tmp_path, server.url))
        await fleet.wait(["it"])
        assert address_of(casting) == server.url
        assert await fleet.meter() == MeterStatus()
        assert next(format_meter(await fleet.meter(), 80)).startswith("The meter is not running")


async def test_calls_are_counted_in_the_log_and_in_the_usage(tmp_path: Path):
    turn_on(places_in(tmp_path), "claude")
    async with ModelServer() as server, cast_in(tmp_path) as (fleet, casting):
        guard = fleet.metering.guard = Guard()
        info = await fleet.spawn(claude(tmp_path, server.url))
        await fleet.wait(["it"])
        assert (await ask(address_of(casting))).startswith(b"HTTP/1.1 200 ")
        started, finished = await calls_of(fleet, "it", 2)
        assert (started.state, started.wire, started.model) == ("started", "anthropic", "m-1")
        assert (finished.state, finished.status, finished.call) == ("finished", 200, started.call)
        assert finished.usage is not None and finished.usage.total > 0
        assert (await fleet.usage()).total.tokens == finished.usage
        assert guard.settled == [(info.session, "m-1", finished.usage, True)]

        status = await fleet.meter()
        (row,) = status.sessions
        assert (row.name, row.agent, row.calls, row.running) == ("it", "claude", 1, 0)
        assert row.upstreams == {"anthropic": server.url}
        assert row.tokens == finished.usage
        secret = address_of(casting).split("/")[3]
        assert status.address is not None and secret not in str(status)
        assert "it" in "\n".join(format_meter(status, 80))
        await fleet.close("it")
        assert secret not in str(await events_of(fleet, "it"))
        assert (await fleet.meter()).sessions == ()


async def test_a_refused_call_is_in_the_log_and_not_at_the_server(tmp_path: Path):
    turn_on(places_in(tmp_path), "*")
    async with ModelServer() as server, cast_in(tmp_path) as (fleet, casting):
        fleet.metering.guard = Guard(lambda: CallRefusal(reason="used up"))
        await fleet.spawn(claude(tmp_path, server.url))
        await fleet.wait(["it"])
        assert b"used up" in await ask(address_of(casting))
        (refused,) = await calls_of(fleet, "it", 1)
        assert (refused.state, refused.reason, refused.usage) == ("refused", "used up", None)
        assert list(server.requests) == []
        assert (await fleet.meter()).sessions[0].refused == 1


class Silent(Casting):
    """Agents that make a model call and show nothing of what became of it."""

    async def starting(self, link: PlayedLink) -> None:
        async def prompt(content: tuple[ContentBlock, ...]) -> TurnOutcome:
            await ask(link.host.opening.options.variables[VARIABLE])
            return TurnOutcome(stop="end_turn")

        link.prompt = prompt


async def test_what_an_agent_does_not_show_of_a_refusal_a_notice_says(tmp_path: Path):
    turn_on(places_in(tmp_path), "*")
    async with ModelServer() as server, fleet_of(tmp_path, Silent()) as fleet:
        fleet.metering.guard = Guard(iter((CallRefusal(reason="used up"), None)).__next__)
        await fleet.spawn(claude(tmp_path, server.url, prompt="go"))
        await fleet.wait(["it"])
        await fleet.send("it", (text("go on"),))
        await calls_of(fleet, "it", 3)
        await fleet.wait(["it"])
        events = await events_of(fleet, "it")
    notices = [one for one in events if isinstance(one, NoticePosted)]
    assert [one.title for one in notices] == [EMPTY_TURN.title] * 2
    assert [one.description for one in notices] == [
        "A model call was refused: used up",
        EMPTY_TURN.description,
    ]


async def test_a_guard_that_fails_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    def fail() -> CallRefusal | None:
        raise RuntimeError("no budget file")

    turn_on(places_in(tmp_path), "claude")
    async with ModelServer() as server, cast_in(tmp_path) as (fleet, casting):
        fleet.metering.guard = Guard(fail)
        await fleet.spawn(claude(tmp_path, server.url))
        await fleet.wait(["it"])
        assert b"could not be checked" in await ask(address_of(casting))
        assert list(server.requests) == []
    assert "no budget file" in caplog.text
    caplog.clear()


async def test_a_secret_ends_with_the_run_and_another_run_has_another(tmp_path: Path):
    turn_on(places_in(tmp_path), "claude")
    async with ModelServer() as server, cast_in(tmp_path) as (fleet, casting):
        await fleet.spawn(claude(tmp_path, server.url))
        await fleet.wait(["it"])
        first = address_of(casting)
        await fleet.close("it")
        assert (await ask(first)).startswith(b"HTTP/1.1 403 ")
        await fleet.spawn(new_agent(tmp_path, name="other", environment={VARIABLE: server.url}))
        await fleet.wait(["other"])
        assert address_of(casting) != first
        assert (await ask(first)).startswith(b"HTTP/1.1 403 ")
        assert (await ask(address_of(casting))).startswith(b"HTTP/1.1 200 ")
        await calls_of(fleet, "other", 2)


async def test_what_a_call_used_is_written_when_the_fleet_stops_in_the_middle(tmp_path: Path):
    turn_on(places_in(tmp_path), "claude")
    places = places_in(tmp_path)
    async with ModelServer() as server:
        async with cast_in(tmp_path) as (fleet, casting):
            await fleet.spawn(claude(tmp_path, server.url))
            await fleet.wait(["it"])
            hanging = BODY.replace(b"scene:text hi", b"scene:hang")
            asking = asyncio.ensure_future(ask(address_of(casting), hanging))
            await calls_of(fleet, "it", 1)
        await asyncio.gather(asking, return_exceptions=True)
        async with LocalFleet.open(places, {}) as fleet:
            events = await events_of(fleet, "it")
    calls = [event for event in events if isinstance(event, ModelCallMetered)]
    assert [one.state for one in calls] == ["started", "finished"]
    assert any(isinstance(event, SessionEnded) for event in events)


async def test_an_agent_that_cannot_be_led_there_says_so(tmp_path: Path):
    turn_on(places_in(tmp_path), "*")
    async with cast_in(tmp_path) as (fleet, _):
        for name, agent in (("one", "amp"), ("two", "goose")):
            await fleet.spawn(new_agent(tmp_path, agent, name=name))
            await fleet.wait([name])
            notices = [e for e in await events_of(fleet, name) if isinstance(e, NoticePosted)]
            assert any("do not pass the meter" in one.title for one in notices)
        assert (await fleet.meter()).sessions == ()


async def test_a_base_url_that_is_none_stops_the_start_with_a_reason(tmp_path: Path):
    turn_on(places_in(tmp_path), "claude")
    async with cast_in(tmp_path) as (fleet, _):
        await fleet.spawn(claude(tmp_path, "gopher://x"))
        (ended,) = await fleet.wait(["it"])
        assert ended.state == "failed"
        assert "base URL" in (ended.reason or "")
        assert (await fleet.meter()).sessions == ()


# What an agent is given

AGENT = {
    "inherit": ["LAB_URL"],
    "meter": {
        "plain": {"variable": "LAB_URL", "upstream": "https://default.example/v1"},
        "worded": {
            "upstream": "https://words.example",
            "words": ["-c", 'url="{}"'],
            "environment": {"SETTINGS": '{"a": {"url": "{}"}}'},
            "requires": "LAB_KEY",
        },
    },
    "transports": {"acp": {"command": ["x"]}},
}
HERE = "http://127.0.0.1:1/secret"


def test_an_agents_own_base_url_is_the_upstream_and_settings_are_merged():
    agent = parse_agent("lab", AGENT, ("lab.toml",))
    route = make_route(agent, HERE, {}, {})
    assert route is not None
    assert route.environment == {"LAB_URL": f"{HERE}/plain"}
    assert route.upstreams["plain"].address == "https://default.example"
    own = {"LAB_KEY": "k", "SETTINGS": '{"a": {"b": 1}}', "HTTPS_PROXY": "p", "no_proxy": "x.y"}
    route = make_route(agent, HERE, own, {"LAB_URL": "http://other.example:8/v2/"})
    assert route is not None
    assert route.upstreams["plain"].address == "http://other.example:8"
    assert route.upstreams["plain"].path == "/v2"
    assert route.environment["SETTINGS"] == f'{{"a":{{"b":1,"url":"{HERE}/worded"}}}}'
    assert route.environment["NO_PROXY"] == "x.y,127.0.0.1,localhost"
    assert route.arguments == ("-c", f'url="{HERE}/worded"')


@pytest.mark.parametrize(
    "endpoint",
    [
        {},
        {"upstream": "https://x"},
        {"words": ["a"]},
        {"upstream": "x.example", "variable": "A"},
        {"variable": "A", "words": ["\0"]},
        {"variables": "A"},
    ],
)
def test_an_endpoint_that_cannot_work_is_named(endpoint: dict[str, Any]):
    with pytest.raises(BadAgentFileError, match="meter"):
        parse_agent("lab", {**AGENT, "meter": {"it": endpoint}}, ("lab.toml",))
    with pytest.raises(BadAgentFileError, match="meter"):
        parse_agent("lab", {**AGENT, "meter": {"A/b": {"variable": "A"}}}, ("lab.toml",))


def test_the_command_says_what_could_not_be_counted():
    row = MeteredSession(
        session=SessionId("s"), name="a\x1b", agent="claude", upstreams={"x": "http://h"}
    )
    shown = MeterStatus(address="http://127.0.0.1:5", sessions=(row,))
    assert "\x1b" not in "\n".join(format_meter(shown, 80))
    partly = MeterStatus(
        address="http://127.0.0.1:5",
        sessions=(MeteredSession(**{**_fields(row), "uncounted": 2}),),
    )
    assert "2 answers" in "\n".join(format_meter(partly, 80))
    assert "No live agent" in "\n".join(format_meter(MeterStatus(address="http://x"), 80))


def _fields(row: MeteredSession) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
