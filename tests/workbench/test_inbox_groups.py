"""Equal requests of several agents: one row, one card, answered together or apart."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.fleet.api import InboxItem
from quarterdeck.fleet.permissions.api import GroupAnswer
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId, new_request_id
from quarterdeck.wire.permissions import ApprovalRule
from quarterdeck.workbench.panels.inbox import InboxList
from quarterdeck.workbench.screens import key_guard
from quarterdeck.workbench.screens.permission import PermissionCard, PermissionScreen
from quarterdeck.workbench.stores.inbox import InboxStore
from tests.support.agent_states import codex_asked
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until
from tests.workbench.test_mouse import click_on
from tests.workbench.test_request_queue import chosen, decided, is_ready, when_keys_count

WIDE = (120, 40)


async def asks(
    fleet: FakeFleet, session: SessionId, raw: dict[str, Any] | None = None, **fields: Any
) -> RequestId:
    """An agent asks as Codex does."""
    like = codex_asked()
    asked = replace(
        like, request=new_request_id(), call=ToolCallId("call"), content=(),
        raw_input=raw or like.raw_input, **fields,
    )  # fmt: skip
    record = await fleet.append(session, asked)
    fleet.known.add(asked.request)
    fleet.open[asked.request] = InboxItem(
        request=asked.request, session=session, name=fleet.infos[session].name, since=record.time,
        seq=record.seq, permission=asked,
    )  # fmt: skip
    return asked.request


async def test_a_key_with_shift_answers_all_that_are_shown(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob", "cleo")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for session in sessions:
            await asks(fleet, session)
        await until(pilot, lambda: is_ready(app) and "the same: bob, cleo" in screen_text(app))
        assert "all 3:" in screen_text(app) and "S this session" in screen_text(app)
        await when_keys_count(pilot)
        await pilot.press("S")
        await until(pilot, lambda: len(decided(fleet)) == 3)
        assert chosen(fleet) == ["allow-session-1"] * 3
        await until(pilot, lambda: app.requests.current is None)
        assert app.main.chat.text == ""


async def test_a_plain_key_answers_only_the_one_that_is_shown(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for session in sessions:
            await asks(fleet, session)
        await until(pilot, lambda: is_ready(app, "ann") and "1 alike" in screen_text(app))
        await when_keys_count(pilot)
        await pilot.press("n")
        await until(pilot, lambda: is_ready(app, "bob"))
        assert chosen(fleet) == ["reject-once"] and len(await fleet.inbox()) == 1


async def test_a_request_that_arrives_while_a_dialog_is_open_is_shown_before_a_key_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    sessions = [await begin(fleet, name) for name in ("bob", "cleo", "dan")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for session in sessions[:2]:
            await asks(fleet, session)
        await until(pilot, lambda: len(app.context.inbox.items) == 2)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: is_ready(app) and isinstance(app.screen, PermissionScreen))
        await when_keys_count(pilot)
        await pilot.press("z")  # means nothing; from now on keys count
        monkeypatch.setattr(key_guard, "QUIET", 60.0)
        await asks(fleet, sessions[2])
        await until(pilot, lambda: "the same: cleo, dan" in screen_text(app))
        await pilot.press("Y")  # meant for the two that were there
        assert not decided(fleet)
        monkeypatch.setattr(key_guard, "QUIET", 0.0)
        await pilot.press("Y")
        await until(pilot, lambda: len(decided(fleet)) == 3)


async def test_a_click_answers_all(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for session in sessions:
            await asks(fleet, session)
        await until(pilot, lambda: is_ready(app) and "all 2:" in screen_text(app))
        await when_keys_count(pilot)
        await click_on(pilot, app, "N deny")
        await until(pilot, lambda: len(decided(fleet)) == 2)
        assert chosen(fleet) == ["reject-once"] * 2


async def test_requests_that_differ_say_how(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await asks(fleet, sessions[0])
        await asks(fleet, sessions[1], {"command": "timeout 5 pytest -q tests"})
        await until(pilot, lambda: is_ready(app) and "1 alike" in screen_text(app))
        assert "bob  command: timeout 5 pytest -q tests" in screen_text(app)


async def test_a_row_stands_for_a_group_and_opens_into_its_members(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob", "cleo", "dan")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await pilot.press(*"typing")  # no request takes the keys
        app.action_command("open", "inbox")
        await until(pilot, lambda: app.query(InboxList))
        for session in sessions[:3]:
            await asks(fleet, session)
        await asks(fleet, sessions[3], {"command": "rm x"})
        inbox = app.query_one(InboxList)
        await until(pilot, lambda: len(inbox.rows(100)) == 2)
        first, second = ("".join(words for words, _ in line) for _, line in inbox.rows(100))
        assert "dan" in first and "deletes files" in first  # the risky one comes first
        assert "▸ 3 agents" in second and "pytest -q tests" in second
        app.set_focus(inbox)
        inbox.place(inbox.rows(100)[1][0])
        await pilot.press("right")
        await until(pilot, lambda: len(inbox.rows(100)) == 5 and "▾ 3 agents" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.requests.current, PermissionCard))
        card = app.requests.current
        assert card is not None and card.item.name in ("bob", "cleo")
        await pilot.pause(0)
        await pilot.press("escape")


def test_an_empty_inbox_has_no_groups():
    store = InboxStore()
    assert store.groups == [] and store.find_group(RequestId("r")) is None
    assert store.next() is None and store.place(RequestId("r")) == 0


class ApprovingFleet(FakeFleet):
    """Each request needs ann and bob; this person is ann."""

    async def answer_group(
        self, requests: tuple[RequestId, ...], choice: str, **more: Any
    ) -> GroupAnswer:
        for request in requests:
            self.open[request] = replace(self.open[request], approved=("ann",))
        return GroupAnswer(waiting=requests)


async def test_a_request_that_others_have_to_allow_too_stays_open_and_says_so(tmp_path: Path):
    fleet = ApprovingFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        rule = ApprovalRule(people=("ann", "bob"), needed=2)
        request = await asks(fleet, ann, approvals=(rule,))
        await until(pilot, lambda: is_ready(app) and "needs 2 of ann, bob" in screen_text(app))
        await when_keys_count(pilot)
        await pilot.press("y")
        await until(pilot, lambda: app.requests.current is None)
        assert not decided(fleet)
        app.feed.refresh()
        await until(pilot, lambda: app.context.inbox.items[0].approved == ("ann",))
        assert app.requests.current is None  # it is not offered again
        app.requests.open(request)
        await until(pilot, lambda: "1 of 2: ann allowed" in screen_text(app))
