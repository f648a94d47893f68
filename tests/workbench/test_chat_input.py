"""What people write: pasted, completed, attached, kept, and changed while it waits."""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from textual import events

from quarterdeck.fleet.api import QueuedPrompt, SpawnOptions
from quarterdeck.wire.content import ContentBlock, ImageContent, ResourceLink, TextContent, text
from quarterdeck.wire.events import CommandsChanged, Prompted
from quarterdeck.wire.ids import MessageId, SessionId, new_message_id
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.settings import Command
from quarterdeck.workbench.commands.chat import find_editor_command
from quarterdeck.workbench.completion import (
    CompletionChoice,
    find_completion_word,
    list_files,
    rank_names,
)
from quarterdeck.workbench.mentions import (
    build_prompt,
    find_mentions,
    format_mention,
    parse_image_path,
)
from quarterdeck.workbench.screens.queue import QueueScreen
from quarterdeck.workbench.widgets.chat_input import LONG_TEXT, Pastes, expand_pastes
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until


def sent(fleet: FakeFleet) -> list[tuple[ContentBlock, ...]]:
    return [r.event.content for r in fleet.records if isinstance(r.event, Prompted)]


class QueueFleet(FakeFleet):
    """A fleet whose prompts wait and can be edited."""

    async def wait_with(self, session: SessionId, *prompts: str) -> None:
        queue = tuple(QueuedPrompt(message=new_message_id(), content=(text(p),)) for p in prompts)
        self.infos[session] = replace(self.infos[session], queue=queue)

    async def edit(
        self, agent: str, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        session = self.find(agent)
        queue = self.infos[session].queue
        if all(one.message != message for one in queue):
            return False
        kept = [
            replace(o, content=content) if o.message == message and content else o for o in queue
        ]
        kept = [one for one in kept if content is not None or one.message != message]
        self.infos[session] = replace(self.infos[session], queue=tuple(kept))
        return True


# Long pastes


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(max_size=60), max_size=5), st.lists(st.text(max_size=40), max_size=5))
def test_a_draft_with_pastes_is_what_was_written(long: list[str], typed: list[str]):
    pastes = Pastes()
    shown = whole = ""
    for at in range(max(len(long), len(typed))):
        words = typed[at].replace("\x02", "").replace("\x03", "") if at < len(typed) else ""
        shown, whole = shown + words, whole + words
        if at < len(long):
            pasted = long[at].replace("\x02", "").replace("\x03", "")
            shown, whole = shown + pastes.fold(pasted), whole + pasted
    if "[pasted text #" in "".join(typed + long):
        return
    assert pastes.expand(shown) == whole
    assert expand_pastes(pastes.keep(shown)) == whole
    again = Pastes()
    assert "\x02" not in again.restore(pastes.keep(shown))


async def test_a_long_paste_is_folded_sent_whole_and_kept_on_disk(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    words = "\n".join(f"row {n} \x1b[31m" for n in range(100_000))
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"see ")
        app.main.chat.post_message(events.Paste(words))
        await until(pilot, lambda: "[pasted text #1, 100,000 lines]" in app.main.chat.text)
        await pilot.press(*" here")
        file = tmp_path / f"{ann}.txt"
        await until(pilot, lambda: file.exists() and " here" in file.read_text()[-10:])
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "see [pasted text #1, 100,000 lines] here" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: len(sent(fleet)) == 2)
        assert sent(fleet)[-1] == (text(f"see {words} here"),)


async def test_a_long_prompt_that_is_refused_comes_back_folded(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await fleet.kill("ann")
        fleet.cannot_resume.add("ann")
        app.main.chat.post_message(events.Paste("x\n" * 200_000))
        await until(pilot, lambda: app.main.chat.text)
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be resumed" in screen_text(app))
        await until(pilot, lambda: app.main.chat.text.startswith("[pasted text"))
        assert app.main.chat.full_text == "x\n" * 200_000


async def test_a_short_paste_is_text_whose_controls_have_no_power(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        app.main.chat.post_message(events.Paste("a\r\nb\x1b[2J"))
        await until(pilot, lambda: app.main.chat.text == "a\nb\\x1b[2J")
        await pilot.press("ctrl+z")
        assert app.main.chat.text == ""
        await pilot.press("alt+z")
        assert app.main.chat.text == "a\nb\\x1b[2J"


# Files and commands


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.characters(exclude_characters="\n\0"), min_size=1, max_size=30))
def test_any_name_of_a_file_can_be_named_in_a_prompt(name: str):
    name = name.strip() or "x"
    trailing = name.rstrip(",;:!?)") == name
    found = [one.path for one in find_mentions(f"see {format_mention(name)} there")]
    assert found == [name] or not trailing or any(c.isspace() for c in name)


def test_the_word_before_the_cursor_is_found():
    assert find_completion_word("/he", 3, is_first=True).typed == "he"  # pyright: ignore[reportOptionalMemberAccess]
    assert find_completion_word("/he", 3, is_first=False) is None
    assert find_completion_word("see @src/a", 10, is_first=True).start == 4  # pyright: ignore[reportOptionalMemberAccess]
    assert find_completion_word('see @"my fi', 11, is_first=True).typed == "my fi"  # pyright: ignore[reportOptionalMemberAccess]
    assert find_completion_word("mail a@b", 8, is_first=True) is None
    assert find_completion_word("/name rest", 10, is_first=True) is None


def test_the_best_names_come_first():
    names = ["src/app.py", "src/application/deep/x.py", "docs/map.md", "tests/test_app.py"]
    assert rank_names("app", names)[0] == "src/app.py"
    assert rank_names("tap", names)[0] == "tests/test_app.py"
    assert rank_names("zzz", names) == []


def test_files_are_listed_without_those_that_git_ignores(tmp_path: Path):
    for name in ("a.py", "ignored.log", "sub/ü b.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    assert sorted(list_files(str(tmp_path))) == ["a.py", "ignored.log", "sub/ü b.py"]
    (tmp_path / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, capture_output=True)
    assert sorted(list_files(str(tmp_path))) == [".gitignore", "a.py", "sub/ü b.py"]


async def test_a_file_is_completed_from_the_agents_directory(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "read me.txt").write_text("x")
    (project / "evil\x1b[31m.txt").write_text("x")
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    fleet.infos[ann] = replace(fleet.infos[ann], cwd=str(project))
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        await until(
            pilot, lambda: app.context.agent is not None and "project" in app.context.agent.cwd
        )
        await pilot.press(*"see @")
        await until(pilot, lambda: "evil\\x1b[31m.txt" in screen_text(app))
        await pilot.press(*"rdme")
        await until(pilot, lambda: "evil" not in screen_text(app))
        await pilot.press("tab")
        assert app.main.chat.text == 'see @"read me.txt" '
        await pilot.press(*"@e")
        await until(pilot, lambda: "evil" in screen_text(app))
        await pilot.press("escape")
        assert "evil" not in screen_text(app) and app.main.chat.text.endswith("@e")


async def test_an_offer_for_fewer_letters_is_not_taken(tmp_path: Path):
    async def never(word: object) -> Sequence[CompletionChoice]:
        del word
        await asyncio.Event().wait()
        return ()

    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        chat = app.main.chat
        await pilot.press(*"/he")
        await until(pilot, lambda: chat._offers is not None and chat._offers.chosen)
        chat._complete = never
        await pilot.press(*"xagon", "enter")
        assert chat.text != "/help "


async def test_commands_of_both_are_offered_and_both_can_be_reached(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    own = (
        Command(name="compact", description="make it short"),
        Command(name="copy", description="x"),
    )
    await fleet.append(ann, CommandsChanged(commands=own))
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await pilot.press(*"/co")
        await until(pilot, lambda: "/compact (agent)  make it short" in screen_text(app))
        shown = screen_text(app)
        assert "/copy (quarterdeck)" in shown and "//copy (agent)" in shown
        app.main.chat.set_text("")
        await pilot.press(*"/compact now", "enter")
        await until(pilot, lambda: len(sent(fleet)) == 2)
        await pilot.press(*"//copy it", "enter")
        await until(pilot, lambda: len(sent(fleet)) == 3)
        assert [c[0].text for c in sent(fleet)[1:]] == ["/compact now", "/copy it"]  # pyright: ignore[reportAttributeAccessIssue]


# Images


@pytest.mark.parametrize(
    ("pasted", "path"),
    [
        ("/tmp/a b.png", "/tmp/a b.png"),
        ("'/tmp/a b.PNG' ", "/tmp/a b.PNG"),
        ("/tmp/a\\ b.jpg\n", "/tmp/a b.jpg"),
        ("file:///tmp/a%20b.webp", "/tmp/a b.webp"),
        ("/tmp/a.py", None),
        ("see /tmp/a.png", None),
        ("", None),
    ],
)
def test_the_path_of_an_image_is_known_however_it_was_pasted(pasted: str, path: str | None):
    assert parse_image_path(pasted) == path


def test_images_go_along_or_become_links(tmp_path: Path):
    (tmp_path / "a b.png").write_bytes(b"png")
    prompt = 'see @"a b.png", @missing.png and @"a b.png"'
    blocks, told = build_prompt(prompt, str(tmp_path))
    assert blocks[0] == text(prompt) and not told
    assert blocks[1:] == (ImageContent(data="cG5n", mime_type="image/png"),)
    blocks, told = build_prompt(prompt, str(tmp_path), takes_images=False)
    assert isinstance(blocks[1], ResourceLink) and "does not accept images" in told[0]


async def test_an_image_is_pasted_attached_and_sent(tmp_path: Path):
    image = tmp_path / "pic ture.png"
    image.write_bytes(b"png")
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        app.main.chat.post_message(events.Paste(str(image)))
        await until(pilot, lambda: app.main.chat.text == f'@"{image}" ')
        await pilot.press("enter")
        await until(pilot, lambda: len(sent(fleet)) == 2)
        assert [type(block) for block in sent(fleet)[-1]] == [TextContent, ImageContent]
        await pilot.press(*f"/attach {image}", "enter")
        await until(pilot, lambda: app.main.chat.text == f'@"{image}" ')
        app.main.chat.set_text("")
        await pilot.press(*"/attach /nowhere.png", "enter")
        await until(pilot, lambda: "no file" in screen_text(app))


# The queue


async def test_a_prompt_that_waits_is_changed_and_dropped(tmp_path: Path):
    fleet = QueueFleet()
    ann = await begin(fleet, "ann")
    await fleet.wait_with(ann, "first", "second")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "queued: second" in screen_text(app))
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        await pilot.press("down", "enter", *" and more", "enter")
        changed = (text("second and more"),)
        await until(pilot, lambda: fleet.infos[ann].queue[1].content == changed)
        await pilot.press("up", "d")
        await until(pilot, lambda: len(fleet.infos[ann].queue) == 1)
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_a_change_that_comes_too_late_is_in_the_input(tmp_path: Path):
    fleet = QueueFleet()
    ann = await begin(fleet, "ann")
    await fleet.wait_with(ann, "first")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "queued: first" in screen_text(app))
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        await pilot.press("enter", *" changed")
        fleet.infos[ann] = replace(fleet.infos[ann], queue=())
        await pilot.press("enter")
        await until(pilot, lambda: app.main.chat.text == "first changed")
        await pilot.press("escape")


async def test_no_queue_says_so_and_no_editor_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press("ctrl+e")
        await until(pilot, lambda: "no queued prompts" in screen_text(app))
        await pilot.press(*"/editor", "enter")
        await until(pilot, lambda: "set VISUAL or EDITOR" in screen_text(app))


def test_the_editor_is_the_one_that_is_set():
    assert find_editor_command({"VISUAL": "code -w", "EDITOR": "vi"}) == ["code", "-w"]
    assert find_editor_command({"VISUAL": " ", "EDITOR": "vi"}) == ["vi"]
    assert find_editor_command({"EDITOR": "'broken"}) is None


async def test_typing_behind_a_big_paste_stays_fast(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        app.main.chat.post_message(events.Paste("pasted line\n" * 100_000))
        await until(pilot, lambda: app.main.chat.text)
        assert len(app.main.chat.text) < LONG_TEXT
        async with asyncio.timeout(20):
            await pilot.press(*"fast enough")
        assert app.main.chat.text.endswith("fast enough")


# Steering


async def test_a_key_steers_the_running_turn(tmp_path: Path):
    fleet = FakeFleet()
    session = await begin(fleet, "ann")
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        await until(pilot, lambda: app.context.shown == session)
        app.main.chat.set_text("rather blue")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "(steering) rather blue" in screen_text(app))
        assert app.main.chat.text == ""
        app.main.chat.set_text("/steer greener")
        await pilot.press("enter")
        await until(pilot, lambda: "(steering) greener" in screen_text(app))
    steering = [r.event for r in fleet.records if isinstance(r.event, Prompted) and r.event.steers]
    assert [one.content for one in steering] == [(text("rather blue"),), (text("greener"),)]


async def test_a_message_that_cannot_steer_stays_in_the_input(tmp_path: Path):
    fleet = FakeFleet()
    session = await begin(fleet, "ann")
    fleet.infos[session] = replace(fleet.infos[session], agent="aider")
    async with opened(fleet, tmp_path / "drafts", (100, 24)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == session)
        app.main.chat.set_text("rather blue")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "cannot be steered" in screen_text(app))
        assert app.main.chat.text == "rather blue"


async def test_without_a_turn_the_key_sends_a_prompt(tmp_path: Path):
    fleet = FakeFleet()
    session = (
        await fleet.spawn(
            SpawnOptions(options=SessionOptions(agent="claude", cwd="/work"), name="ann")
        )
    ).session
    async with opened(fleet, tmp_path / "drafts", (120, 24)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == session)
        app.main.chat.set_text("hello")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "sent as a prompt" in screen_text(app))
    assert sent(fleet) == [(text("hello"),)]
