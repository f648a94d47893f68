"""The states of a screen that are about a conversation: what is folded, failed, nested, read."""

from pathlib import Path

from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PlanChanged,
    Prompted,
    SessionEnded,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, SessionId, TerminalId, ToolCallId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem
from quarterdeck.wire.usage import Cost, TokenUsage

from .png_images import encode_png, make_png, picture_of_a_sunset
from .staged_workbench import Stage, StagedFleet, state

__all__ = ["ANSWER", "PYTEST", "add_inner", "run_command", "turn_with_everything"]

_OLD = "".join(f"def step_{n}(text):\n    return parse(text)\n\n\n" for n in range(1, 16))
_NEW = _OLD.replace(
    "def step_9(text):\n    return parse(text)\n",
    'def step_9(text):\n    """Keep the offset."""\n    return parse(text).astimezone(UTC)\n',
).replace("def step_2(text)", "def step_2(text, zone=None)")
PYTEST = """\
tests/test_parser.py .....F......                                        [100%]
E       assert 13 == 14
E        +  where 13 = offset('2026-01-01T13:00+01:00')
FAILED tests/test_parser.py::test_offset - assert 13 == 14
=================== 1 failed, 212 passed in 3.91s ===================
"""
ANSWER = """\
## What was wrong

The parser drops the **offset** before it compares, see
[RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6) and https://docs.python.org/3/.
This sentence is long, to show that text for reading ends after a hundred cells, however wide the
panel may be.

1. `src/parser.py` keeps it
   - also for `Z`
   - and for dates *without* a time
2. `tests/test_parser.py` has three cases more

- [x] regression test
- [ ] documentation

> Times are compared in UTC.

| case | before | now |
|:-----|-------:|:---:|
| `2026-01-01T13:00+01:00` | 13 | 12 |
| `2026-01-01T13:00Z` | 13 | 13 |

```python
def offset(text):
    return parse(text).astimezone(UTC)  # not local
```
"""


async def add_inner(fleet: StagedFleet, session: SessionId, parent: str, event: Event) -> None:
    """What a sub-agent did, in the log of its agent."""
    record = Record(
        seq=len(fleet.records) + 1,
        time=fleet.clock(),
        session=session,
        turn=fleet.open_turns.get(session),
        parent=ToolCallId(parent),
        event=event,
    )
    fleet.records.append(record)
    async with fleet.changed:
        fleet.changed.notify_all()


async def run_command(
    fleet: StagedFleet, session: SessionId, command: str, output: str, code: int | None
) -> None:
    """A command in a terminal; without an exit code it runs."""
    call, terminal = ToolCallId(f"run_{len(fleet.records)}"), TerminalId(f"t{len(fleet.records)}")
    await fleet.tell(
        session,
        ToolCallStarted(
            call=call, title=command, name="bash", kind="execute", status="in_progress",
            content=(TerminalItem(terminal_id=terminal),), raw_input={"command": command},
        ),
        TerminalOutput(terminal=terminal, data=output),
    )  # fmt: skip
    if code is not None:
        await fleet.tell(
            session,
            TerminalExited(terminal=terminal, exit_code=code),
            ToolCallEnded(call=call, status="completed"),
        )


async def _reads(fleet: StagedFleet, session: SessionId) -> None:
    for path in ("src/parser.py", "src/zones.py", "tests/test_parser.py"):
        lines = (ContentItem(content=text("x = 1\n" * 120)),)
        await fleet.tool(session, "read", f"Read /work/project/{path}", kind="read", content=lines)
    for words in ("offset", "astimezone"):
        await fleet.tool(session, "grep", f"Search '{words}'", kind="search")
    await fleet.tool(session, "ls", "List src", kind="read")


async def _edit(fleet: StagedFleet, session: SessionId) -> None:
    path = "/work/project/src/parser.py"
    edited = Diff(path=path, old_text=_OLD, new_text=_NEW)
    given = {"file_path": path, "old_string": "a", "new_string": "b"}
    await fleet.tool(
        session, "edit", f"Edit {path}", kind="edit", content=(edited,), raw_input=given
    )


async def turn_with_everything(fleet: StagedFleet, home: Path | None = None) -> SessionId:
    """A turn that reads, edits, runs a test that fails, edits again and tells what it did."""
    ann = await fleet.agent_at_work("ann", "Dates with a time zone are read wrong. Find out why.")
    await fleet.tell(
        ann,
        ThoughtChunk(content=text("**Looking** at the parser first. ")),
        ThoughtChunk(content=text("The offset is lost there.\nIt has callers in two modules.")),
        ThoughtChunk(content=text(" I will read them.")),
    )
    await _reads(fleet, ann)
    await _edit(fleet, ann)
    await run_command(fleet, ann, "pytest -q", PYTEST, 1)
    new = Diff(path="tests/test_offset.py", new_text="def test_offset():\n    assert True\n")
    await fleet.tool(ann, "write", "Create tests/test_offset.py", kind="edit", content=(new,))
    await run_command(fleet, ann, "pytest -q", "213 passed in 3.77s\n", 0)
    return ann


async def _ended(fleet: StagedFleet, home: Path) -> None:
    ann = await turn_with_everything(fleet)
    usage = TokenUsage(input=9_300, output=1_200)
    await fleet.tell(
        ann,
        MessageChunk(content=text("The offset is kept now, and three cases more are tested.")),
        TurnEnded(stop="end_turn", usage=usage, cost=Cost(amount=0.12, currency="USD")),
    )


async def _answered(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann", "What was wrong?")
    await fleet.tell(ann, MessageChunk(content=text(ANSWER)), TurnEnded(stop="end_turn"))


async def _nested(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann", "Find out who calls the parser")
    for name, what in (("one", "Find callers in src"), ("two", "Find callers in tests")):
        task = ToolCallStarted(
            call=ToolCallId(name), title=f"Task: {what}", name="Task", kind="think",
            status="in_progress",
        )  # fmt: skip
        await fleet.tell(ann, task)
        await add_inner(fleet, ann, name, MessageChunk(content=text(f"I look in {what[16:]}.")))
        for number in range(2):
            call = ToolCallId(f"{name}.{number}")
            title = f"Search 'parse' in part {number}"
            begun = ToolCallStarted(call=call, title=title, name="Grep", kind="search")
            await add_inner(fleet, ann, name, begun)
            if name == "one" or not number:
                await add_inner(fleet, ann, name, ToolCallEnded(call=call, status="completed"))
    await add_inner(fleet, ann, "one", MessageChunk(content=text("Three modules call it.")))
    done = ContentItem(content=text("Three modules call it."))
    end = ToolCallEnded(call=ToolCallId("one"), status="completed", content=(done,))
    await fleet.tell(ann, end)


async def _planned(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann", "Port all modules")
    stages = ["completed"] * 3 + ["in_progress"] + ["pending"] * 196
    entries = tuple(
        PlanEntry(content=f"Port module {n}", priority="medium", status=stage)  # pyright: ignore[reportArgumentType]
        for n, stage in enumerate(stages, 1)
    )
    await fleet.tell(ann, PlanChanged(entries=entries))
    await run_command(fleet, ann, "make port", "".join(f"step {n}\n" for n in range(40)), None)


async def _several_turns(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann", "Write a book about parsers")
    for number in range(1, 4):
        words = f"Now chapter {number}, please.\nWith many words."
        message = MessageId(f"chapter_{number}")
        await fleet.tell(ann, Prompted(content=(text(words),), message=message), TurnStarted())
        lines = "\n\n".join(f"Sentence {n} of chapter {number}." for n in range(1, 41))
        await fleet.tell(ann, MessageChunk(content=text(lines)), TurnEnded(stop="end_turn"))


@state(turn_with_everything)  # pyright: ignore[reportArgumentType]
async def talk_with_calls(stage: Stage) -> None:
    await stage.until("213 passed", "exit 1")


@state(turn_with_everything)  # pyright: ignore[reportArgumentType]
async def talk_with_a_run_unfolded(stage: Stage) -> None:
    await stage.until("213 passed")
    await stage.press("f3")
    view = stage.app.main.transcript
    view.action_start()
    await stage.until("read 3 files")
    while not hasattr(view.marked, "calls"):
        await stage.press("j")
    await stage.press("enter")
    await stage.until("read src/zones.py")


@state(turn_with_everything)  # pyright: ignore[reportArgumentType]
async def talk_with_times(stage: Stage) -> None:
    await stage.until("213 passed")
    await stage.command("times")
    await stage.until("09:00 ✓")


async def _interrupted(fleet: StagedFleet, home: Path) -> None:
    """A command that the person stopped, and one that was open when the agent's process ended."""
    ann = await fleet.agent_at_work("ann", "Run the whole suite")
    await fleet.tool(ann, "read", "Read /work/project/Makefile", kind="read")
    await run_command(fleet, ann, "make test", "tests/test_parser.py ......\n", None)
    stopped = ToolCallId(f"run_{len(fleet.records) - 2}")
    await fleet.tell(
        ann, ToolCallEnded(call=stopped, status="cancelled"), TurnEnded(stop="cancelled")
    )
    again = Prompted(content=(text("Only the parser, please"),), message=MessageId("again"))
    await fleet.tell(ann, again, TurnStarted())
    await fleet.tell(ann, MessageChunk(content=text("I run the tests of the parser alone.")))
    await run_command(fleet, ann, "pytest -q tests/test_parser.py", "collected 14 items\n", None)
    await fleet.tell(ann, SessionEnded(how="broken", reason="claude ended with exit code 137"))


@state(_interrupted)
async def talk_with_interrupted_calls(stage: Stage) -> None:
    await stage.press("ctrl+n")
    await stage.until("make test", "interrupted", "exit code 137", "ctrl+r")


@state(_ended)
async def talk_that_ended(stage: Stage) -> None:
    await stage.until("2 files changed", "alt+v review")


async def _pictured(fleet: StagedFleet, home: Path) -> None:
    ann = await fleet.agent_at_work("ann")
    sunset = ImageContent(
        data=encode_png(picture_of_a_sunset()), mime_type="image/png", uri="file:///sunset.png"
    )
    what = Prompted(content=(text("What is in these?"), sunset), message=MessageId("m"))
    fleet.open_turns[ann] = TurnId("turn_1")
    await fleet.tell(ann, what, TurnStarted())
    cut = ImageContent(data=encode_png(picture_of_a_sunset()[:200]), mime_type="image/png")
    none = ImageContent(data="bm8gaW1hZ2U=", mime_type="image/png")
    read = tuple(ContentItem(content=one) for one in (cut, none))
    await fleet.tool(ann, "read", "Read /work/project/shots", kind="read", content=read)
    stripes = make_png(24, 8, lambda x, y: (40 * (x // 4), 120, 30 * y), filters=(4,))
    drawn = ImageContent(data=encode_png(stripes), mime_type="image/png")
    await fleet.tell(
        ann,
        MessageChunk(content=text("A sunset over the sea. This is what I drew from it:")),
        MessageChunk(content=drawn),
        MessageChunk(content=text("The others cannot be read.")),
        TurnEnded(stop="end_turn"),
    )


@state(_pictured)
async def talk_with_images(stage: Stage) -> None:
    await stage.until("The others cannot be read", "incomplete", "not readable", "▀")


@state(_answered)
async def talk_in_markdown(stage: Stage) -> None:
    await stage.until("not local")


@state(_nested)
async def talk_of_sub_agents(stage: Stage) -> None:
    await stage.until("Find callers in src", "Find callers in tests")


@state(_nested)
async def talk_of_sub_agents_unfolded(stage: Stage) -> None:
    await stage.until("Find callers in src")
    await stage.command("unfold")
    await stage.until("I look in src")


@state(_planned)
async def talk_with_a_long_plan(stage: Stage) -> None:
    await stage.until("3/200", "step 39")


@state(_several_turns)
async def talk_scrolled_in_a_turn(stage: Stage) -> None:
    await stage.until("Sentence 40 of chapter 3")
    view = stage.app.main.transcript
    assert view.store is not None
    words = "Sentence 1 of chapter 2"
    at = next(b for b in view.store.blocks if getattr(b, "text", "").startswith(words))
    view.go_to(at.first)
    await stage.until("Sentence 2 of chapter 2")
    view.scroll_relative(y=9, animate=False)
    await stage.until("Sentence 9 of chapter 2")


@state(_several_turns)
async def prompts_to_jump_to(stage: Stage) -> None:
    await stage.until("Sentence 40 of chapter 3")
    await stage.command("jump")
    await stage.until("enter go to", "Now chapter 1")
