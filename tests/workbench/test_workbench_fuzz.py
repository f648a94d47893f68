"""Hostile text in every place that shows foreign text: no crash, nothing hidden or styled."""

from pathlib import Path

import pytest

from quarterdeck.fleet.api import AgentInfo, InboxItem
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAsked,
    PlanChanged,
    Prompted,
    QuestionAsked,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, Diff
from quarterdeck.workbench.rendering.agent_rows import AgentRow, agent_line
from quarterdeck.workbench.rendering.block_layout import BlockLayout
from quarterdeck.workbench.rendering.lines import Line, text_of, width_of
from quarterdeck.workbench.sanitize import sanitize_text
from quarterdeck.workbench.screens.permission import PermissionScreen, RequestSetting
from quarterdeck.workbench.screens.permission_lines import (
    RequestQueue,
    choice_lines,
    more_lines,
    request_lines,
    risk_lines,
)
from quarterdeck.workbench.screens.permission_model import merge_options, summarize_request
from quarterdeck.workbench.screens.question import QuestionScreen
from quarterdeck.workbench.stores.roster import RosterStore
from quarterdeck.workbench.stores.transcript import TranscriptStore
from quarterdeck.workbench.widgets.lines_view import ROLES
from tests.support.hostile_text import hostile_strings
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

SESSION = SessionId("ses_1")
COUNT = 500


def check(lines: list[Line], width: int) -> None:
    for line in lines:
        assert width_of(line) <= width
        assert {part for _, role in line for part in role.split("/")} <= set(ROLES)
        shown = text_of(line)
        assert sanitize_text(shown) == shown and "\n" not in shown


def asked(hostile: str) -> PermissionAsked:
    return PermissionAsked(
        request=RequestId("r"),
        call=ToolCallId("c"),
        title=hostile,
        name=hostile,
        options=(PermissionOption(option_id="y", name=hostile, kind=hostile or "allow_once"),),
        content=(
            Diff(path=hostile, old_text=hostile, new_text=hostile + "x"),
            ContentItem(content=text(hostile)),
        ),
        raw_input={hostile: hostile, "list": [hostile]},
        reason=hostile,
    )


def everything(hostile: str) -> list[Record]:
    call = ToolCallId(hostile or "call")
    found = [
        Prompted(content=(text(hostile),), message=MessageId("m")),
        ThoughtChunk(content=text(hostile)),
        MessageChunk(content=text(hostile)),
        ToolCallStarted(call=call, title=hostile, name=hostile, raw_input={hostile: hostile}),
        ToolCallEnded(call=call, status="failed", reason=hostile, raw_output=hostile),
        PlanChanged(entries=(PlanEntry(content=hostile, priority="low", status="pending"),)),
        NoticePosted(title=hostile, description=hostile),
        MessageChunk(content=text(hostile)),
    ]
    return [Record(seq=n, time=n, session=SESSION, event=e) for n, e in enumerate(found, 1)]


@pytest.mark.parametrize("width", [24, 78])
def test_nothing_in_a_transcript_acts_or_hides(width: int):
    for hostile in hostile_strings(COUNT):
        store = TranscriptStore(SESSION)
        store.start(everything(hostile), is_end=True)
        store.unfold_all(True)
        layout = BlockLayout(width)
        layout.sync(store.blocks)
        for at in range(len(layout)):
            layout.measure(at)
            check([layout.line(at, n) for n in range(layout.height(at))], width)


def test_nothing_in_a_table_or_a_request_acts_or_hides():
    roster = RosterStore()
    for hostile in hostile_strings(COUNT):
        info = AgentInfo(
            session=SESSION, name=hostile, agent=hostile, cwd=hostile, state="failed",
            model=hostile, reason=hostile, title=hostile,
        )  # fmt: skip
        for width in (40, 120):
            check([agent_line(AgentRow(agent=info, roster=roster, now=0), width)], width)
        permission = asked(hostile)
        summary = summarize_request(permission, hostile)
        check([*request_lines(summary, 60), *risk_lines(summary, 60)], 60)
        lines = request_lines(summarize_request(permission, None), 60)  # nothing beside them
        choices = merge_options(permission.options)
        check([*choice_lines(choices, 60), *more_lines(choices, 60)], 60)
        whole = "".join("".join(text_of(line) for line in lines).split())
        assert "".join(sanitize_text(hostile).split()) in whole  # every character of it can be seen


async def test_hostile_text_on_the_whole_screen(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        for number, hostile in enumerate(hostile_strings(60)):
            for record in everything(hostile):
                await fleet.append(ann, record.event)
            if number % 6:
                continue
            permission = asked(hostile)
            question = QuestionAsked(
                request=RequestId("q"),
                text=hostile,
                form={"properties": {hostile: {"title": hostile, "enum": [hostile, "b"]}}},
            )
            common = {"session": SESSION, "name": hostile, "since": 0, "seq": 1}
            one = InboxItem(request=RequestId("r"), permission=permission, **common)
            two = InboxItem(request=RequestId("q"), question=question, **common)
            fleet.open = {one.request: one, two.request: two}
            app.context.inbox.replace([one, two])
            for screen in (
                PermissionScreen(one, RequestSetting(cwd=hostile), RequestQueue()),
                QuestionScreen(two),
            ):
                app.push_screen(screen)
                await pilot.pause()
                shown = screen_text(app)
                assert sanitize_text(shown) == shown
                app.pop_screen()
            app.show_message(hostile)
            app.main.chat.set_text("")
            await pilot.pause()
        await fleet.append(ann, MessageChunk(content=text("the end")))
        await until(pilot, lambda: "the end" in screen_text(app))
        assert sanitize_text(screen_text(app)) == screen_text(app)
