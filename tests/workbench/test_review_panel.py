"""The review panel: every key, the states of files and comments, and what cannot be done."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from quarterdeck.fleet.api import AgentConflict
from quarterdeck.fleet.review.errors import ReviewError
from quarterdeck.wire.events import ReviewCommented
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ConflictFile, Worktree
from quarterdeck.workbench.panels.panel import Panel
from quarterdeck.workbench.panels.review.document import PAGE_LINES
from quarterdeck.workbench.panels.review.panel import ReviewPanel
from tests.support.hostile_text import hostile_strings
from tests.support.memory_fleet import FakeFleet
from tests.support.panel_app import Alone, alone, desk_in, shown, until_shown
from tests.support.workbench_app import begin, until

OLD = "".join(f"def step_{n}(x):\n    return x + {n}\n\n\n" for n in range(1, 31))
NEW = OLD.replace("x + 7\n", "x + 70\n").replace("step_12(x)", "step_12(x, y)")
PARSER = "src/parser.py"


@asynccontextmanager
async def reviewing(
    tmp_path: Path,
    fleet: FakeFleet | None = None,
    *,
    size: tuple[int, int] = (110, 30),
    state: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[tuple[ReviewPanel, Alone, Pilot[None], FakeFleet]]:
    """A review of two files, with the longer one in view."""
    fleet = fleet or FakeFleet()
    if not fleet.infos:
        await begin(fleet, "parser")
    if not fleet.reviewed and fleet.refuses is None:
        fleet.change(PARSER, OLD, NEW)
        fleet.change("docs/new.md", None, "# New\n")
    desk = desk_in(tmp_path, fleet)
    desk.roster.replace(await fleet.agents(), None)
    desk.select(next(iter(fleet.infos)))
    options = {"agent": "parser", "file": PARSER, **options}
    async with alone("review", desk, options, size=size, state=state) as (panel, app, pilot):
        await until(pilot, lambda: panel._is_read)
        yield panel, app, pilot, fleet


def done(fleet: FakeFleet, *kinds: str) -> list[Any]:
    return [call for kind, call in fleet.calls if kind in kinds]


async def until_told(app: Alone, pilot: Pilot[None], words: str) -> None:
    await until(pilot, lambda: any(words in str(one.message) for one in app._notifications))


async def test_files_and_the_change_of_one_are_shown(tmp_path: Path):
    async with reviewing(tmp_path) as (_, app, pilot, fleet):
        screen = await until_shown(app, pilot, "return x + 70", "step_12(x, y)")
        assert "review parser" in screen and "2 files · +3 −2" in screen
        assert "docs/new.md" in screen and "A +1 −0" in screen
        assert [name for name, _ in done(fleet, "patch")] == [fleet.reviewed[PARSER].id]


async def test_hunks_and_files_are_gone_through_in_order(tmp_path: Path):
    async with reviewing(tmp_path, file="docs/new.md") as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "# New")
        await pilot.press("j", "j")
        await until_shown(app, pilot, "x + 70")
        assert panel.selected == fleet.reviewed[PARSER].id
        rows: list[str] = []
        for key in ("j", "n", "p"):
            await pilot.press(key)
            row = panel.patch.row
            assert row is not None
            rows.append(row[1].kind + str(row[1].hunk))
        assert rows == ["hunk0", "hunk1", "hunk0"]
        await pilot.press("k")  # there is none before it in this file
        await until_shown(app, pilot, "# New")
        await pilot.press("N")
        await until_shown(app, pilot, "x + 70")


async def test_a_hunk_is_accepted_and_the_next_is_gone_to(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "a")
        await until_shown(app, pilot, "◆ accepted", "partly accepted")
        assert done(fleet, "accept") == [(PARSER, [26], [26])]
        assert panel.patch.row is not None and panel.patch.row[1].hunk == 1
        await pilot.press("a")
        await until(pilot, lambda: len(done(fleet, "accept")) == 2)
        await until_shown(app, pilot, "1 accepted")


async def test_a_rejected_hunk_is_gone_and_can_be_brought_back(tmp_path: Path):
    async with reviewing(tmp_path) as (_, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "x")
        await until(pilot, lambda: done(fleet, "reject"))
        await until(pilot, lambda: "x + 70" not in shown(app) and "x, y" in shown(app))
        assert fleet.reviewed[PARSER].new == OLD.replace("step_12(x)", "step_12(x, y)")
        await pilot.press("z")
        await until_shown(app, pilot, "x + 70", "x, y")
        assert fleet.reviewed[PARSER].new == NEW


async def test_single_lines_are_accepted_by_mark_and_by_selection(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "down", "down", "down", "down", "space")
        assert len(panel.patch.marked) == 1
        assert "▌" in shown(app) and "a accept 1 line" in shown(app)
        await pilot.press("a")
        await until(pilot, lambda: done(fleet, "accept"))
        assert done(fleet, "accept") == [(PARSER, [26], [])]
        await until(pilot, lambda: not panel.patch.marked)
        await pilot.press("v", "down", "down")
        await pilot.press("escape")
        assert not panel.patch.has_selection
        row = panel.patch.find_hunk(-1)
        assert row is not None
        panel.patch.move_to(row + 4)
        await pilot.press("shift+down", "x")
        await until(pilot, lambda: done(fleet, "reject"))
        assert done(fleet, "reject") == [(PARSER, [26], [26])]


async def test_a_selection_without_changed_lines_decides_nothing(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        panel.patch.move_to(2)
        await pilot.press("v", "a")
        await until_told(app, pilot, "no changed lines")
        assert not done(fleet, "accept")


async def test_the_whole_file_is_decided_from_its_title_by_key_and_from_the_list(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("a")
        await until(pilot, lambda: len(done(fleet, "accept")) == 1)
        await pilot.press("j", "A")
        await until(pilot, lambda: len(done(fleet, "accept")) == 2)
        panel.files.focus()
        await pilot.press("up")
        await until_shown(app, pilot, "# New")
        await pilot.press("x")
        await until(pilot, lambda: done(fleet, "reject"))
        assert done(fleet, "accept") == [(PARSER, [26, 45], [26, 45])] * 2
        assert done(fleet, "reject") == [("docs/new.md", [], [1])]
        await until(pilot, lambda: "docs/new.md" not in shown(app))


async def test_a_file_that_changed_meanwhile_is_not_decided(tmp_path: Path):
    async with reviewing(tmp_path) as (_, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        fleet.reviewed[PARSER].new = NEW.replace("x + 9\n", "x + 99\n")
        await pilot.press("j", "a")
        await until_told(app, pilot, "has changed meanwhile")
        await until_shown(app, pilot, "x + 99")
        assert not done(fleet, "accept")


async def test_a_comment_is_written_shown_edited_sent_and_resolved(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "down", "down", "down", "down", "down", "c")
        await until_shown(app, pilot, "comment on line 26")
        await pilot.press(*"why 70", "ctrl+j", *"?", "enter")
        await until_shown(app, pilot, "│ you: why 70", "not sent", "s send 1")
        assert done(fleet, "open") == [(PARSER, 26, "why 70\n?")]
        await pilot.press("down", "c")
        await until_shown(app, pilot, "edit the comment")
        await pilot.press(*"!", "enter")
        await until(pilot, lambda: fleet.noted["com_1"].text == "why 70\n?!")
        await pilot.press("s")
        await until_told(app, pilot, "sent 1 comment")
        await until_shown(app, pilot, "  sent")
        await pilot.press("c")
        await until_told(app, pilot, "sent already")
        assert panel.patch.row is not None and panel.patch.row[1].kind == "comment"
        await pilot.press("R")
        await until(pilot, lambda: "why 70" not in shown(app))
        assert fleet.noted["com_1"].state == "resolved"


async def test_what_was_typed_is_kept_when_the_input_is_closed(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "c", *"half", "escape")
        assert panel.unsaved == "1 comment not saved"
        kept = panel.remember()
        await pilot.press("c")
        assert panel.input.text == "half"
        assert not fleet.noted
    async with reviewing(tmp_path, state=kept) as (panel, app, pilot, _):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "c")
        assert panel.input.text == "half"


async def test_a_comment_that_is_refused_is_not_lost(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "c", *"half")
        fleet.reviewed[PARSER].new = NEW + "# more\n"
        await pilot.press("enter")
        await until_told(app, pilot, "changed meanwhile")
        assert panel.unsaved is not None and not fleet.noted


async def test_a_range_and_removed_lines_are_commented(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "down", "down", "down", "down", "c")
        await until_shown(app, pilot, "removed line 26")
        await pilot.press(*"gone", "enter")
        await until(pilot, lambda: "com_1" in fleet.noted)
        assert fleet.noted["com_1"].is_old
        await until_shown(app, pilot, "you: gone")
        row = panel.patch.find_hunk(1)
        assert row is not None
        panel.patch.move_to(row + 1)
        await pilot.press("shift+down", "shift+down", "c")
        await until_shown(app, pilot, "lines 42–44")
        await pilot.press(*"these", "enter")
        await until_shown(app, pilot, "on lines 42–44: these")


async def test_a_comment_whose_lines_changed_says_so_and_is_resolved_with_one_key(tmp_path: Path):
    async with reviewing(tmp_path) as (_, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "c", *"why", "enter")
        await until_shown(app, pilot, "you: why")
        await pilot.press("s")
        await until_told(app, pilot, "sent 1")
        fleet.reviewed[PARSER].new = NEW.replace("x + 70\n", "x + 71\n")
        await pilot.press("r")
        await until_shown(app, pilot, "x + 71", "the lines have changed since")
        await pilot.press("home", "R")
        await until(pilot, lambda: fleet.noted["com_1"].state == "resolved")


async def test_comments_are_listed_deleted_and_gone_to(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("j", "c", *"one", "enter")
        await until_shown(app, pilot, "you: one")
        await pilot.press("P", "C")
        await until_shown(app, pilot, "1 comment", f"{PARSER}:26")
        await pilot.press("enter")
        await until_shown(app, pilot, "│ you: one")
        await until(pilot, lambda: panel.patch.row is not None)
        assert panel.patch.row is not None and panel.patch.row[1].kind == "comment"
        await pilot.press("D")
        await until(pilot, lambda: "you: one" not in shown(app))
        assert fleet.noted["com_1"].state == "dropped"
        await pilot.press("D")
        await until_told(app, pilot, "move to a comment")


async def test_a_comment_of_another_agent_appears_by_itself(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        lead = await begin(fleet, "lead")
        panel.context.roster.replace(await fleet.agents(), None)
        made = await fleet.comment("parser", PARSER, 26, "too big", author=lead)
        record = await fleet.append(next(iter(fleet.infos)), ReviewCommented(comment=made))
        panel.context.publish_records([record])
        await until_shown(app, pilot, "│ lead: too big")


async def test_viewed_files_are_marked_and_what_changed_since_is_shown(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("m")
        await until_shown(app, pilot, "# New", f"✓ {PARSER}", "1 of 2 viewed")
        fleet.reviewed[PARSER].new = NEW.replace("x + 9\n", "x + 99\n")
        await pilot.press("r")
        await until_shown(app, pilot, f"● {PARSER}")
        await pilot.press("N", "l")
        await until_shown(app, pilot, "since you last looked", "x + 99", "changed since you looked")
        assert "x + 70" not in shown(app)
        await pilot.press("m")
        await until(pilot, lambda: len(done(fleet, "mark")) == 2)
        await pilot.press("l")
        await until_shown(app, pilot, f"✓ {PARSER}")
        panel.show_file(fleet.reviewed[PARSER].id)
        await until_shown(app, pilot, "x + 70")
        await pilot.press("m")
        await until(pilot, lambda: done(fleet, "mark")[-1] == (PARSER, "none"))


async def test_the_page_stays_while_the_agent_works_on(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        fleet.reviewed[PARSER].new = NEW.replace("x + 70\n", "x + 700\n")
        panel.look_now()
        await until_shown(app, pilot, "newer version")
        assert "x + 700" not in shown(app)
        await pilot.press("r")
        await until_shown(app, pilot, "x + 700")


def has_two_sides(app: Alone) -> bool:
    """Whether there is a line between old and new, besides the one beside the files."""
    return any(line.count("│") > 1 for line in shown(app).splitlines())


async def test_side_by_side_by_key_and_by_width(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, _):
        await until_shown(app, pilot, "x + 70")
        assert not has_two_sides(app)
        await pilot.press("u")
        await until(pilot, lambda: has_two_sides(app))
        screen = await until_shown(app, pilot, "26 -     return x + 7")
        assert any("x + 7 " in line and "x + 70" in line for line in screen.splitlines())
        await pilot.press("u")
        await until(pilot, lambda: not has_two_sides(app))
    async with reviewing(tmp_path, size=(190, 30)) as (panel, app, pilot, _):
        await until_shown(app, pilot, "x + 70")
        await until(pilot, lambda: has_two_sides(app))
        assert panel.is_split


async def test_whitespace_changes_are_left_out_on_request(tmp_path: Path):
    fleet = FakeFleet()
    fleet.change(PARSER, "a = 1\nb = 2\n", "a =  1\nb = 3\n")
    async with reviewing(tmp_path, fleet) as (_, app, pilot, _):
        await until_shown(app, pilot, "+ a =  1", "b = 3")
        await pilot.press("w")
        await until_shown(app, pilot, "whitespace ignored", "b = 3")
        await until(pilot, lambda: "+ a" not in shown(app))


async def test_all_files_are_shown_below_each_other(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.press("o")
        await until_shown(app, pilot, "# New", "x + 70", "step_12(x, y)")
        await pilot.press("N")
        assert panel.selected == fleet.reviewed[PARSER].id
        await pilot.press("o")
        await until(pilot, lambda: "# New" not in shown(app))


async def test_changed_words_are_told_apart_from_the_rest_of_the_line(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, _):
        await until_shown(app, pilot, "x + 70")

        def words() -> list[tuple[str, str]]:
            lines = [panel.patch.line_at(y)[0] for y in range(12)]
            return [span for line in lines for span in line if "/diff-word" in span[1]]

        await until(pilot, words)
        assert [text for text, _ in words()] == ["7", "70"]
        plain = panel.patch.look("code-number/diff-line-added")
        assert plain.bgcolor != panel.patch.look("code-number/diff-word-added").bgcolor


async def test_the_mouse_chooses_files_and_hunks(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "x + 70")
        await pilot.click("#files", offset=(4, 0))
        await until_shown(app, pilot, "# New")
        await pilot.click("#files", offset=(4, 1))
        await until_shown(app, pilot, "x + 70")
        await pilot.click("#patch", offset=(6, 5))
        assert panel.patch.cursor == 5
        await pilot.press("a")
        await until(pilot, lambda: done(fleet, "accept"))
        assert done(fleet, "accept") == [(PARSER, [26], [26])]


async def test_the_file_its_editor_and_the_chat_are_asked_for(tmp_path: Path):
    async with reviewing(tmp_path) as (panel, app, pilot, _):
        await until_shown(app, pilot, "x + 70")
        wanted: list[Panel.AgentWanted] = []
        panel.post_message, posted = _noting(panel, wanted), panel.post_message
        await pilot.press("j", "down", "enter", "e", "t")
        panel.post_message = posted
        assert [(one.path, one.how) for one in app.wanted] == [
            (f"/work/tree/{PARSER}", "view"),
            (f"/work/tree/{PARSER}", "edit"),
        ]
        assert app.wanted[0].line == 23
        assert [one.session for one in wanted] == [panel.agent.session]  # pyright: ignore[reportOptionalMemberAccess]


def _noting(panel: ReviewPanel, wanted: list[Panel.AgentWanted]) -> Any:
    post = panel.post_message

    def note(message: Any) -> bool:
        if isinstance(message, Panel.AgentWanted):
            wanted.append(message)
        return post(message)

    return note


async def test_conflicts_with_others_are_shown_beside_their_files(tmp_path: Path):
    fleet = FakeFleet()
    session, other = await begin(fleet, "parser"), await begin(fleet, "api")
    files = (ConflictFile(path=PARSER, kind="text"), ConflictFile(path="docs/new.md", kind="file"))
    tree = Worktree(path="/w", repository="/r", base="1", base_ref="refs/heads/main")
    fleet.infos[session] = replace(
        fleet.infos[session], conflicts=(AgentConflict(other=other, files=files),), worktree=tree
    )
    async with reviewing(tmp_path, fleet) as (_, app, pilot, _):
        screen = await until_shown(app, pilot, "review parser → main", "⚠ conflicts with api")
        rows = [line for line in screen.splitlines() if "⚠" in line[:40]]
        assert len(rows) == 1 and PARSER in rows[0]


async def test_without_changes_it_says_so_and_fills_when_there_are_some(tmp_path: Path):
    fleet = FakeFleet()
    fleet.change("a", "same", "same")
    async with reviewing(tmp_path, fleet) as (panel, app, pilot, _):
        await until_shown(app, pilot, "has changed no file", "compared with main (1a2b3c4)")
        await pilot.press("j", "k", "a", "x", "c", "m", "v", "space", "N", "u", "enter", "end")
        fleet.change(PARSER, OLD, NEW)
        panel.look_now()
        await until_shown(app, pilot, "x + 70")
        await pilot.press("l", "m")
        await until(pilot, lambda: done(fleet, "mark"))
        await until_shown(app, pilot, "Nothing has changed since you last looked", "l shows all")


async def test_an_error_is_shown_with_a_way_on(tmp_path: Path):
    fleet = FakeFleet()
    fleet.refuses = ReviewError("the worktree '/w' is gone; `quarterdeck resume` recreates it")
    async with reviewing(tmp_path, fleet) as (_, app, pilot, _):
        await until_shown(app, pilot, "the worktree '/w' is gone", "r try again")
        fleet.refuses = None
        fleet.change(PARSER, OLD, NEW)
        await pilot.press("r")
        await until_shown(app, pilot, "x + 70")


async def test_without_an_agent_it_says_what_to_do(tmp_path: Path):
    async with alone("review", desk_in(tmp_path, FakeFleet())) as (panel, app, pilot):
        await until_shown(app, pilot, "No agent is selected", "ctrl+t starts one")
        await pilot.press("a", "x", "c", "s", "z", "r")
        assert panel.title == "review"


@pytest.mark.parametrize("name", ["file\nwith\x1b[31m \u202e name.py", "wörld 😀.py"])
async def test_names_and_lines_are_literal(tmp_path: Path, name: str):
    fleet = FakeFleet()
    fleet.change(name, "plain\n", "".join(f"{one} \n" for one in hostile_strings(12)))
    async with reviewing(tmp_path, fleet, file=None) as (_, app, pilot, _):
        await until_shown(app, pilot, "plain")
        screen = shown(app)
        assert "\x1b" not in screen and "\u202e" not in screen
        assert len(screen.splitlines()) == 30


async def test_a_long_change_is_read_page_by_page_and_only_some_stay(tmp_path: Path):
    fleet = FakeFleet()
    count = 20 * PAGE_LINES
    fleet.change("big.txt", None, "".join(f"line {n}\n" for n in range(1, count + 1)))
    async with reviewing(tmp_path, fleet, file=None) as (panel, app, pilot, _):
        await until_shown(app, pilot, "line 1 ")
        assert len(done(fleet, "patch")) == 1
        await pilot.press("end")
        await until_shown(app, pilot, f"line {count}")
        assert len(done(fleet, "patch")) <= 3
        for step in range(20):
            panel.patch.move_to(step * PAGE_LINES + 500, top=True)
            await until_shown(app, pilot, f"line {step * PAGE_LINES + 500} ")
        assert sum(slot.is_loaded for slot in panel.patch.document.slots) <= 11
        await pilot.press("home", "j", "a")
        await until(pilot, lambda: done(fleet, "accept"))
        ((path, olds, news),) = done(fleet, "accept")
        assert (path, olds, len(news)) == ("big.txt", [], count)


async def test_next_hunk_is_found_on_a_page_that_is_not_read(tmp_path: Path):
    fleet = FakeFleet()
    lines = [f"line {n}\n" for n in range(1, 20 * 1_000 + 1)]
    new = ["first\n"] * 3_500 + lines[1:-1] + ["last\n"]
    fleet.change("big.txt", "".join(lines), "".join(new))
    async with reviewing(tmp_path, fleet, file=None) as (panel, app, pilot, _):
        await until_shown(app, pilot, "first")
        await pilot.press("j", "j")
        await until_shown(app, pilot, "+ last")
        assert panel.patch.row is not None and panel.patch.row[1].kind == "hunk"
        await pilot.press("k")
        await until(pilot, lambda: panel.patch.cursor < 5)


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (150, 40)])
async def test_it_fits_any_size(tmp_path: Path, size: tuple[int, int]):
    async with reviewing(tmp_path, size=size) as (panel, app, pilot, _):
        await until(pilot, lambda: panel.patch.document.slots)
        await pilot.press("j", "f", "u", "o", "f", "j", "c", "x", "escape")
        assert len(shown(app).splitlines()) == size[1]


async def test_another_selected_agent_is_followed_without_an_agent_of_its_own(tmp_path: Path):
    async with reviewing(tmp_path, agent=None) as (panel, app, pilot, fleet):
        await until_shown(app, pilot, "review parser")
        other = await begin(fleet, "api")
        panel.context.roster.replace(await fleet.agents(), None)
        panel.context.select(SessionId(other))
        await until_shown(app, pilot, "review api")
