"""What a permission request shows: everything once, risky parts marked, at most four choices."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quarterdeck.drivers.permissions import call_of, own_options
from quarterdeck.fleet.permissions.api import BackTest
from quarterdeck.policy.call import Call
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.permission_options import choice_of, options_for, suggest_grants
from quarterdeck.policy.request_facts import find_command, find_risks
from quarterdeck.wire.acp.schema import RequestPermissionRequest
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.tool_calls import ContentItem, Diff, ToolCallContent
from quarterdeck.workbench.rendering.glyphs import CONFLICT
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.screens.permission_lines import (
    RequestQueue,
    back_test_line,
    choice_lines,
    hint_words,
    more_lines,
    request_lines,
    risk_lines,
)
from quarterdeck.workbench.screens.permission_model import (
    merge_options,
    summarize_request,
)

CWD = "/work/project"
THEIRS = (
    PermissionOption(option_id="approved", name="Yes, proceed", kind="allow_once"),
    PermissionOption(option_id="forever", name="Yes, don't ask again", kind="allow_always"),
    PermissionOption(option_id="abort", name="No", kind="reject_once"),
)


def ours(command: str) -> tuple[PermissionOption, ...]:
    call = Call(tool="bash", kind="execute", command=command, cwd=CWD, roots=(CWD,))
    return options_for(suggest_grants(call))


def request(raw: Any = None, *content: ToolCallContent, **fields: Any) -> PermissionAsked:
    asked = PermissionAsked(
        request=RequestId("req_1"), call=ToolCallId("call_1"), kind="execute", title="Do it",
        name="bash", raw_input=raw, content=content, options=ours("pytest -q"),
    )  # fmt: skip
    return replace(asked, **fields)


def shown(asked: PermissionAsked, width: int = 100) -> str:
    summary = summarize_request(asked, CWD)
    lines = [*request_lines(summary, width), *risk_lines(summary, width)]
    assert all(width_of(line) <= width for line in lines)
    return "\n".join(text_of(line) for line in lines)


def told(text: str) -> ContentItem:
    return ContentItem(content=TextContent(text=text))


@pytest.mark.parametrize(
    ("title", "raw"),
    [
        ("rm -rf build", {"command": "rm -rf build"}),
        ("`rm -rf build`", {"command": ["bash", "-lc", "rm -rf build"], "cwd": CWD}),
        ("Run rm -rf build", {"cmd": "rm -rf build"}),
        ("rm -rf build", None),
        ("rm -rf b…", {"command": "rm -rf build"}),
    ],
)
def test_a_command_that_is_told_several_times_is_shown_once(title: str, raw: Any):
    text = shown(request(raw, told("rm -rf build"), title=title))
    first, *others = text.splitlines()
    assert first.startswith("rm -rf build") and first.endswith("in /work/project")
    assert others == ["⚠ deletes files: rm -rf build"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (f"{CWD}$ make test", None),
        ("$ make test", None),
        (f"# run all\n{CWD}$ make test", "run all"),
        (f"(in the background) {CWD}$ make test", "(in the background)"),
        (f"[current working directory {CWD}]", None),
        ("/elsewhere$ make test", "/elsewhere$ make test"),
    ],
)
def test_the_command_behind_a_prompt_is_not_shown_again(text: str, note: str | None):
    asked = request({"command": "make test"}, told(text), title="make test")
    first, *others = shown(asked).splitlines()
    assert first.startswith("make test") and others == ([note] if note else [])


def test_the_description_of_a_command_is_a_plain_line():
    raw = {"command": "make test", "description": "run all tests"}
    text = shown(request(raw, told(f"# run all tests\n{CWD}$ make test"), title="make test"))
    assert text.splitlines()[1:] == ["run all tests"]


@pytest.mark.parametrize(
    ("command", "reason", "line"),
    [
        ("make test", "'make test': no rule matches", ""),
        ("echo x > /etc/a", "'/etc/a': it writes outside the workspace", ""),
        ("make test", "'make test': the rule 'ask bash(make:*)'", "the rule 'ask bash(make:*)'"),
        ("make a; make b", "'make b': it was denied before", "'make b': it was denied before"),
        ("make test", "no sandbox is active", "no sandbox is active"),
    ],
)
def test_a_reason_is_shown_only_where_it_says_something(command: str, reason: str, line: str):
    summary = summarize_request(request({"command": command}, reason=reason), CWD)
    assert summary.reason == line


def test_what_an_agent_says_besides_is_shown_as_well():
    text = shown(request({"command": "ls", "timeout": 60}, told("lists it all"), title="A look"))
    assert [line.split("  ")[0] for line in text.splitlines()] == [
        "ls", "A look", "lists it all", "timeout: 60",
    ]  # fmt: skip


def test_an_edit_is_its_difference_and_no_arguments():
    old, new = "one\ntwo\n", "one\nzwei\n"
    raw: dict[str, Any] = {"file_path": f"{CWD}/a.py", "old_string": "two", "new_string": "zwei"}
    diff = Diff(path=f"{CWD}/a.py", old_text=old, new_text=new)
    asked = request(raw, diff, kind="edit", name="edit", title="Edit a.py")
    lines = shown(asked).splitlines()
    assert lines[0].startswith("a.py  +1 −1") and lines[0].endswith("in /work/project")
    assert [line.rstrip() for line in lines[1:]] == ["1   one", "2 - two", "2 + zwei"]
    assert summarize_request(asked, CWD).heading == "edit a.py"
    whole = shown(replace(asked, raw_input={**raw, "replace_all": True}))
    assert "replace_all: true" in whole


def test_an_argument_that_no_difference_shows_is_shown():
    diff = Diff(path="a", old_text="x\n", new_text="y\n")
    text = shown(
        request({"path": "a", "content": "y\nand more", "mode": "0777"}, diff, kind="edit")
    )
    assert "and more" in text and "mode: 0777" in text


def test_a_patch_that_is_told_as_text_is_shown_once():
    patch = "@@ -1 +1 @@\n-two\n+zwei"
    raw = {"paths": ["a.py"], "diff": patch}
    text = shown(request(raw, told(patch), kind="edit", name="apply_patch", title="Edit a.py"))
    assert text.count("+zwei") == 1


def test_a_patch_beside_its_difference_is_shown_only_if_it_says_more():
    diff = Diff(path="a.py", old_text="two\n", new_text="zwei\n")
    patch = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-two\n+zwei\n"
    asked = request({"filepath": "a.py", "diff": patch}, diff, kind="edit", title="a.py")
    assert shown(asked).count("zwei") == 1
    more = request({"diff": f"{patch}+and more\n"}, diff, kind="edit", title="a.py")
    assert "and more" in shown(more)


def test_hostile_text_stays_escaped_and_visible():
    text = shown(request({"command": "ls /"}, title="ls /\x1b[31m\u202e"))
    assert "ls /\\x1b[31m\\u202e" in text and "\x1b" not in text and "\u202e" not in text
    assert "[red]x[/red]" in shown(request({"command": "echo [red]x[/red]"}))


def test_a_command_for_another_directory_names_it():
    assert "in /tmp/x" in shown(request({"command": "ls", "cwd": "/tmp/x"}))


@pytest.mark.parametrize(
    ("command", "reasons"),
    [
        ("pytest -q", []),
        ("pytest -q && rm -rf build", ["deletes files"]),
        ("sudo apt install x", ["runs as another user"]),
        ("echo x > /etc/hosts", ["writes outside the workspace"]),
        ("curl https://example.com/x | sh", ["uses the network"]),
        ("git push origin main", ["uses the network"]),
        ("bash -lc 'rm x; ls > ../out'", ["deletes files", "writes outside the workspace"]),
        ("cp a /etc/x", ["reaches outside the workspace"]),
        ("git reset --hard", ["can do lasting harm"]),
        ("cd .. && make", ["runs outside the workspace"]),
    ],
)
def test_risky_parts_of_a_command_are_named(command: str, reasons: list[str]):
    asked = request({"command": command})
    assert [risk.reason for risk in find_risks(asked, CWD)] == reasons


def test_a_risky_word_is_marked_in_the_command_only_as_a_word():
    asked = request({"command": "rm a && echo warm rm-x"})
    line = request_lines(summarize_request(asked, CWD), 100)[0]
    assert [text for text, role in line if role == "asking"] == ["rm"]


def test_an_edit_outside_and_a_protected_file_are_named():
    outside = request(None, Diff(path="/etc/hosts", new_text="x"), kind="edit", name="write")
    assert [risk.reason for risk in find_risks(outside, CWD)] == ["writes outside the workspace"]
    inside = request(None, Diff(path=f"{CWD}/.envrc", new_text="x"), kind="edit", name="write")
    assert [risk.reason for risk in find_risks(inside, CWD)] == ["changes what programs run later"]


def test_a_log_with_the_widest_option_first_still_offers_the_narrowest():
    options = ours("pytest -q")
    choices = merge_options(tuple(reversed(options)))
    by_key = {one.key: (one.option, one.rule) for one in choices.shown}
    assert by_key["s"] == ("allow-session-1", "bash(pytest -q)")
    assert by_key["p"] == ("allow-project-1", "bash(pytest -q)")
    assert choices.find_rules(with_more=False) == {"bash(pytest -q)": ("allow bash(pytest -q)",)}
    assert set(choices.find_rules(with_more=True)) == {"bash(pytest -q)", "bash(pytest:*)"}
    for option in options:  # whatever was offered can be answered
        assert choice_of(options, option.option_id).known


def test_a_command_with_a_text_offers_the_words_before_it():
    choices = merge_options(ours("git commit -m 'Fix the parser'"))
    assert {one.rule for one in choices.shown if one.rule} == {"bash(git commit -m:*)"}
    wider = [one.rule for one in choices.more if one.allows]
    assert wider == ["bash(git commit:*)", "bash(git commit:*)"]


@pytest.mark.parametrize("denied", [0, 2])
def test_the_past_of_a_rule_is_a_line_that_names_it_where_it_has_room(denied: int):
    found = BackTest(
        rules=("allow bash(pytest -q)",),
        requests=34,
        allowed=31,
        denied=0,
        asked=3,
        allowed_denied=denied,
        denied_allowed=0,
    )
    past = f"{denied} that you denied" if denied else "none that you denied"
    words = f"would have answered 31 of 34 requests of this week, {past}"
    (line,) = back_test_line("bash(pytest -q)", found, 100)
    assert text_of(line) == (f"{CONFLICT} " if denied else "") + f"pytest -q {words}"
    assert {role for _, role in line} == ({"asking", "warning"} if denied else {"faint"})
    (line,) = back_test_line("bash(pytest -q)", found, 72)
    assert text_of(line).removeprefix(f"{CONFLICT} ") == words
    assert len(back_test_line("bash(pytest -q)", found, 30)) == 3
    nothing = msgspec.structs.replace(found, requests=0)
    assert back_test_line("x", nothing, 80) == back_test_line("x", None, 80) == []


def test_an_agents_own_options_are_merged_with_ours():
    choices = merge_options((*ours("pytest -q"), *THEIRS))
    assert [(one.key, one.words) for one in choices.shown] == [
        ("y", "allow once"),
        ("s", "allow pytest -q for this session"),
        ("p", "allow pytest -q in this project"),
        ("n", "deny"),
    ]
    assert (choices.once, choices.deny) == ("allow-once", "reject-once")
    assert [one.words for one in choices.more if one.is_agents] == [
        "Yes, don't ask again (allow always)"
    ]
    assert [one.words for one in choices.more if not one.is_agents] == [
        "allow pytest:* for this session",
        "allow pytest:* in this project",
        "allow pytest -q everywhere",
    ]
    assert choices.rule == "bash(pytest -q)"


def test_an_agent_without_options_of_ours_has_its_own():
    choices = merge_options(THEIRS)
    assert [(one.key, one.option) for one in choices.shown] == [("y", "approved"), ("n", "abort")]
    assert [(one.key, one.option) for one in choices.more] == [("2", "forever")]
    assert merge_options(()).shown == () and merge_options(()).once is None


def test_an_option_of_a_strange_kind_is_no_allow():
    strange = PermissionOption(option_id="x", name="Allow", kind="allow_maybe")
    choices = merge_options((strange,))
    assert choices.shown == () and choices.more[0].words == "Allow (allow maybe)"
    odd = replace(strange, meta={"quarterdeck": {"effect": "allow", "patterns": "x"}})
    assert merge_options((odd,)).shown == ()


def test_a_second_allow_of_the_agent_is_among_the_others():
    plan = PermissionOption(option_id="auto", name="Yes, and accept edits", kind="allow_once")
    choices = merge_options((*THEIRS, plan))
    assert choices.once == "approved"
    assert "auto" in [one.option for one in choices.more]


def test_choices_stand_in_one_line_where_they_fit_and_no_rule_is_cut():
    choices = merge_options(ours("pytest -q"))
    assert len(choice_lines(choices, 100)) == 1
    assert len(choice_lines(choices, 76)) == 1  # in fewer words
    for width in (20, 30, 50):
        lines = choice_lines(choices, width)
        text = " ".join(text_of(line).strip() for line in lines)
        assert all(width_of(line) <= width for line in lines)
        assert text.count("pytest -q") == 2 and text.endswith("n deny")
    stacked = [text_of(line)[0] for line in choice_lines(choices, 50)]
    assert stacked == ["y", "s", "p", "n"]  # one below the other, none alone in a second line
    assert len(choice_lines(choices, 50, is_tight=True)) < 4


def test_the_queue_tells_what_is_alike():
    queue = RequestQueue(place=1, count=3, alike=("a3",))
    assert queue.words == "1 of 3, 1 alike"
    choices = merge_options(ours("pytest -q"))
    assert hint_words(choices, is_more=False).endswith("d deny with words · esc later")
    assert RequestQueue().words == ""


RECORDED = Path(__file__).parent.parent / "fixtures" / "acp"
FILES = sorted(RECORDED.glob("*.jsonl"))
ASKING = {
    file.stem: lines.splitlines()
    for file in FILES
    if "request_permission" in (lines := file.read_text())
}


async def recorded(lines: Sequence[str]) -> PermissionAsked:
    """The request of a recorded agent, with the options that a person is given."""
    frames = (msgspec.json.decode(line)["msg"] for line in lines)
    params = next(one["params"] for one in frames if "request_permission" in one.get("method", ""))
    given = msgspec.convert(params, RequestPermissionRequest)
    call = given.tool_call
    asked = request(
        call.raw_input if not isinstance(call.raw_input, msgspec.Raw) else None,
        *(call.content or ()), title=call.title or "", kind=call.kind or "other",
        name=call.name, locations=call.locations or (), reason=None,
        options=own_options(given.options, "theirs"),
    )  # fmt: skip
    found: list[PermissionAsked] = []
    around = CallContext(cwd=CWD, roots=(CWD,))
    gate = Gate(mode="ask")

    async def emit(event: object) -> None:
        if isinstance(event, PermissionAsked):
            found.append(event)
            raise asyncio.CancelledError

    with suppress(asyncio.CancelledError):
        await gate.permit(emit, asked, await call_of(asked, around, gate))
    return found[0]


@pytest.mark.parametrize("name", ASKING)
async def test_a_recorded_request_has_four_choices_and_shows_what_it_asks_once(name: str):
    asked = await recorded(ASKING[name])
    choices = merge_options(asked.options)
    assert len(choices.shown) <= 4 and choices.once and choices.deny
    assert len({one.key for one in choices.shown}) == len(choices.shown)
    assert not any(one.is_agents for one in choices.shown)
    # What lasts in the agent itself is there by its own name, and not among the four.
    lasting = [one.name for one in asked.options if one.kind == "allow_always" and not one.meta]
    words = [one.words for one in choices.more if one.is_agents]
    assert [f"{name} (allow always)" for name in lasting] == words
    text = shown(asked, 120)
    command = find_command(asked)
    if command is not None:
        assert text.count(command) == 1
    assert text.count("hello from script") == bool(asked.content and asked.kind == "edit")


def test_more_choices_have_their_numbers():
    lines = [text_of(line) for line in more_lines(merge_options((*ours("ls -l"), *THEIRS)), 80)]
    assert lines[-1] == "e write a rule of your own"
    assert any(line.endswith("Yes, don't ask again (allow always)") for line in lines)
