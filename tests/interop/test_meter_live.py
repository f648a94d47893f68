"""Real agents through the meter, on the scripted model: the same transcript with and without it,
usage as the model server counted it, and a refusal by a budget that the agent shows.
"""

import asyncio
import json
import os
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.budgets import parse_limit
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    BudgetReserved,
    BudgetSettled,
    Event,
    MessageChunk,
    ModelCallMetered,
    NoticePosted,
    ToolCallEnded,
    TurnEnded,
)
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import TokenUsage
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
LONG = 100.0
REASON = "the budget of 100 tok for it and all that it starts is used up"

AGENTS = {
    "claude-pipe": ("claude", "claude", "pipe"),
    "codex-acp": ("codex", "codex-acp", "acp"),
    "codex-pipe": ("codex", "codex", "pipe"),
    "codex-daemon": ("codex", "codex", "daemon"),
    "gemini-acp": ("gemini", "gemini", "acp"),
    "gemini-pipe": ("gemini", "gemini", "pipe"),
    "opencode-acp": ("opencode", "opencode", "acp"),
    "opencode-pipe": ("opencode", "opencode", "pipe"),
    "qwen-acp": ("qwen", "qwen", "acp"),
    "goose-acp": ("goose", "goose", "acp"),
    "kimi-acp": ("kimi", "kimi", "acp"),
}
LATE_CALLS = {"codex-acp": 2}
"""Calls of a first turn, where some are made after it: this program asks for a title then."""
OWN_PROVIDERS = {
    "codex": """
[meter.lab]
upstream = "{url}/v1"
words = ["-c", 'model_providers.lab.base_url="{}"']
[meter.lab.environment]
CODEX_CONFIG = '{"model_provider":"lab","model_providers":{"lab":{"base_url":"{}"}}}'
""",
    "opencode": """
[meter.lab]
upstream = "{url}/v1"
environment = { OPENCODE_CONFIG_CONTENT = '{"provider":{"lab":{"options":{"baseURL":"{}"}}}}' }
""",
}
"""Agents whose model server stands in their own settings: the person's file names it."""


def told(events: list[Event]) -> str:
    """All that the agent said, without how it was cut into pieces."""
    return "".join(
        event.content.text
        for event in events
        if isinstance(event, MessageChunk) and isinstance(event.content, TextContent)
    )


def shape(events: list[Event]) -> list[str]:
    found: list[str] = []
    for event in events:
        match event:
            case ToolCallEnded():
                found.append(f"call {event.status}")
            case TurnEnded():
                found.append(f"turn {event.stop} {event.usage}")
            case _:
                pass
    return found


async def run(
    case: str, folder: Path, server: ModelServer, *, metered: bool, budget: str | None = None
) -> tuple[list[Event], TokenUsage, list[ModelCallMetered]]:
    name, program, transport = AGENTS[case]
    places = places_in(folder / "fleet")
    places.config.mkdir(parents=True, exist_ok=True)
    if metered:
        (places.config / "config.toml").write_text(f'[meter]\nagents = ["{name}"]\n')
        if name in OWN_PROVIDERS:
            places.agents.mkdir(parents=True, exist_ok=True)
            text = OWN_PROVIDERS[name].replace("{url}", server.url)
            (places.agents / f"{name}.toml").write_text(text)
    work = folder / "work"
    work.mkdir()
    variables = real_agents.environment(program, folder / "home", server.url)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    async with LocalFleet.open(places, environment) as fleet:
        options = SessionOptions(
            agent=name,
            transport=transport,
            cwd=str(work),
            environment=variables,
            model=real_agents.model_of(program) if name in ("gemini", "opencode") else None,
        )
        limits = (parse_limit(budget),) if budget is not None else ()
        spawn = SpawnOptions(options=options, name="it", prompt="scene:text hello", budget=limits)
        await fleet.spawn(spawn)
        (rested,) = await fleet.wait(["it"], timeout=LONG)
        assert rested.state in ("idle", "failed", "waiting"), rested
        if budget is not None:
            await raise_budget(fleet, server)
        else:
            await wait_for_calls(case, fleet, server, metered)
        await fleet.close("it")
        report = await fleet.usage("agent")
        events = await events_of(fleet, "it")
    calls = [event for event in events if isinstance(event, ModelCallMetered)]
    return events, report.total.tokens, calls


async def raise_budget(fleet: LocalFleet, server: ModelServer) -> None:
    """Answer the question about the budget; the agent goes on, and is answered."""
    async with asyncio.timeout(LONG):
        while not any(isinstance(one, TurnEnded) for one in await events_of(fleet, "it")):
            await asyncio.sleep(0.1)
    assert served(server, WIRES) == 0
    (item,) = await fleet.inbox()
    assert item.question is not None
    assert REASON in item.question.text.lower()
    await fleet.reply(item.request, "accept", content={"raise_by": "1mtok"})
    async with asyncio.timeout(LONG):
        while not any(isinstance(one, BudgetSettled) for one in await events_of(fleet, "it")):
            await asyncio.sleep(0.1)
    await fleet.wait(["it"], timeout=LONG)


async def wait_for_calls(case: str, fleet: LocalFleet, server: ModelServer, metered: bool) -> None:
    async with asyncio.timeout(LONG):
        while served(server, WIRES) < LATE_CALLS.get(case, 1):
            await asyncio.sleep(0.1)
        while metered and any(one.running for one in (await fleet.meter()).sessions):
            await asyncio.sleep(0.1)


def served(server: ModelServer, wires: tuple[str, ...]) -> int:
    return sum(one.wire in wires and one.outcome == "done" for one in server.requests)


WIRES = ("anthropic", "responses", "chat", "gemini")


@pytest.mark.parametrize("case", AGENTS)
async def test_the_transcript_is_the_same_with_and_without_the_meter(case: str, tmp_path: Path):
    real_agents.need(AGENTS[case][1])
    async with ModelServer() as server:
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
        plain, reported, none = await run(case, tmp_path / "a", server, metered=False)
        direct = served(server, WIRES)
        assert none == []
        seen = {one.path for one in server.requests}
        server.requests.clear()
        metered, counted, calls = await run(case, tmp_path / "b", server, metered=True)
        assert told(metered) == told(plain) != ""
        assert [one.partition(" TokenUsage")[0] for one in shape(metered)] == [
            one.partition(" TokenUsage")[0] for one in shape(plain)
        ]
        finished = [one for one in calls if one.state == "finished"]
        assert len(finished) == served(server, WIRES) == direct > 0
        assert {one.path for one in server.requests} == seen
        assert all(one.usage is not None and one.reason is None for one in finished)
        sums = TokenUsage()
        for one in finished:
            sums += one.usage or TokenUsage()
        by_server = TokenUsage()
        for one in server.requests:
            if one.wire in WIRES and one.usage is not None:
                by_server += one.usage
        assert counted == sums
        assert sums == by_server
        assert sums.output > 0
        # Some agents leave calls out, such as the one for a title.
        assert reported.total <= sums.total * 1.05
        text = json.dumps([str(event) for event in metered])
        assert "127.0.0.1" not in text.replace(server.url, "")


@pytest.mark.parametrize("case", AGENTS)
async def test_a_budget_refuses_in_words_that_the_agent_shows_until_it_is_raised(
    case: str, tmp_path: Path
):
    real_agents.need(AGENTS[case][1])
    async with ModelServer() as server:
        events, counted, calls = await run(case, tmp_path, server, metered=True, budget="100tok")
    refused = [one for one in calls if one.state == "refused"]
    assert refused
    assert all((one.reason or "").startswith(REASON) for one in refused)
    assert len(refused) < 5, "it must not ask again and again"
    ended = next(event for event in events if isinstance(event, TurnEnded))
    before = events[: events.index(ended) + 1]
    notices = [f"{e.title} {e.description}" for e in events if isinstance(e, NoticePosted)]
    assert REASON in f"{told(before)} {ended.reason} {notices}", shape(events)
    # Then it goes on, each call reserved and counted once.
    finished = [one for one in calls if one.state == "finished" and one.usage is not None]
    assert finished
    assert counted == sum((one.usage or TokenUsage() for one in finished), TokenUsage())
    reserved = {one.reservation for one in events if isinstance(one, BudgetReserved)}
    settled = {one.reservation: one.how for one in events if isinstance(one, BudgetSettled)}
    assert reserved == settled.keys() == {one.call for one in calls if one.state == "started"}
    assert all(settled[one.call] == "reported" for one in finished)
