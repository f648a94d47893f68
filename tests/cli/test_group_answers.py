"""``inbox`` and ``answer`` with requests of several agents that ask for the same."""

import json

from quarterdeck.cli.fleet.inbox import describe_requests
from quarterdeck.fleet.api import InboxItem
from quarterdeck.fleet.permissions.request_groups import (
    RequestPlace,
    group_requests,
    read_traits,
)
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import ApprovalRule
from tests.cli.test_fleet_commands import done, host

__all__ = ["done", "host"]


def test_equal_requests_are_shown_once_and_answered_together(done, run):
    for name in ("ann", "bob", "cleo"):
        done("spawn", "-n", name, "ask")
    shown = done("inbox")
    assert "3 agents want ls /" in shown and shown.count("[1] Allow") == 1
    assert shown.index("ann  req_") < shown.index("bob  req_") < shown.index("cleo  req_")
    assert "--group" in shown
    found = json.loads(done("inbox", "--json"))
    (group,) = found["groups"]
    assert [one["name"] for one in group["members"]] == ["ann", "bob", "cleo"]
    assert (group["agents"], group["what"], len(found["inbox"])) == (3, "ls /", 3)
    done("answer", "bob", "deny")
    assert done("answer", "ann", "allow", "--group") == "2 answered: ann, cleo\n"
    assert done("inbox") == "No open requests.\n"
    first = group["members"][0]["request"]
    again = run("answer", first, "allow", "--group", "--json")
    assert (again.returncode, json.loads(again.stdout)) == (
        6, {"answered": [], "waiting": [], "skipped": [first]},
    )  # fmt: skip


def test_several_requests_are_answered_by_their_names(done, run):
    for name in ("ann", "bob", "cleo"):
        done("spawn", "-n", name, "ask")
    requests = [one["request"] for one in json.loads(done("inbox", "--json"))["inbox"]]
    assert run("answer", *requests[:2], "allow", "--group").returncode == 2
    wrong = run("answer", requests[0], "req_none", "allow")
    assert (wrong.returncode, "req_none" in wrong.stderr) == (1, True)
    told = json.loads(done("answer", requests[2], "ann", "deny", "--json"))
    assert told["answered"] == [requests[2], requests[0]]
    assert "bob" in done("inbox") and "ann" not in done("inbox")
    shown = done("answer", requests[0], requests[1], "1")
    assert shown == f"1 answered: bob\n1 already answered elsewhere: {requests[0]}\n"


def test_a_question_has_no_group(done, run):
    done("spawn", "-n", "ann", "question")
    wrong = run("answer", "ann", "blue", "--group")
    assert wrong.returncode == 1 and "colour" in done("inbox")


def test_who_has_to_allow_a_request_and_who_has_is_shown():
    def item(number: int, approved: tuple[str, ...]) -> InboxItem:
        rule = ApprovalRule(people=("ann", "bob"), needed=2)
        asked = PermissionAsked(
            request=RequestId(f"req_{number}"), call=ToolCallId("c"), title="git push",
            options=(), kind="execute", raw_input={"command": "git push"}, approvals=(rule,),
        )  # fmt: skip
        return InboxItem(
            request=asked.request, session=SessionId(f"s{number}"), name=f"a{number}", since=0,
            seq=number, permission=asked, traits=read_traits(asked, RequestPlace(cwd="/w")),
            approved=approved,
        )  # fmt: skip

    items = {one.request: one for one in (item(1, ("ann",)), item(2, ()))}
    (group,) = group_requests(items.values())
    lines = list(describe_requests(group, items, 0))
    assert lines[0] == "2 agents want git push  (uses the network)"
    assert lines[-2:] == ["  a1: 1 of 2: ann allowed", "  a2: needs 2 of ann, bob"]
    (alone,) = group_requests([items[RequestId("req_1")]])
    assert list(describe_requests(alone, items, 0))[-1] == "  1 of 2: ann allowed"
