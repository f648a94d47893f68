"""What a permission request shows: everything once, risky parts marked, at most four choices."""

from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.fleet.api import InboxItem
from quarterdeck.policy.call import Call
from quarterdeck.policy.permission_options import options_for, suggest_grants
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.tool_calls import ContentItem, Diff, ToolCallContent
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.screens.permission_lines import (
    RequestQueue,
    choice_lines,
    hint_words,
    more_lines,
    request_lines,
    risk_lines,
)
from quarterdeck.workbench.screens.permission_model import (
    find_alike,
    find_risks,
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


def test_an_agents_own_options_are_merged_with_ours():
    choices = merge_options((*ours("pytest -q"), *THEIRS))
    assert [(one.key, one.words) for one in choices.shown] == [
        ("y", "allow once"),
        ("s", "allow pytest:* for this session"),
        ("p", "allow pytest:* in this project"),
        ("n", "deny"),
    ]
    assert (choices.once, choices.deny) == ("allow-once", "reject-once")
    assert [one.words for one in choices.more if one.is_agents] == [
        "Yes, don't ask again (allow always)"
    ]
    assert [one.words for one in choices.more if not one.is_agents] == [
        "allow pytest -q for this session",
        "allow pytest -q in this project",
        "allow pytest -q everywhere",
    ]
    assert choices.rule == "bash(pytest:*)"


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
        assert text.count("pytest:*") == 2 and text.endswith("n deny")


def test_the_queue_tells_what_is_alike():
    def item(number: int, asked: PermissionAsked) -> InboxItem:
        asked = replace(asked, request=RequestId(f"req_{number}"))
        session = SessionId(f"ses_{number}")
        return InboxItem(
            request=asked.request, session=session, name=f"a{number}", since=0, seq=1,
            permission=asked,
        )  # fmt: skip

    same, other = request({"command": "ls"}), request({"command": "ls -l"})
    items = [item(1, same), item(2, other), item(3, same)]
    assert [one.name for one in find_alike(items, items[0])] == ["a3"]
    assert find_alike(items, items[1]) == ()
    queue = RequestQueue(place=1, count=3, alike=("a3",))
    assert queue.words == "1 of 3, 1 alike"
    choices = merge_options(ours("pytest -q"))
    assert "A allow all 2" in hint_words(choices, queue, is_more=False)
    assert RequestQueue().words == ""


def test_more_choices_have_their_numbers():
    lines = [text_of(line) for line in more_lines(merge_options((*ours("ls -l"), *THEIRS)), 80)]
    assert lines[-1] == "e write a rule of your own"
    assert any(line.endswith("Yes, don't ask again (allow always)") for line in lines)
