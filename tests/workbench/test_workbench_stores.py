"""Rosters, inboxes, drafts and forms: plain objects without a screen."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.fleet.agent_state import AgentStateName
from quarterdeck.fleet.api import AgentInfo, InboxItem
from quarterdeck.wire.events import QuestionAsked
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.usage import Cost, TokenUsage
from quarterdeck.workbench.commands.registry import find_command
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.screens.key_guard import QUIET, KeyGuard
from quarterdeck.workbench.screens.question import (
    FieldValueError,
    FormField,
    leave_out_asked,
    parse_field_value,
    parse_form,
)
from quarterdeck.workbench.stores.inbox import InboxStore
from quarterdeck.workbench.stores.roster import RosterStore


def agent(name: str, state: AgentStateName, **facts: object) -> AgentInfo:
    return AgentInfo(
        session=SessionId(f"ses_{name}"),
        name=name,
        agent="claude",
        cwd="/",
        state=state,
        **facts,  # type: ignore[arg-type]
    )


def item(number: int, session: str = "ses_a") -> InboxItem:
    return InboxItem(
        request=RequestId(f"req_{number}"),
        session=SessionId(session),
        name="a",
        since=0,
        seq=number,
        question=QuestionAsked(request=RequestId(f"req_{number}"), text="?"),
    )


def test_who_needs_a_person_is_first_and_the_rest_does_not_jump():
    roster = RosterStore()
    agents = [
        agent("idle", "idle", spawned=1),
        agent("works", "running", spawned=2),
        agent("asks", "waiting", needs_person=True, spawned=3),
        agent("broke", "failed", spawned=4),
        agent("away", "done", is_archived=True, spawned=5),
    ]
    roster.replace(agents, None)
    assert [one.name for one in roster.agents] == ["asks", "works", "broke", "idle"]
    roster.replace([*reversed(agents)], None)
    assert [one.name for one in roster.agents] == ["asks", "works", "broke", "idle"]
    roster.show_archived(True)
    assert roster.agents[-1].name == "away"
    assert roster.beside(SessionId("ses_away"), 1) == "ses_asks"


def test_totals_count_what_is_there():
    roster = RosterStore()
    usage, cost = TokenUsage(input=10, output=5), Cost(amount=0.5, currency="USD")
    roster.replace(
        [
            agent("a", "running", usage=usage, cost=cost),
            agent("b", "waiting", needs_person=True, usage=usage, cost=cost),
        ],
        None,
    )
    totals = roster.totals(0)
    assert (totals.cost, totals.is_today) == (1.0, True)
    assert totals.words == {"running": 1, "needs you": 1}


def test_the_cost_is_todays_only_where_that_is_known():
    day, cost = 86_400_000_000, Cost(amount=0.5, currency="USD")
    now = 100 * day
    old = agent("old", "done", cost=cost, spawned=now - 9 * day, updated=now - 8 * day)
    new = agent("new", "done", cost=cost, spawned=now, updated=now)
    roster = RosterStore()
    roster.replace([old, new], None)
    assert (roster.totals(now).cost, roster.totals(now).is_today) == (0.5, True)
    roster.replace([replace(old, updated=now), new], None)  # some of its cost is of other days
    assert (roster.totals(now).cost, roster.totals(now).is_today) == (1.0, False)


def test_a_request_that_was_put_off_is_kept_and_not_offered_again():
    inbox = InboxStore()
    inbox.replace([item(1), item(2)])
    session = SessionId("ses_a")
    assert inbox.offered(session) == item(1)
    inbox.put_off(RequestId("req_1"))
    assert inbox.offered(session) == item(2)
    assert inbox.next(session) == item(1)
    inbox.drop(RequestId("req_2"))
    assert inbox.offered(session) is None
    assert inbox.items == (item(1),)


def test_drafts_outlive_the_program_and_are_never_lost_on_the_way(tmp_path: Path):
    drafts = Drafts(tmp_path / "drafts")
    drafts.put("ses_1", "half a thought")
    drafts.begin_sending("ses_2", "on its way")
    drafts.flush()
    again = Drafts(tmp_path / "drafts")
    again.load()
    assert again.get("ses_1") == "half a thought"
    assert again.get("ses_2") == "on its way"  # killed before the fleet had answered
    again.put("ses_1", "")
    again.flush()
    assert [path.name for path in (tmp_path / "drafts").iterdir()] == ["ses_2.txt"]


def test_a_prompt_that_was_not_taken_stands_before_what_was_typed_meanwhile(tmp_path: Path):
    drafts = Drafts(tmp_path)
    drafts.begin_sending("ses_1", "first")
    drafts.put("ses_1", "second")
    drafts.end_sending("ses_1", "first", is_sent=False)
    assert drafts.get("ses_1") == "first\nsecond"


def test_of_two_prompts_on_their_way_only_the_one_that_was_taken_goes(tmp_path: Path):
    drafts = Drafts(tmp_path)
    drafts.begin_sending("ses_1", "first")
    drafts.begin_sending("ses_1", "second")
    drafts.end_sending("ses_1", "first", is_sent=True)
    drafts.flush()
    killed = Drafts(tmp_path)
    killed.load()
    assert killed.get("ses_1") == "second"
    drafts.end_sending("ses_1", "second", is_sent=False)
    assert drafts.get("ses_1") == "second"


def test_a_key_of_a_draft_cannot_leave_its_directory(tmp_path: Path):
    drafts = Drafts(tmp_path / "drafts")
    drafts.put("../../evil", "x")
    drafts.flush()
    assert [path.name for path in (tmp_path / "drafts").iterdir()] == ["------evil.txt"]


def test_keys_count_only_after_a_moment_without_any():
    now = [0.0]
    guard = KeyGuard(lambda: now[0])
    assert guard.holds
    now[0] += QUIET * 0.9
    assert guard.holds
    now[0] += QUIET * 0.9  # less than QUIET after the last key
    assert guard.holds
    now[0] += QUIET
    assert not guard.holds
    guard.close()
    assert guard.holds


def test_a_form_is_read_leniently():
    question = QuestionAsked(
        request=RequestId("r"),
        text="?",
        form={
            "required": ["n"],
            "properties": {
                "n": {"type": "integer", "title": "Number"},
                "one": {"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]},
                "titled": {"oneOf": [{"const": 1, "title": "uno"}, {"bad": 1}]},
                "many": {"type": "array", "items": {"enum": ["x", "y"]}},
                "yes": {"type": "boolean", "default": True},
                "odd": {"type": ["weird"], "enum": "no list"},
                "bad": "no object",
            },
        },
    )
    fields = {field.name: field for field in parse_form(question)}
    kinds = {name: field.kind for name, field in fields.items()}
    assert kinds == {
        "n": "integer", "one": "one_of", "titled": "one_of", "many": "some_of", "yes": "yes_no",
        "odd": "text",
    }  # fmt: skip
    assert fields["one"].choices == (("a", "Ay"), ("b", "Bee"))
    assert fields["titled"].choices == ((1, "uno"),)
    assert parse_field_value(fields["n"], " 7 ") == 7
    for wrong in ("", "seven"):
        with pytest.raises(FieldValueError):
            parse_field_value(fields["n"], wrong)
    assert parse_form(QuestionAsked(request=RequestId("r"), text="?")) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1. Which one?\n2. How many?", ""),
        ("Before I begin:\n1. Which one?\n2. How many?", "Before I begin:"),
        ("Which one?", ""),
        ("Which one? It matters.\n\nHow many?", "Which one? It matters."),
        ("Tell me\n\nall of it", "Tell me\n\nall of it"),
        ("", ""),
    ],
)
def test_a_form_does_not_say_twice_what_its_fields_ask(text: str, shown: str):
    fields = [
        FormField(name="a", title="Which one?", kind="text"),
        FormField(name="b", title="Number", kind="integer", hint="How many?"),
    ]
    assert leave_out_asked(text, fields) == shown


def test_only_our_own_commands_are_taken_from_a_prompt():
    assert find_command("/kill") is not None
    found = find_command("/rename  new name ")
    assert found is not None and (found[0].name, found[1]) == ("rename", "new name")
    for prompt in ("/path/to/x", "/compact", "kill", "/kill\nand more", ""):
        assert find_command(prompt) is None
