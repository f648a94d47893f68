"""Equal requests of many agents are one group, and what the policy tells apart stays apart."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.fleet.api import InboxItem
from quarterdeck.fleet.errors import NoSuchRequestError
from quarterdeck.fleet.permissions.request_groups import (
    RequestPlace,
    describe_group,
    group_requests,
    list_differences,
    match_option,
    read_traits,
)
from quarterdeck.policy.call import Call
from quarterdeck.policy.decision import Ask, decide
from quarterdeck.policy.foreign_calls import CallContext, call_from_tool
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.policy.permission_options import (
    choice_of,
    options_for,
    suggest_grants,
    suggest_refusal,
)
from quarterdeck.policy.rules import Rule
from quarterdeck.wire.content import text
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import ApprovalRule, PermissionOption
from quarterdeck.wire.tool_calls import Diff
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent

CWD = "/work/project"
THEIRS = (
    PermissionOption(option_id="approved", name="Yes, proceed", kind="allow_once"),
    PermissionOption(option_id="forever", name="Yes, don't ask again", kind="allow_always"),
    PermissionOption(option_id="abort", name="No", kind="reject_once"),
)


def ask(
    raw: Any,
    *,
    cwd: str = CWD,
    name: str = "Bash",
    kind: Any = "execute",
    mode: Mode = "ask",
    rules: tuple[Rule, ...] = (),
    theirs: tuple[PermissionOption, ...] = (),
    number: int = 1,
    **fields: Any,
) -> PermissionAsked:
    """A request as the gate puts it to a person."""
    around = CallContext(cwd=cwd, roots=(cwd,), home="/home/me", project=CWD)
    call = call_from_tool(name, kind, raw, (), title="Do it", around=around)
    decision = decide(call, mode, rules)
    assert isinstance(decision, Ask), decision
    offers = suggest_grants(call, mode, rules)
    ours = options_for(offers, refusal=suggest_refusal(call, mode, rules), call=call)
    if theirs:
        ours = (*theirs, *(one for one in ours if one.kind.endswith("_always")))
    return PermissionAsked(
        request=RequestId(f"req_{number}"), call=ToolCallId("c"), title="Do it", name=name,
        kind=kind, raw_input=raw, options=ours, reason=decision.reason, **fields,
    )  # fmt: skip


def item(
    asked: PermissionAsked, number: int = 1, *, place: RequestPlace | None = None, **more: Any
):
    asked = replace(asked, request=RequestId(f"req_{number:03}"))
    place = place or RequestPlace(cwd=CWD, project=CWD)
    facts: dict[str, Any] = {
        "session": SessionId(f"ses_{number:03}"), "name": f"a{number}", "since": number,
    }  # fmt: skip
    return InboxItem(
        request=asked.request, seq=number, permission=asked, cwd=place.cwd,
        traits=read_traits(asked, place), **(facts | more),
    )  # fmt: skip


def are_one(
    first: PermissionAsked,
    second: PermissionAsked,
    here: RequestPlace | None = None,
    there: RequestPlace | None = None,
) -> bool:
    items = [item(first, 1, place=here), item(second, 2, place=there)]
    return len(group_requests(items)) == 1


NPM = {"command": "npm test"}


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ({"command": ["bash", "-lc", "npm test"], "cwd": CWD, "call_id": "7"}, "shell"),
        ({"command": "npm test", "description": "Run the tests", "timeout": 5}, "Bash"),
        ({"command": " npm test "}, "run_shell_command"),
    ],
)
def test_vendors_that_want_the_same_command_are_one_group(raw: Any, name: str):
    first, second = ask(NPM), ask(raw, name=name, theirs=THEIRS)
    assert are_one(first, replace(second, options=first.options))
    (group,) = group_requests([item(first, 1), item(replace(second, options=first.options), 2)])
    assert describe_group(group) == "2 agents want npm test"
    assert (group.agents, group.risk, group.rule) == (2, 0, "bash(npm test)")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: ask({"command": "npm run build"}), id="another command"),
        pytest.param(lambda: ask({"command": "npm test && rm -rf x"}), id="a risky part"),
        pytest.param(lambda: ask({"command": "npm test > /etc/motd"}), id="writes outside"),
        pytest.param(lambda: ask({"command": "npm test", "cwd": "/etc"}), id="runs outside"),
        pytest.param(lambda: ask(NPM, mode="plan"), id="a mode that offers nothing"),
        pytest.param(
            lambda: ask(NPM, rules=(parse_rule("ask bash(npm:*)"),)), id="a rule that asks"
        ),
        pytest.param(
            lambda: replace(ask(NPM), approvals=(ApprovalRule(people=("ann",)),)), id="approvers"
        ),
    ],
)
def test_what_the_policy_treats_differently_is_never_one_group(other: Any):
    assert are_one(ask(NPM), ask(NPM))
    assert not are_one(ask(NPM), other())


def test_a_project_and_a_directory_in_it_are_told_apart_and_worktrees_are_not():
    main = RequestPlace(cwd=CWD, project=CWD)
    tree = RequestPlace(cwd="/trees/ann", project=CWD)
    below = RequestPlace(cwd=f"{CWD}/web", project=CWD, directory="web")
    other = RequestPlace(cwd="/work/other", project="/work/other")
    moved = ask(NPM, cwd="/trees/ann")
    assert are_one(ask(NPM), moved, main, tree)
    assert not are_one(ask(NPM), ask(NPM), main, below)
    assert not are_one(ask(NPM), ask(NPM), main, other)
    (group,) = group_requests([item(ask(NPM), 1, place=main), item(moved, 2, place=tree)])
    assert [words for _, words in list_differences(group)] == [f"in {CWD}", "in /trees/ann"]


def test_commands_that_the_same_narrowest_rule_covers_are_one_group_and_their_difference_shows():
    items = [
        item(ask({"command": line}), n) for n, line in enumerate(("npm test", "timeout 5 npm test"))
    ]
    (group,) = group_requests(items)
    assert [words for _, words in list_differences(group)] == [
        "command: npm test", "command: timeout 5 npm test",
    ]  # fmt: skip
    long = "timeout " + "0" * 300 + "5 npm test"
    assert len(group_requests([*items, item(ask({"command": long}), 7)])) == 2


def test_risky_commands_are_one_group_only_if_they_are_equal():
    same, other = ask({"command": "rm -rf build"}), ask({"command": "rm -rf dist"})
    assert are_one(same, ask({"command": "rm -rf build", "description": "clean"}))
    assert not are_one(same, other)
    assert item(same).traits is not None and item(same).traits.risk == 3  # type: ignore[union-attr]


def test_nothing_beside_a_command_hides_under_the_name_of_something_harmless():
    plain = ask({"command": "rm -rf build"})
    for odd in ({"env": {"title": "x"}}, {"reason.x": 1}, {"script": "make"}, {"directory": "web"}):
        raw = {"command": "rm -rf build", "cwd": CWD, **odd}
        assert not are_one(plain, replace(plain, raw_input=raw)), odd
    assert are_one(plain, replace(plain, raw_input={"command": "rm -rf build", "cwd": CWD}))
    assert not are_one(ask(NPM), replace(ask(NPM), raw_input=NPM | {"cwd": f"{CWD}/web"}))


def test_changes_of_files_are_one_group_only_if_they_are_equal():
    def edit(new: str, cwd: str = CWD) -> PermissionAsked:
        raw = {"file_path": f"{cwd}/a.py", "old_string": "a", "new_string": new}
        content = (Diff(path=f"{cwd}/a.py", old_text="a", new_text=new),)
        return ask(raw, name="Edit", kind="edit", cwd=cwd, content=content)

    assert are_one(edit("b"), edit("b"))
    assert not are_one(edit("b"), edit("c"))
    tree = RequestPlace(cwd="/trees/ann", project=CWD)
    assert are_one(edit("b"), edit("b", "/trees/ann"), there=tree)
    change = (Diff(path=f"{CWD}/a.py", old_text="a", new_text="b"),)
    assert not are_one(ask(NPM), replace(ask(NPM), content=change))


def test_calls_of_a_tool_show_how_their_arguments_differ():
    def call(title: str) -> PermissionAsked:
        raw = {"title": title, "repo": "x"}
        return ask(raw, name="mcp__github__create_issue", kind="other")

    items = [item(call("one"), 1), item(call("two"), 2)]
    (group,) = group_requests(items)
    assert [words for _, words in list_differences(group)] == ["title: one", "title: two"]
    assert not are_one(call("one"), call("x" * 300))
    assert not are_one(call("one"), replace(call("two"), content=(_words("and more"),)))


def _words(words: str) -> Any:
    from quarterdeck.wire.tool_calls import ContentItem

    return ContentItem(content=text(words))


def test_a_request_that_cannot_be_read_is_alone():
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    odd = replace(ask(NPM), raw_input={"x": deep}, request=RequestId("req_odd"))
    traits = read_traits(odd, RequestPlace(cwd=CWD))
    assert traits.group == "req_odd" and traits.risk == 1


def test_the_riskiest_come_first_then_what_blocks_most_agents_then_the_oldest():
    risky, build, test = (
        ask({"command": line}) for line in ("rm -rf x", "npm run build", "npm test")
    )
    asked = (build, test, test, risky, ask({"command": "make"}))
    items = [item(one, number) for number, one in enumerate(asked, 1)]
    found = [group.what for group in group_requests(items)]
    assert found == ["rm -rf x", "npm test", "npm run build", "make"]
    again = item(test, 6, session=SessionId("ses_002"), name="a2")
    (group,) = group_requests([items[1], again])
    assert describe_group(group) == "a2 wants npm test, 2 times"


LINES = (
    "npm test",
    "ls && npm test",
    "rm -rf x",
    "curl http://x.org",
    "make",
    "git push",
    "npm ci",
)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(LINES), max_size=12), st.randoms())
def test_groups_are_a_partition_whatever_the_order(lines: list[str], luck: random.Random):
    items = [item(ask({"command": line}), n) for n, line in enumerate(lines)]
    shuffled = list(items)
    luck.shuffle(shuffled)
    groups = group_requests(items)
    assert groups == group_requests(shuffled)
    requests = [one for group in groups for one in group.requests]
    assert sorted(requests) == sorted(one.request for one in items)
    by_id = {one.request: one.permission for one in items}
    for group in groups:  # every answer to one has its like in all others
        members = [by_id[one] for one in group.requests]
        first = members[0]
        assert first is not None
        for option in first.options:
            meant = choice_of(first.options, option.option_id)
            for other in members:
                assert other is not None
                found = match_option(first, option.option_id, other)
                assert found is not None
                same = choice_of(other.options, found)
                assert (same.effect, same.scope, same.patterns) == (
                    meant.effect, meant.scope, meant.patterns,
                )  # fmt: skip


def test_what_an_agent_would_remember_itself_answers_no_other_request():
    first, second = ask(NPM, theirs=THEIRS), ask(NPM, number=2)
    assert match_option(first, "forever", second) is None
    assert match_option(first, "approved", second) == "allow-once"
    assert match_option(second, "reject_once", first) == "abort"
    assert match_option(second, "allow-project-1", first) == "allow-project-1"
    assert match_option(first, "nothing", second) is None


# In the fleet


async def _ask_all(fleet: Any, tmp_path: Path, lines: list[str]) -> list[InboxItem]:
    for number, line in enumerate(lines):
        kind = ("claude", "codex", "gemini")[number % 3]
        await fleet.spawn(new_agent(tmp_path, kind, name=f"a{number}", prompt=f"ask {line}"))
    await fleet.wait([f"a{n}" for n in range(len(lines))], timeout=SOON)
    return await fleet.inbox()


async def test_a_group_is_answered_once_for_all_and_each_has_its_own_answer(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        items = await _ask_all(fleet, tmp_path, ["make a", "make a", "rm x", "make a"])
        risky, group = await fleet.inbox_groups()
        assert (risky.what, group.what, group.agents) == ("rm x", "make a", 3)
        asked = [one.request for one in items if one.request != risky.first]
        assert group.requests == tuple(asked)
        assert await fleet.answer(group.requests[1], "yes", by="tablet")
        done = await fleet.answer_group(group.requests, "allow_once", by="cli")
        assert done.answered == (group.requests[0], group.requests[2])
        assert done.skipped == (group.requests[1],) and not done.waiting
        assert [one.request for one in await fleet.inbox()] == [risky.first]
        names = {one.request: one.name for one in items}
        for request in done.answered:
            name = names[request]
            (answer,) = [
                e for e in await events_of(fleet, name) if isinstance(e, PermissionAnswered)
            ]
            assert (answer.by.name, answer.group, answer.kind) == ("cli", group.first, "allow_once")
        (alone,) = [
            e
            for e in await events_of(fleet, names[group.requests[1]])
            if isinstance(e, PermissionAnswered)
        ]
        assert (alone.by.name, alone.group) == ("tablet", None)
        again = await fleet.answer_group(group.requests, "allow_once", by="cli")
        assert again.skipped == group.requests and not again.answered


async def test_always_for_a_group_is_a_grant_of_each_member(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await _ask_all(fleet, tmp_path, ["npm test"] * 3)
        (group,) = await fleet.inbox_groups()
        await fleet.answer_group(group.requests, "allow-session-1")
        await fleet.wait(["a0", "a1", "a2"], timeout=SOON)
        grants = await fleet.grants()
        assert {one.request for one in grants} == set(group.requests)
        assert {(one.pattern, one.scope) for one in grants} == {("bash(npm test)", "session")}
        assert len({one.session for one in grants}) == 3


async def test_an_answer_that_does_not_fit_all_answers_none(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        items = await _ask_all(fleet, tmp_path, ["npm test", "rm x"])
        items.sort(key=lambda one: one.name)
        both = tuple(one.request for one in items)
        with pytest.raises(ValueError, match="means the same"):
            await fleet.answer_group(both, "allow-project-1")
        with pytest.raises(ValueError, match="at least one"):
            await fleet.answer_group((), "allow_once")
        with pytest.raises(ValueError, match="has no option"):
            await fleet.answer_group(both, "maybe")
        with pytest.raises(NoSuchRequestError):
            await fleet.answer_group((*both, RequestId("req_none")), "allow_once")
        assert len(await fleet.inbox()) == 2
        await fleet.spawn(new_agent(tmp_path, name="asker", prompt="question why"))
        await fleet.wait(["asker"], timeout=SOON)
        question = next(one for one in await fleet.inbox() if one.question is not None)
        with pytest.raises(ValueError, match="by itself"):
            await fleet.answer_group((both[0], question.request), "allow_once")
        assert len(await fleet.inbox()) == 3


async def test_a_request_that_arrives_later_is_not_answered_with_the_others(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await _ask_all(fleet, tmp_path, ["make a"] * 2)
        (seen,) = await fleet.inbox_groups()
        await fleet.spawn(new_agent(tmp_path, name="late", prompt="ask make a"))
        await fleet.wait(["late"], timeout=SOON)
        await fleet.answer_group(seen.requests, "reject_once")
        (left,) = await fleet.inbox()
        assert left.name == "late"


async def test_answering_a_group_is_answering_each_member_apart(tmp_path: Path):
    async def play(home: Path, choice: str, *, together: bool) -> list[tuple[Any, ...]]:
        async with fleet_of(home) as fleet:
            await _ask_all(fleet, tmp_path, ["npm test"] * 2)
            (group,) = await fleet.inbox_groups()
            if together:
                await fleet.answer_group(group.requests, choice, by="x", feedback="so")
            else:
                for request in group.requests:
                    await fleet.answer(request, choice, by="x", feedback="so")
            await fleet.wait(["a0", "a1"], timeout=SOON)
            said: list[tuple[Any, ...]] = []
            for name in ("a0", "a1"):
                said += [
                    (name, event.outcome, event.by, event.kind, event.feedback)
                    for event in await events_of(fleet, name)
                    if isinstance(event, PermissionAnswered)
                ]
            grants = [(g.pattern, g.effect, g.scope, g.by, g.reason) for g in await fleet.grants()]
            return [*said, *sorted(grants)]

    for number, choice in enumerate(("yes", "no", "allow-session-1", "reject-project")):
        apart = await play(tmp_path / f"apart{number}", choice, together=False)
        assert len(apart) >= 2
        assert await play(tmp_path / f"group{number}", choice, together=True) == apart


async def test_two_clients_that_answer_a_group_at_once_answer_each_request_once(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await _ask_all(fleet, tmp_path, ["make a"] * 6)
        (group,) = await fleet.inbox_groups()
        left, right = await asyncio.gather(
            fleet.answer_group(group.requests, "allow_once", by="left"),
            fleet.answer_group(group.requests[::-1], "reject_once", by="right"),
        )
        assert sorted((*left.answered, *right.answered)) == sorted(group.requests)
        assert not set(left.answered) & set(right.answered)


def test_a_call_is_a_call():
    """The helper makes requests as the policy reads them."""
    call = Call(tool="bash", kind="execute", command="npm test", cwd=CWD, roots=(CWD,))
    assert str(suggest_grants(call)[0]) == "bash(npm test)"
