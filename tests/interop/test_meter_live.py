"""Real agents through the meter, on the scripted model: the same transcript with and without it,
usage as the model server counted it, and a refusal that the agent shows.
"""

import json
import os
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.meter.api import CallRefusal, MeteredRequest, OpenCallGuard
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    ModelCallMetered,
    NoticePosted,
    ToolCallEnded,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import TokenUsage
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
LONG = 100.0
REASON = "the budget of this test is used up: 5.00 of 5.00 USD"

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
LEAKS = {"codex-acp"}
"""Agents that may make a call which does not pass the meter: its ACP program now and then makes a
second one, to which the settings of the session do not apply."""
OWN_PROVIDERS = {
    "codex": """
[meter.lab]
upstream = "{url}/v1"
words = ["-c", 'model_providers.lab.base_url="{}"']
environment = { CODEX_CONFIG = '{"model_providers":{"lab":{"base_url":"{}"}}}' }
""",
    "opencode": """
[meter.lab]
upstream = "{url}/v1"
environment = { OPENCODE_CONFIG_CONTENT = '{"provider":{"lab":{"options":{"baseURL":"{}"}}}}' }
""",
}
"""Agents whose model server stands in their own settings: the person's file names it."""


class Refusing(OpenCallGuard):
    async def authorize(self, session: SessionId, request: MeteredRequest) -> CallRefusal | None:
        return CallRefusal(reason=REASON)


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
    case: str, folder: Path, server: ModelServer, *, metered: bool, refuses: bool = False
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
        if refuses:
            fleet.metering.guard = Refusing()
        options = SessionOptions(
            agent=name,
            transport=transport,
            cwd=str(work),
            environment=variables,
            model=real_agents.model_of(program) if name in ("gemini", "opencode") else None,
        )
        await fleet.spawn(SpawnOptions(options=options, name="it", prompt="scene:text hello"))
        (rested,) = await fleet.wait(["it"], timeout=LONG)
        assert rested.state in ("idle", "failed"), rested
        await fleet.close("it")
        report = await fleet.usage("agent")
        events = await events_of(fleet, "it")
    calls = [event for event in events if isinstance(event, ModelCallMetered)]
    return events, report.total.tokens, calls


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
        if case not in LEAKS:
            assert len(finished) == served(server, WIRES) == direct
        assert finished
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
        assert sums == by_server or (case in LEAKS and sums.total < by_server.total)
        assert sums.output > 0
        # Some agents leave calls out, such as the one for a title.
        assert reported.total <= sums.total * 1.05
        text = json.dumps([str(event) for event in metered])
        assert "127.0.0.1" not in text.replace(server.url, "")


SHOWN = [one for one in AGENTS if not one.startswith(("goose", "kimi", "qwen"))]


@pytest.mark.parametrize("case", SHOWN)
async def test_a_refusal_is_shown_by_the_agent_and_no_call_goes_out(case: str, tmp_path: Path):
    real_agents.need(AGENTS[case][1])
    async with ModelServer() as server:
        events, counted, calls = await run(case, tmp_path, server, metered=True, refuses=True)
        assert served(server, WIRES) == 0
        assert counted == TokenUsage()
        assert {one.state for one in calls} == {"refused"}
        assert {one.reason for one in calls} == {REASON}
        ended = next(event for event in events if isinstance(event, TurnEnded))
        notices = [f"{e.title} {e.description}" for e in events if isinstance(e, NoticePosted)]
        assert REASON in f"{told(events)} {ended.reason} {notices}", shape(events)
        assert len(calls) < 5, "it must not ask again and again"
