"""One script drives every agent: abstract tools become the ones that an agent offers.

The tool lists are those that the agents sent to a model, without the descriptions.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models.script.format import AbstractTool
from quarterdeck.models.script.question import find_cwd
from quarterdeck.models.script.tools import OfferedTool, resolve_tool, sample_of
from quarterdeck.testing.wires.anthropic import AnthropicWire
from quarterdeck.testing.wires.google import GeminiWire
from quarterdeck.testing.wires.openai_chat import ChatWire
from quarterdeck.testing.wires.openai_responses import ResponsesWire

FIXTURE = Path(__file__).parents[1] / "fixtures" / "models" / "offered_tools.json"
RECORDED: dict[str, Any] = json.loads(FIXTURE.read_text())
WIRES = {w.name: w for w in (AnthropicWire(), ChatWire(), GeminiWire(), ResponsesWire())}

GIVEN: dict[AbstractTool, dict[str, Any]] = {
    "write": {"path": "a.txt", "content": "one\ntwo\n"},
    "shell": {"command": "ls -l"},
    "read": {"path": "a.txt"},
    "edit": {"path": "a.txt", "old": "one", "new": "uno"},
}


def offered(agent: str) -> tuple[OfferedTool, ...]:
    recorded = RECORDED[agent]
    question, _ = WIRES[recorded["wire"]].read("/", {"tools": recorded["tools"]})
    return question.tools


def tool(name: str, *properties: str, **schemas: Any) -> OfferedTool:
    declared = {p: {"type": "string"} for p in properties} | schemas
    return OfferedTool(name=name, parameters={"type": "object", "properties": declared})


@pytest.mark.parametrize("agent", RECORDED)
@pytest.mark.parametrize("abstract", GIVEN)
def test_every_recorded_agent_has_a_tool_whose_schema_the_call_fits(
    agent: str, abstract: AbstractTool
) -> None:
    tools = offered(agent)
    call = resolve_tool(abstract, GIVEN[abstract], tools, "/work")
    assert call is not None
    schema = next(t.parameters for t in tools if t.name == call.name)
    if call.free:
        assert call.text.startswith("*** Begin Patch\n")
    else:
        jsonschema.validate(json.loads(call.text), schema)


@pytest.mark.parametrize(
    ("agent", "abstract", "name", "arguments"),
    [
        ("claude", "write", "Write", {"file_path": "/work/a.txt", "content": "one\ntwo\n"}),
        ("claude", "shell", "Bash", {"command": "ls -l"}),
        ("codex", "shell", "exec_command", {"cmd": "ls -l"}),
        ("codex", "read", "exec_command", {"cmd": "cat '/work/a.txt'"}),
        ("gemini", "shell", "run_shell_command", {"command": "ls -l"}),
        ("gemini", "read", "read_file", {"file_path": "/work/a.txt"}),
        ("opencode", "read", "read", {"filePath": "/work/a.txt"}),
        (
            "opencode",
            "edit",
            "edit",
            {"filePath": "/work/a.txt", "oldString": "one", "newString": "uno"},
        ),
    ],
)
def test_arguments_take_the_names_of_the_agent(
    agent: str, abstract: AbstractTool, name: str, arguments: dict[str, Any]
) -> None:
    call = resolve_tool(abstract, GIVEN[abstract], offered(agent), "/work")
    assert call is not None
    assert call.name == name
    assert json.loads(call.text) == arguments


def test_codex_writes_and_edits_by_patch() -> None:
    write = resolve_tool("write", GIVEN["write"], offered("codex"), "/work")
    edit = resolve_tool("edit", GIVEN["edit"], offered("codex"), "/work")
    assert write is not None
    assert edit is not None
    assert write.text == "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch\n"
    assert edit.text == ("*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+uno\n*** End Patch\n")


def test_a_tool_that_runs_code_calls_the_others_from_it() -> None:
    runner = OfferedTool(name="exec", free=True)
    call = resolve_tool("shell", {"command": 'echo "a"'}, (runner,), None)
    assert call is not None
    assert call.free
    assert 'tools.exec_command({"cmd": "echo \\"a\\""})' in call.text


def test_a_shell_that_wants_words_gets_words() -> None:
    shell = tool("shell", command={"type": "array", "items": {"type": "string"}})
    call = resolve_tool("shell", GIVEN["shell"], (shell,), None)
    assert call is not None
    assert json.loads(call.text) == {"command": ["bash", "-lc", "ls -l"]}


def test_one_editor_tool_does_all_file_work() -> None:
    editor = tool(
        "str_replace_based_edit_tool", "command", "path", "file_text", "old_str", "new_str"
    )
    done = {}
    for abstract in ("write", "read", "edit"):
        call = resolve_tool(abstract, GIVEN[abstract], (editor,), "/w")
        assert call is not None
        done[abstract] = json.loads(call.text)["command"]
    assert done == {"write": "create", "read": "view", "edit": "str_replace"}


def test_arguments_beyond_the_needed_reach_tools_that_know_them() -> None:
    given = {"command": "ls", "sandbox_permissions": "require_escalated"}
    codex = resolve_tool("shell", given, offered("codex"), None)
    claude = resolve_tool("shell", given, offered("claude"), None)
    assert codex is not None
    assert claude is not None
    assert json.loads(codex.text) == {
        "cmd": "ls",
        "sandbox_permissions": "require_escalated",
    }
    assert json.loads(claude.text) == {"command": "ls"}


def test_absolute_paths_and_unknown_directories_are_left_alone() -> None:
    reader = tool("read", "path")
    for path, cwd in (("/etc/x", "/work"), ("a.txt", None)):
        call = resolve_tool("read", {"path": path}, (reader,), cwd)
        assert call is not None
        assert json.loads(call.text) == {"path": path}


@pytest.mark.parametrize(
    "name", ["mcp__s__echo", "s__echo", "s_echo", "mcp_s_echo", "s.echo", "s-echo", "echo"]
)
def test_mcp_tools_are_found_however_they_are_named(name: str) -> None:
    given = {"tool": "echo", "arguments": {"text": "hi"}}
    for arguments in (given, {**given, "server": "s"}):
        call = resolve_tool("mcp", arguments, (tool("other"), tool(name, "text")), None)
        assert call is not None
        assert call.name == name
        assert json.loads(call.text) == {"text": "hi"}


def test_nothing_fitting_is_none() -> None:
    assert resolve_tool("write", GIVEN["write"], (), None) is None
    assert resolve_tool("write", GIVEN["write"], (tool("Write", "what"),), None) is None
    assert resolve_tool("write", {"path": "a"}, (tool("Write", "path", "content"),), None) is None
    assert resolve_tool("mcp", {"tool": "echo"}, (tool("techo"),), None) is None


schemas = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer"},
            {"type": "boolean"},
            {"type": ["number", "null"]},
            {"const": 3},
            {"enum": ["a", 1]},
            {"type": "null"},
        ]
    ),
    lambda inner: (
        st.builds(lambda i, n: {"type": "array", "items": i, "minItems": n}, inner, st.just(2))
        | st.builds(lambda i: {"anyOf": [i, {"type": "null"}]}, inner)
        | st.builds(
            lambda p: {"type": "object", "properties": p, "required": list(p)},
            st.dictionaries(st.sampled_from(["a", "b"]), inner),
        )
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(schemas)
def test_samples_fit_their_schema(schema: dict[str, Any]) -> None:
    jsonschema.validate(sample_of(schema), schema)


@pytest.mark.parametrize("directory", ["/work/x", "/a b/c'd", '/q"q/ü`', "/a,b <c>"])
def test_the_directory_of_our_own_agent_is_found_whatever_it_is_called(directory: str):
    told = f"You are an agent.\n\n- Working directory: {directory}\n- Platform: linux\n"
    assert find_cwd({"system": told}) == directory
