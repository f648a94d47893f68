"""Reading a conversation: links, tables, the prompt above, the list of prompts, times, code."""

from pathlib import Path

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    Prompted,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, new_message_id
from quarterdeck.workbench.rendering.lines import LinkRole, text_of, width_of
from quarterdeck.workbench.rendering.markdown import find_code, markdown_lines
from quarterdeck.workbench.screens.pickers import PromptsScreen
from quarterdeck.workbench.stores.blocks import RunBlock, ToolBlock
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, say, screen_text, until

ANSWER = """\
Two ways:

```python
print(1)
```

- or

  ```sh
  echo 2
  ```
"""


def shown(source: str, width: int = 80) -> list[str]:
    return [text_of(line).rstrip() for line in markdown_lines(source, width)]


def links(source: str) -> list[tuple[str, str]]:
    spans = (span for line in markdown_lines(source, 100) for span in line)
    return [(words, role.target) for words, role in spans if isinstance(role, LinkRole)]


@pytest.mark.parametrize("width", [8, 20, 60, 239, 400])
def test_a_table_of_40_columns_fits_and_has_every_word(width: int):
    head = "|".join(f"head{n}" for n in range(40))
    rows = "\n".join("|".join(f"cell{r}.{n}" for n in range(40)) for r in range(3))
    lines = markdown_lines(f"|{head}|\n|{'-|' * 40}\n{rows}\n", width)
    assert all(width_of(line) <= width for line in lines)
    words = "".join(text_of(line).replace(" ", "") for line in lines)
    if width >= 20:
        assert all(f"cell{r}.{n}" in words for r in range(3) for n in range(40))


def test_a_table_is_aligned_as_it_says():
    source = "| what | count | state |\n|:--|--:|:-:|\n| a | 1 | x |\n| bcdef | 100 | done |\n"
    assert shown(source) == [
        "what   count  state", "───────────────────", "a          1    x", "bcdef    100  done",
    ]  # fmt: skip
    assert shown("| a | b |\n|-|-|\n| 1 | 2 | 3 |\n| 4 |", 10)  # rows of other lengths


def test_a_narrow_table_is_read_row_by_row():
    source = "| name | state | where |\n|-|-|-|\n| a | b | c |\n| d | e | f |\n"
    assert shown(source, 16) == [
        "name: a", "state: b", "where: c", "", "name: d", "state: e", "where: f",
    ]  # fmt: skip


def test_lists_tasks_and_quotes():
    source = "- [x] done\n- [ ] open\n  - inner\n    1. deep\n- plain\n\n> quoted\n> > twice\n"
    assert shown(source) == [
        "☑ done", "☐ open", "  • inner", "    1. deep", "• plain", "", "│ quoted", "│", "│ │ twice",
    ]  # fmt: skip


def test_text_for_reading_is_at_most_100_cells_wide_and_code_is_not():
    words, code = "word " * 60, "x" * 150
    lines = [line for line in shown(f"{words}\n\n```\n{code}\n```\n", 200) if line]
    assert max(len(line) for line in lines if "word" in line) <= 100
    assert any(code in line for line in lines)
    assert "graph TD" in "\n".join(shown("```mermaid\ngraph TD\n  A --> B\n```"))


def test_links_go_where_they_say_and_nowhere_else():
    assert links("[text](https://x.org/a?b=c)") == [("text", "https://x.org/a?b=c")]
    assert "(https://x.org/a?b=c)" in shown("[text](https://x.org/a?b=c)")[0]
    assert links("see https://x.org/a, or (http://y.org).") == [
        ("https://x.org/a", "https://x.org/a"), ("http://y.org", "http://y.org"),
    ]  # fmt: skip
    assert links("file:///etc/hosts") == [("file:///etc/hosts", "file:///etc/hosts")]
    assert links("[a](https://x.org)[b](https://y.org)") == [
        ("a", "https://x.org"), ("b", "https://y.org"),
    ]  # fmt: skip
    for source in (
        "[x](javascript:alert(1))", "[x](data:text/html,y)", "[x](vbscript:y)", "[x](ssh://h)",
        "[x](src/a.py)", "[x](https://" + "a" * 3_000 + ")", "`https://x.org`", "ftp://x.org",
    ):  # fmt: skip
        assert links(source) == [], source
    for words, target in links("[x](https://x.org/\u202e\x1b]8;;a) [y](<https://a b>)"):
        assert target.isascii() and target.isprintable() and " " not in target, words


def test_code_is_found_wherever_it_is_nested():
    found = find_code(ANSWER)
    assert [(code.language, code.text) for code in found] == [
        ("python", "print(1)\n"), ("sh", "echo 2\n"),
    ]  # fmt: skip


async def test_a_link_is_an_escape_sequence_of_the_terminal(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    await say(fleet, ann, "see [the page](https://x.org/a) now")
    await fleet.append(ann, TurnEnded(stop="end_turn"))
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "the page" in screen_text(app))
        view = app.main.transcript
        drawn = "".join(view.render_line(y).render(app.console) for y in range(view.size.height))
        begun = drawn.index(";https://x.org/a\x1b\\")
        assert "\x1b]8;id=" in drawn[:begun] and "\x1b]8;;\x1b\\" in drawn[begun:]


async def several_turns(fleet: FakeFleet, turns: int = 4) -> SessionId:
    ann = await begin(fleet, "ann", "the first prompt")
    for turn in range(turns):
        words = f"prompt {turn}\nof two lines"
        await fleet.append(ann, Prompted(content=(text(words),), message=new_message_id()))
        for line in range(40):
            await say(fleet, ann, f"line {line} of {turn}\n\n")
        await fleet.append(ann, TurnEnded(stop="end_turn"))
    return ann


async def test_the_prompt_of_what_is_read_stays_at_the_top(tmp_path: Path):
    fleet = FakeFleet()
    await several_turns(fleet)
    async with opened(fleet, tmp_path, (100, 24)) as (app, pilot):
        await until(pilot, lambda: "line 39 of 3" in screen_text(app))
        view = app.main.transcript
        view.focus()
        top = lambda: view.render_line(0).text  # noqa: E731
        assert "❯ prompt 3" in top() and "of two lines" not in top()
        view.scroll_to(y=100, animate=False)
        await until(pilot, lambda: "❯ prompt 1" in top() or "❯ prompt 0" in top())
        assert view.prompt_above is not None
        before = [text_of(view.line_at(view.scroll_offset.y + n)[0]) for n in range(1, 10)]
        drawn = [view.render_line(n).text.strip() for n in range(1, 10)]
        assert drawn == [line.strip() for line in before]  # only the first row is another
        wanted = view.prompt_above.text.split("\n")[0]
        offset = view.region.offset
        await pilot.click(offset=(offset.x + 4, offset.y))
        await until(pilot, lambda: view.prompt_above is None)
        assert f"❯ {wanted}" in screen_text(app)
        await pilot.resize_terminal(100, 10)
        await pilot.pause()
        assert view.prompt_above is None  # too few rows to give one away


async def test_a_prompt_is_chosen_from_a_list(tmp_path: Path):
    fleet = FakeFleet()
    await several_turns(fleet, 12)  # more than one page
    async with opened(fleet, tmp_path, (100, 30)) as (app, pilot):
        await until(pilot, lambda: "line 39 of 11" in screen_text(app))
        app.main.transcript.focus()
        await pilot.press("p")
        await until(pilot, lambda: "the first prompt" in screen_text(app))
        assert isinstance(app.screen, PromptsScreen)
        rows = screen_text(app)
        assert all(f"prompt {n}" in rows for n in range(12)) and "of two lines" not in rows
        await pilot.press("home", "down", "enter")
        await until(pilot, lambda: "❯ prompt 0" in screen_text(app))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, PromptsScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, PromptsScreen))


async def test_times_come_and_go_and_the_place_stays(tmp_path: Path):
    fleet = FakeFleet()
    await several_turns(fleet)
    async with opened(fleet, tmp_path, (100, 24)) as (app, pilot):
        await until(pilot, lambda: "line 39 of 3" in screen_text(app))
        view = app.main.transcript
        view.focus()
        view.scroll_to(y=60, animate=False)
        await until(pilot, lambda: "line 39 of 3" not in screen_text(app))
        before = view.render_line(3).text.strip()
        await pilot.press("t")
        await until(pilot, lambda: view.has_times)
        await pilot.pause()
        assert view.render_line(3).text.strip() == before
        view.action_start()
        await until(pilot, lambda: "❯ the first prompt" in screen_text(app))
        row = next(r for r in screen_text(app).split("\n") if "❯ the first prompt" in r)
        assert row.split("❯")[0].strip()[2] == ":"
        await pilot.press("t")
        await until(pilot, lambda: not view.has_times)


async def test_code_of_an_answer_is_copied_the_last_first(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"/copy-code", "enter")
        await until(pilot, lambda: "nothing to copy yet" in screen_text(app))
        await say(fleet, ann, ANSWER)
        await fleet.append(ann, TurnEnded(stop="end_turn"))
        await until(pilot, lambda: "echo 2" in screen_text(app))
        for expected in ("echo 2\n", "print(1)\n", "echo 2\n"):
            app.main.transcript.focus()
            await pilot.press("c")
            await until(pilot, lambda words=expected: app.clipboard == words)
        app.action_command("copy-code", "1")
        await until(pilot, lambda: app.clipboard == "print(1)\n")
        app.action_command("copy-code", "3")
        await until(pilot, lambda: "no code 3" in screen_text(app))


async def read(fleet: FakeFleet, session: SessionId, name: str) -> None:
    call = ToolCallId(name)
    started = ToolCallStarted(call=call, title=f"Read {name}.py", name="read", kind="read")
    await fleet.append(session, started)
    await fleet.append(session, ToolCallEnded(call=call, status="completed"))


async def test_a_run_that_folds_moves_no_line_that_is_read(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    for number in range(60):
        await say(fleet, ann, f"line {number}\n\n")
    await read(fleet, ann, "a")
    async with opened(fleet, tmp_path, (100, 24)) as (app, pilot):
        await until(pilot, lambda: "read a.py" in screen_text(app))
        view = app.main.transcript
        view.focus()
        await pilot.press("up", "up")
        before = [view.render_line(n).text for n in range(10)]
        assert not view.follows
        for name in "bcdef":
            await read(fleet, ann, name)
        assert view.store is not None
        runs = lambda: [b.run for b in view.store.blocks if isinstance(b, ToolBlock) and b.run]  # noqa: E731  # pyright: ignore[reportOptionalMemberAccess]
        await until(pilot, lambda: runs() and len(runs()[0].calls) == 6)
        assert [view.render_line(n).text for n in range(10)] == before
        await pilot.press("end")
        await until(pilot, lambda: "read 6 files" in screen_text(app))


async def test_what_is_folded_away_can_be_gone_to_marked_and_copied(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    for name in "abcd":
        await read(fleet, ann, name)
    await fleet.append(ann, MessageChunk(content=text("done with it")))
    hidden = next(r.seq for r in fleet.records if getattr(r.event, "title", "") == "Read c.py")
    async with opened(fleet, tmp_path, (100, 24)) as (app, pilot):
        await until(pilot, lambda: "read 4 files" in screen_text(app))
        view = app.main.transcript
        view.go_to(hidden)
        await until(pilot, lambda: isinstance(view.marked, RunBlock))
        view.focus()
        await pilot.press("ctrl+y")
        await until(pilot, lambda: "Read c.py" in app.clipboard and "Read d.py" in app.clipboard)
        await pilot.press("enter")
        await until(pilot, lambda: "✓ read c.py" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "✓ read c.py" not in screen_text(app))
        await pilot.press("slash", *"c.py")  # a search opens what hides its words
        await until(pilot, lambda: "✓ read c.py" in screen_text(app))
