"""A server that does wrong: the turn says so in words, and the session goes on with all it had."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.session import Session
from quarterdeck.config.places import Places
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.wire.content import text
from quarterdeck.wire.events import TurnEnded
from tests.support.http_server import Exchange, Server, serving

KEY = "sk-very-secret"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **rest: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice], **rest}).encode() + b"\n\n"


def words(said: str) -> tuple[bytes, ...]:
    return chunk({"role": "assistant", "content": said}), chunk({}, "stop"), b"data: [DONE]\n\n"


class Answers:
    """Answers requests one after the other; the last one for good."""

    def __init__(self, *answers: Callable[[Exchange], Any]) -> None:
        self._answers = list(answers)

    async def __call__(self, exchange: Exchange) -> None:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        await answer(exchange)


async def well(exchange: Exchange) -> None:
    await exchange.stream(*words("All is well."))


async def no_key(exchange: Exchange) -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}}
    await exchange.reply(401, json.dumps(body).encode())


async def no_model(exchange: Exchange) -> None:
    body = {"error": {"message": "The model `big` does not exist", "code": "model_not_found"}}
    await exchange.reply(404, json.dumps(body).encode())


async def lies_about_usage(exchange: Exchange) -> None:
    usage = {"prompt_tokens": -5, "completion_tokens": "many", "total_tokens": 10**30}
    await exchange.stream(chunk({"content": "Trust me."}), chunk({}, "stop", usage=usage))


async def overstates_usage(exchange: Exchange) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    usage["prompt_tokens_details"] = {"cached_tokens": 10_000}
    await exchange.stream(chunk({"content": "Trust me."}), chunk({}, "stop", usage=usage))


@asynccontextmanager
async def session_at(
    tmp_path: Path, url: str, **variables: str
) -> AsyncIterator[tuple[NativeAgent, Session]]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    environment = {"HOME": str(tmp_path), "DEEPSEEK_BASE_URL": url, "DEEPSEEK_API_KEY": KEY}
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    options = NativeSessionOptions.of(model="deepseek/big", flags={"limits": {"retries": 0}})
    async with NativeAgent(places, environment | variables) as agent:
        yield agent, await agent.new(options.at(str(work)))


async def prompt(session: Session, said: str) -> TurnEnded:
    return await session.prompt((text(said),))


def asked(server: Server) -> list[Any]:
    """What the server was last asked, without what the system said."""
    return json.loads(server.requests[-1].body)["messages"][1:]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(no_key, "DEEPSEEK_API_KEY"), (no_model, "big")],
)
async def test_a_refusal_is_told_and_the_session_goes_on(
    tmp_path: Path, answer: Callable[[Exchange], Any], reason: str
):
    async with (
        serving(Answers(answer, well)) as server,
        session_at(tmp_path, server.url) as (_, session),
    ):
        failed = await prompt(session, "one")
        again = await prompt(session, "two")
    assert failed.stop == "failed"
    assert reason in (failed.reason or "")
    assert KEY not in (failed.reason or "")
    assert again.stop == "end_turn"
    told = json.dumps(asked(server))
    assert "one" in told
    assert "two" in told


async def test_a_server_that_is_not_there_is_told_and_the_session_goes_on(tmp_path: Path):
    async with serving(well) as server:
        url = server.url
    async with session_at(tmp_path, url) as (agent, session):
        failed = await prompt(session, "one")
        assert failed.stop == "failed"
        assert "127.0.0.1" in (failed.reason or "")
        id_ = session.id
    async with (
        serving(well) as server,
        session_at(tmp_path, server.url) as (agent, _),
    ):
        session = await agent.load(id_, options=NativeSessionOptions.of(model="deepseek/big"))
        assert (await prompt(session, "two")).stop == "end_turn"
        assert [each["role"] for each in asked(server)] == ["user"]
        assert "one" in json.dumps(asked(server))


@pytest.mark.parametrize("answer", [lies_about_usage, overstates_usage])
async def test_a_server_that_lies_about_usage_breaks_nothing(
    tmp_path: Path, answer: Callable[[Exchange], Any]
):
    async with (
        serving(Answers(answer, well)) as server,
        session_at(tmp_path, server.url) as (_, session),
    ):
        ended = await prompt(session, "one")
        assert ended.stop == "end_turn"
        assert (await prompt(session, "two")).stop == "end_turn"
    usage = ended.usage
    assert usage is not None
    assert usage.input >= (usage.cached or 0) >= 0
    assert usage.output >= 0
    assert "Trust me." in json.dumps(asked(server))


async def test_an_unknown_vendor_or_a_missing_key_is_refused_and_the_session_stays(tmp_path: Path):
    async with serving(well) as server, session_at(tmp_path, server.url) as (_, session):
        for name, reason in (("nobody/x", "nobody"), ("openrouter/x", "OPENROUTER_API_KEY")):
            with pytest.raises(ModelSetupError) as caught:
                await session.set_model(name)
            assert reason in str(caught.value)
        assert session.model.name == "deepseek/big"
        assert (await prompt(session, "one")).stop == "end_turn"
