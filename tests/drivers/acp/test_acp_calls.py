"""What real agents send with a request for leave, and what becomes of it."""

from pathlib import Path

from quarterdeck.drivers.acp.extensions import tool_name
from quarterdeck.drivers.acp.known_calls import KnownCalls, call_details
from quarterdeck.drivers.permissions import call_of
from quarterdeck.policy.decision import decide
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import text
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.ids import RequestId, ToolCallId
from quarterdeck.wire.tool_calls import ContentItem, Diff


def test_a_tools_name_is_read_where_each_agent_puts_it():
    assert tool_name({"claudeCode": {"toolName": "Write"}}) == "Write"
    assert tool_name({"tool_name": "write_file"}) == "write_file"
    assert tool_name({"toolName": "run_shell_command"}) == "run_shell_command"
    goose = {"toolName": "shell", "extensionName": "developer"}
    assert tool_name({"goose": {"toolCall": goose}}) == "shell"
    other = {"toolName": "search", "extensionName": "docs"}
    assert tool_name({"goose": {"toolCall": other}}) == "mcp__docs__search"
    assert tool_name({"goose": 7, "toolName": 7}) is None


def test_arguments_that_were_streamed_before_the_request_count():
    def shown(words: str) -> tuple[ContentItem, ...]:
        return (ContentItem(content=text(words)),)

    first = acp.ToolCall(tool_call_id="1", title="Bash", kind="execute", content=shown(""))
    calls = KnownCalls(streams_input=True)
    calls.announce(call_details(first, None))
    for part in ('{"command": "touch a', '{"command": "touch a && rm b"}'):
        update = acp.ToolCallDetails(tool_call_id="1", content=shown(part))
        calls.update(update)
    asked = acp.ToolCallDetails(
        tool_call_id="1", title="Bash", content=shown("Requesting approval to Running")
    )
    known = calls.requested(asked)
    assert known.raw_input == {"command": "touch a && rm b"}
    assert known.kind == "execute"


def test_an_empty_input_and_the_kind_other_say_nothing():
    earlier = acp.ToolCallDetails(tool_call_id="1", kind="edit", raw_input={"path": "a"})
    now = acp.ToolCallDetails(tool_call_id="1", kind="other", raw_input={})
    calls = KnownCalls()
    calls.update(earlier)
    known = calls.requested(now)
    assert (known.kind, known.raw_input) == ("edit", {"path": "a"})


def question(**fields: object) -> PermissionAsked:
    return PermissionAsked(
        request=RequestId("r"), call=ToolCallId("c"), title="do", options=(), **fields
    )  # type: ignore[arg-type]


async def test_files_of_a_diff_and_behind_links_are_seen(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / ".git")
    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),))
    gate = Gate(mode="accept-edits")
    diff = (Diff(path=str(tmp_path / "link" / "config"), new_text="x"),)
    call = await call_of(question(kind="edit", content=diff), around, gate)
    assert type(decide(call, "accept-edits")).__name__ == "Ask"
    plain = (Diff(path=str(tmp_path / "a"), new_text="x"),)
    call = await call_of(question(kind="edit", content=plain), around, gate)
    assert type(decide(call, "accept-edits")).__name__ == "Allow"


async def test_a_search_below_what_a_rule_guards_is_asked_about(tmp_path: Path):
    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),), home="/home/dev")
    search = question(kind="search", name="Grep", raw_input={"pattern": "x"})
    for rule, decision in (
        ("deny read(.env)", "Ask"),
        ("deny read(src/secret/**)", "Ask"),
        ("deny read(~/.ssh/**)", "Allow"),
        ("deny edit(.env)", "Allow"),
    ):
        rules = (parse_rule(rule),)
        call = await call_of(search, around, Gate(mode="ask", rules=rules))
        assert type(decide(call, "ask", rules)).__name__ == decision, rule
