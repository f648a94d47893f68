"""Tests of an agent without a model: scripted replies, asserts on events, a replay, a fleet."""

import asyncio
from pathlib import Path

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.testing.event_sequence import assert_events, assert_in_order
from quarterdeck.testing.pytest import assert_replay
from quarterdeck.testing.scripted_agent import call, reply
from quarterdeck.wire.events import PermissionAnswered, ToolCallEnded, TurnEnded


def test_an_edit_needs_permission(quarterdeck_agent):
    async def scene():
        write = reply(call("write", path="notes.txt", content="high water\n"))
        async with quarterdeck_agent(write, "Written.") as agent:
            turn = asyncio.create_task(agent.prompt("Write a note."))
            agent.answer(await agent.wait_for_permission(), "allow_once")
            await turn
            assert (agent.cwd / "notes.txt").read_text() == "high water\n"
            assert_in_order(
                await agent.events(),
                "permission_asked",
                PermissionAnswered,
                lambda event: event.status == "completed",
                TurnEnded,
            )

    asyncio.run(scene())


def test_a_rule_denies_a_command(quarterdeck_agent):
    async def scene():
        remove = reply(call("bash", command="rm -rf build"))
        async with quarterdeck_agent(remove, "I may not.", deny=("bash(rm:*)",)) as agent:
            await agent.prompt("Clean up.")
            assert_events(await agent.events(ToolCallEnded), lambda event: event.status == "failed")
            # The model was sent why.
            assert "not allowed" in str(agent.model.requests[-1].messages[-1])

    asyncio.run(scene())


def test_a_run_becomes_a_test(quarterdeck_agent):
    async def scene():
        command = reply(call("bash", command="echo ebb"))
        async with quarterdeck_agent(command, "Done.", allow=("bash(echo:*)",)) as agent:
            await agent.prompt("Say ebb.")
            assert_replay(await agent.replay())
            # What would another rule have decided?
            stricter = await agent.replay(deny=("bash(echo:*)",))
            assert [str(one.place) for one in stricter.divergences] == ["turn 1, step 1"]

    asyncio.run(scene())


def test_a_recorded_session_runs_as_it_did(quarterdeck_replay):
    report = quarterdeck_replay(Path(__file__).with_name("session.jsonl"))
    # The system prompt names the directory and the program's version may differ from then.
    assert {one.what for one in report.divergences} <= {"system prompt"}
    assert report.steps == 2


def test_two_agents_of_a_fleet(quarterdeck_fleet, tmp_path):
    async def scene():
        async with quarterdeck_fleet() as fleet:
            for name in ("ann", "bob"):
                options = SpawnOptions.of(
                    name=name, cwd=str(tmp_path), model="scripted/default", prompt="hello"
                )
                await fleet.spawn(options)
            resting = await fleet.wait(("ann", "bob"), timeout=30)
            assert {agent.name for agent in resting} == {"ann", "bob"}

    asyncio.run(scene())
