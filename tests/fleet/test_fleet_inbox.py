"""One inbox for all: answered from anywhere, once."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from quarterdeck.fleet.errors import NoSuchAgentError, NoSuchRequestError
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    QuestionAnswered,
)
from quarterdeck.wire.ids import RequestId, new_session_id
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent

KINDS = ("claude", "codex", "gemini")


async def test_fifty_requests_of_ten_agents_are_each_answered_once_by_two_racing_callers(
    tmp_path: Path,
):
    async with fleet_of(tmp_path / "home") as fleet:
        names = [f"agent-{n}" for n in range(10)]
        for n, name in enumerate(names):
            await fleet.spawn(new_agent(tmp_path, KINDS[n % 3], name=name))
        told: list[tuple[str, RequestId]] = []

        async def answer_all(by: str) -> None:
            """Answer whatever is there, until ten agents have had five turns."""
            while len(told) < 50:
                for request in [item.request for item in await fleet.inbox()]:
                    is_first = await fleet.answer(request, "allow_once", by=by)
                    told.extend([(by, request)] * is_first)
                await asyncio.sleep(0)

        for name in names:
            for n in range(5):
                await fleet.send(name, (text(f"ask rm {name} {n}"),))
        async with asyncio.timeout(SOON * 2):
            await asyncio.gather(answer_all("left"), answer_all("right"))
            rested = await fleet.wait(names)
        assert [one.state for one in rested] == ["idle"] * 10
        assert await fleet.inbox() == []
        assert len({request for _, request in told}) == 50
        by_log: dict[RequestId, str | None] = {}
        for name in names:
            answers = [e for e in await events_of(fleet, name) if isinstance(e, PermissionAnswered)]
            assert len(answers) == 5
            by_log |= {one.request: one.by.name for one in answers}
        assert by_log == {request: by for by, request in told}
        said = Counter[str]()
        for name in names:
            said.update(_said(await events_of(fleet, name)))
        assert said == {"allowed": 50}


async def test_both_callers_at_the_very_same_moment(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann"))
        for _ in range(10):
            await fleet.send("ann", (text("ask rm x"),))
            await fleet.wait(["ann"], timeout=SOON)
            (item,) = await fleet.inbox()
            results = await asyncio.gather(
                fleet.answer(item.request, "yes", by="a"),
                fleet.answer(item.request, "no", by="b"),
                fleet.answer(item.request, "reject_once", by="c"),
            )
            assert sorted(results) == [False, False, True]
            await fleet.wait(["ann"], timeout=SOON)


async def test_an_answer_that_is_reported_is_in_the_log(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="ask rm x"))
        await fleet.wait(["ann"], timeout=SOON)
        (item,) = await fleet.inbox()
        assert (item.name, item.since > 0) == ("ann", True)
        assert item.permission is not None and item.permission.raw_input == {"command": "rm x"}
        assert await fleet.answer(item.request, "no", by="tablet", feedback="not now")
        answers = [
            record.event
            for record in await fleet.journal.read(item.seq)
            if isinstance(record.event, PermissionAnswered)
        ]
        (answer,) = answers
        assert (answer.by.kind, answer.by.name) == ("person", "tablet")
        assert (answer.feedback, answer.kind) == ("not now", "reject_once")
        assert not await fleet.answer(item.request, "yes")


async def test_what_does_not_fit_is_refused_and_leaves_the_request_open(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="ask rm x"))
        await fleet.spawn(new_agent(tmp_path, name="bob", prompt="question why"))
        await fleet.wait(["ann", "bob"], timeout=SOON)
        asked, question = sorted(await fleet.inbox(), key=lambda item: item.name)
        with pytest.raises(ValueError, match="has no option 'maybe'"):
            await fleet.answer(asked.request, "maybe")
        with pytest.raises(ValueError, match="reply"):
            await fleet.answer(question.request, "yes")
        with pytest.raises(ValueError, match="answer with an option"):
            await fleet.reply(asked.request, "accept")
        with pytest.raises(NoSuchRequestError):
            await fleet.answer(RequestId("req_none"), "yes")
        with pytest.raises(NoSuchRequestError):
            await fleet.reply(RequestId("req_none"), "accept")
        assert len(await fleet.inbox()) == 2


async def test_a_question_is_replied_to_once_by_a_person_or_an_agent(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="question which colour"))
        (info,) = await fleet.wait(["ann"], timeout=SOON)
        assert (info.state, info.waits_for) == ("waiting", "person")
        (item,) = await fleet.inbox()
        assert item.question is not None and item.question.text == "which colour"
        me = new_session_id()
        assert await fleet.reply(item.request, "accept", by=me, content={"colour": "red"})
        assert not await fleet.reply(item.request, "decline")
        await fleet.wait(["ann"], timeout=SOON)
        events = await events_of(fleet, "ann")
        (answer,) = [one for one in events if isinstance(one, QuestionAnswered)]
        assert (answer.by.kind, answer.by.name) == ("agent", me)
        assert _said(events) == ["accept {'colour': 'red'}"]


async def test_rules_answer_first_and_their_decisions_are_in_the_log(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(
            new_agent(tmp_path, name="ann", prompt="ask make x", allow=("bash(make:*)",))
        )
        await fleet.spawn(
            new_agent(tmp_path, name="bob", prompt="ask make x", deny=("bash(make:*)",))
        )
        await fleet.wait(["ann", "bob"], timeout=SOON)
        assert await fleet.inbox() == []
        for name, said in (("ann", "allowed"), ("bob", "denied")):
            events = await events_of(fleet, name)
            (answer,) = [one for one in events if isinstance(one, PermissionAnswered)]
            assert (answer.by.kind, _said(events)) == ("rule", [said])


async def test_what_was_allowed_for_a_session_holds_when_it_is_resumed_by_another_host(
    tmp_path: Path,
):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="ask make x"))
        await fleet.wait(["ann"], timeout=SOON)
        (item,) = await fleet.inbox()
        assert item.permission is not None
        offered = [
            one.option_id
            for one in item.permission.options
            if "session" in one.name.lower() and one.kind == "allow_always"
        ]
        assert offered, item.permission.options
        assert await fleet.answer(item.request, offered[0])
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.resume("ann")
        await fleet.send("ann", (text("ask make x"),))
        (info,) = await fleet.wait(["ann"], timeout=SOON)
        assert (info.state, await fleet.inbox()) == ("idle", [])


def _said(events: list[Event]) -> list[str]:
    return [
        event.content.text
        for event in events
        if isinstance(event, MessageChunk) and isinstance(event.content, TextContent)
    ]


async def test_what_was_done_without_leave_is_in_the_inbox_until_it_was_seen(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, "claude", name="sly"))
        await fleet.send("sly", (text(f"sneak {tmp_path}/a.txt"),))
        async with asyncio.timeout(SOON):
            (rested,) = await fleet.wait(["sly"])
            assert rested.state == "idle"
            (item,) = await fleet.inbox()
            assert item.question is not None and "without permission" in item.question.text
            assert "a.txt" in item.question.text
            assert await fleet.reply(item.request, "accept", by="test")
            assert await fleet.inbox() == []
            assert not await fleet.reply(item.request, "accept", by="test")


async def test_the_work_of_an_agent_that_is_done_is_approved_once_also_after_a_restart(
    tmp_path: Path,
):
    request, home = RequestId("req_gate"), tmp_path / "home"
    async with fleet_of(home) as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say x"))
        await fleet.wait(["ann"], timeout=SOON)
        await fleet.close("ann")
        assert await fleet.ask_approval("ann", request, "The work", reason="a gate", text="1 file")
        assert not await fleet.ask_approval("ann", request, "The work")
        (item,) = await fleet.inbox()
        assert item.permission is not None and item.permission.title == "The work"
        info = await fleet.agent("ann")
        assert (info.needs_person, info.is_live, info.state_word) == (True, False, "needs you")
    async with fleet_of(home) as fleet:
        (item,) = await fleet.inbox()
        # Resuming and ending the session closes its requests: it is asked again.
        await fleet.resume("ann")
        await fleet.wait(["ann"], timeout=SOON)
        assert (await fleet.agent("ann")).needs_person
        await fleet.close("ann")
        assert await fleet.inbox() == []
        assert await fleet.ask_approval("ann", request, "The work")
        results = await asyncio.gather(
            fleet.answer(request, "reject", by="ada", feedback="no tests"),
            fleet.answer(request, "approve", by="ben"),
        )
        assert sorted(results) == [False, True]
        assert await fleet.inbox() == [] and not (await fleet.agent("ann")).needs_person
        assert not await fleet.ask_approval("ann", request, "The work")
        answers = [
            (one.by.name, one.kind)
            for one in await events_of(fleet, "ann")
            if isinstance(one, PermissionAnswered)
        ]
        assert answers in ([("ada", "reject_once")], [("ben", "allow_once")])
        with pytest.raises(NoSuchAgentError):
            await fleet.ask_approval("bob", request, "The work")
