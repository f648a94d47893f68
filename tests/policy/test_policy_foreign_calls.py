"""Calls of agents that we did not write."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.policy import Allow, CallContext, call_from_tool, decide, parse_rule
from quarterdeck.testing.installed_programs import INSTALLED

AROUND = CallContext(cwd="/home/dev/app", roots=("/home/dev/app",), home="/home/dev", agent="x")
RULES = [parse_rule(t) for t in ("allow bash(touch:*)", "allow edit(**)", "deny bash(rm)")]
CALLS = tomllib.loads((Path(__file__).parent / "foreign_calls.toml").read_text())["call"]


@pytest.mark.parametrize("recorded", CALLS, ids=lambda call: f"{call['agent']}-{call['kind']}")
def test_a_recorded_request_gets_its_decision(recorded: dict[str, Any]):
    call = call_from_tool(
        recorded.get("name"),
        recorded["kind"],
        recorded.get("input"),
        recorded.get("locations", ()),
        title=recorded.get("title", ""),
        around=AROUND,
    )
    decision = decide(replace(call, programs=INSTALLED), "ask", RULES)
    assert type(decision).__name__.lower() == recorded["decision"], decision
    assert call.agent == "x"


@pytest.mark.parametrize("command", ["make", "rm -r x"])
def test_of_a_command_that_is_known_in_part_a_rule_may_deny_the_rest(command: str):
    rules = [parse_rule(text) for text in ("allow bash", "deny bash(touch)", "deny bash(rm)")]
    whole = {"command": command}
    for told, wanted in ((whole, "Allow"), ({**whole, "unseen": "it is cut"}, "Ask")):
        call = call_from_tool("bash", "execute", told, around=AROUND)
        decision = decide(replace(call, programs=INSTALLED), "ask", rules)
        assert type(decision).__name__ == ("Deny" if "rm" in command else wanted), decision


def test_an_mcp_tool_is_known_by_its_name():
    call = call_from_tool("mcp__docs__search", "other", {}, around=AROUND)
    assert call.mcp is not None
    assert (call.mcp.server, call.mcp.tool) == ("docs", "search")
    assert decide(call, "ask", [parse_rule("allow mcp(docs:search)")]).__class__.__name__ == "Allow"


def test_an_mcp_tool_is_known_by_title_and_input_together():
    raw = {"server": "docs", "tool": "search", "arguments": {}}
    call = call_from_tool(None, "execute", raw, title="mcp.docs.search", around=AROUND)
    assert call.mcp is not None and (call.mcp.server, call.mcp.tool) == ("docs", "search")
    rule = parse_rule("allow mcp(docs)")
    for name, title, told in [
        (None, "mcp.docs.other", raw),
        (None, "mcp.docs.search", {**raw, "command": "rm -rf /"}),
        (None, "mcp.docs.search", {"command": "rm -rf /"}),
        (None, "mcp.1.2", {"server": 1, "tool": 2, "arguments": {}}),
        ("bash", "mcp.docs.search", raw),
    ]:
        call = call_from_tool(name, "execute", told, title=title, around=AROUND)
        assert call.mcp is None
        assert type(decide(call, "ask", [rule])).__name__ == "Ask"


def test_a_relative_path_begins_at_the_working_directory():
    call = call_from_tool("Read", "read", {"file_path": "../x"}, around=AROUND)
    assert [use.path for use in call.paths] == ["/home/dev/x"]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["command", "file_path", "url", "paths", "cwd", "changes", "x"]), inner
        )
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=80)
@given(
    st.none() | st.sampled_from(["Bash", "Read", "mcp__a__b", "mcp__", "edit", "x"]),
    st.sampled_from(["read", "edit", "execute", "fetch", "search", "other", "delete", "think"]),
    json,
    st.lists(st.text(max_size=8), max_size=2),
    st.text(max_size=20),
)
def test_no_input_breaks_the_reading(
    name: str | None, kind: Any, raw: Any, locations: list[str], title: str
):
    call = call_from_tool(name, kind, raw, locations, title=title, around=AROUND)
    decide(call, "ask", RULES)


@pytest.mark.parametrize(
    ("name", "kind", "given", "decision"),
    [
        ("Grep", "search", {"pattern": "x", "glob": ".env"}, "Deny"),
        ("Grep", "search", {"pattern": ".env", "path": "src"}, "Allow"),
        ("Glob", "search", {"pattern": ".env"}, "Deny"),
        ("Glob", "search", {"pattern": "/etc/*.conf"}, "Ask"),
        ("grep_search", "search", {"pattern": "x", "include": ["src/.env"]}, "Deny"),
        ("read_many_files", "read", {"include": [".env"]}, "Deny"),
        ("list", "read", {"dir": "/etc"}, "Ask"),
        ("file_search", "search", {"query": ".env"}, "Deny"),
        ("copy", "move", {"source": ".env", "destination": "x"}, "Deny"),
        ("strange", "other", {"folder": ".env"}, "Deny"),
    ],
)
def test_a_deny_rule_sees_paths_and_patterns_in_any_field(
    name: str, kind: Any, given: dict[str, Any], decision: str
):
    call = call_from_tool(name, kind, given, around=AROUND)
    assert type(decide(call, "ask", [parse_rule("deny read(.env)")])).__name__ == decision


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Glob", {"pattern": ".env"}),
        ("Glob", {"pattern": ".en?"}),
        ("Grep", {"pattern": "KEY", "glob": ".env*"}),
        ("grep_search", {"query": "KEY", "include_pattern": "{.env,x}"}),
    ],
)
def test_a_deny_rule_sees_the_patterns_of_a_search(name: str, given: dict[str, Any]):
    call = call_from_tool(name, "search", given, around=AROUND)
    assert not isinstance(decide(call, "ask", [parse_rule("deny read(.env)")]), Allow)
    assert isinstance(decide(call, "ask", [parse_rule("deny read(other.pem)")]), Allow)


@pytest.mark.parametrize(
    "raw",
    [
        {"command": "rm -r x", "cmd": "ls"},
        {"cmd": "ls", "command": "rm -r x"},
        {"command": ["touch", "a"], "cmd": "ls"},
        {"command": ["touch", 1], "cmd": "ls"},
        {"command": "cat passwd", "workdir": "/etc", "cwd": "/home/dev/app"},
        {"command": "cat passwd", "cwd": "/home/dev/app", "directory": "/etc"},
        {"command": "cat passwd", "cwd": 7},
    ],
)
def test_a_command_that_is_given_twice_and_differs_is_not_certain(raw: dict[str, Any]):
    rules = [
        parse_rule(text) for text in ("allow bash(ls:*)", "allow bash(cat:*)", "deny bash(rm)")
    ]
    call = call_from_tool("bash", "execute", raw, around=AROUND)
    decision = decide(replace(call, programs=INSTALLED), "ask", rules)
    wanted = "Deny" if "rm" in str(raw) else "Ask"
    assert type(decision).__name__ == wanted, decision


def test_a_command_that_is_given_twice_alike_is_one():
    raw = {
        "command": ["ls", "-l"],
        "cmd": "ls -l",
        "cwd": "/home/dev/app",
        "workdir": "/home/dev/app",
    }
    call = call_from_tool("bash", "execute", raw, around=AROUND)
    assert isinstance(decide(call, "ask", [parse_rule("allow bash(ls:*)")]), Allow)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("link/../.env", "Ask"),
        ("/home/dev/app/link/../.env", "Ask"),
        ("src/..", "Ask"),
        ("../app/a", "Allow"),
        ("a..b/c", "Allow"),
    ],
)
def test_where_a_path_goes_back_from_a_directory_is_not_certain(path: str, wanted: str):
    call = call_from_tool("edit", "edit", {"path": path}, around=AROUND)
    assert type(decide(call, "ask", [parse_rule("allow edit(**)")])).__name__ == wanted
