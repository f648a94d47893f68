"""Files of the version before the renaming open unchanged, and its commands are still there."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from quarterdeck.cli.root import root
from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.permissions.audit import AuditExport, verify_audit
from quarterdeck.fleet.permissions.grant_uses import load_grant_uses
from quarterdeck.fleet.permissions.grants import load_all_grants
from quarterdeck.wire.budgets import parse_limit
from quarterdeck.workbench.commands.registry import COMMANDS
from quarterdeck.workbench.drafts import Drafts
from quarterdeck.workbench.layout.files import LayoutFiles
from quarterdeck.workbench.layout.spec import panels_of
from quarterdeck.workbench.panels.kinds import KINDS
from quarterdeck.workbench.preferences.store import load_preferences
from quarterdeck.workbench.preferences.themes.apply import apply_theme
from quarterdeck.workbench.preferences.themes.files import find_theme
from quarterdeck.workbench.workspace.snapshot import WorkspaceFiles
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened

EARLIER = Path(__file__).parent / "fixtures" / "earlier"
CWD = "/work/project"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A home that the earlier version has left."""
    shutil.copytree(EARLIER / "home", tmp_path / "home")
    return Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})


def bytes_of(*paths: Path) -> list[bytes]:
    return [path.read_bytes() for path in paths]


# The five kinds of files


async def test_the_log_opens_with_every_event(places: Places):
    kept = (Path(__file__).parent / "fixtures/wire/events-v1.jsonl").read_text().splitlines()
    known = {json.loads(line)["event"]["type"] for line in kept}
    async with LocalFleet.open(places, {}) as fleet:
        records = await fleet.read(None, limit=10_000)
        agents = await fleet.agents(archived=True)
    types = {record.event.__struct_config__.tag for record in records}
    assert len(records) >= 54 and types <= known
    assert [one.name for one in agents]
    # Opening adds the ends of what ran, and changes nothing that was there.
    async with LocalFleet.open(places, {}) as fleet:
        again = await fleet.read(None, limit=10_000)
    assert again[: len(records)] == records


async def test_its_usage_requests_and_decisions_are_counted_tried_and_exported(places: Places):
    async with LocalFleet.open(places, {}) as fleet:
        records = await fleet.read(None, limit=10_000)
        used = (await fleet.usage("agent")).total.tokens
        assert used.total == 1_180
        row = await fleet.set_budget("all", "", parse_limit("1mtok"))
        assert (row.used, row.reserved) == (used.total, 0)
        tried = await fleet.back_test(("allow bash",))
        assert (tried.requests, tried.allowed, tried.unread) == (1, 1, 1)
        assert await fleet.suggest_rules() == []
        (group,) = [one for one in await fleet.inbox_groups() if not one.is_question]
        (item,) = [one for one in await fleet.inbox() if one.permission is not None]
        assert (group.first, item.approved, len(await fleet.inbox())) == (item.request, (), 2)
        uses = await load_grant_uses(places, await load_all_grants(places))
    assert all(one.last is None for one in uses.values())
    made = AuditExport(b"k" * 32)
    lines = [made.start(), *made.add(records), made.finish()]
    found = verify_audit(lines, made.head)
    assert found.is_sound
    assert made.records == 4, "two answers, a revoked grant, a record of an unknown kind"


def test_the_settings_count_as_they_were(places: Places):
    file = places.config / "config.toml"
    before = file.read_bytes()
    config = load_config(places)
    assert config.notices == () and file.read_bytes() == before
    settings = config.settings
    assert (settings.model, settings.mode) == ("anthropic/claude-sonnet-4-5", "ask")
    assert settings.context.summarise_at == 0.75 and settings.children.answer_bytes == 20_000
    assert set(settings.mcp_servers) == {"docs"} and "local/small" in settings.models


def test_the_keys_count_as_they_were(places: Places):
    file = places.config / "keys.toml"
    before = file.read_bytes()
    looks = load_preferences(places, "/elsewhere", {})
    shown = {one.key: (one.shown, one.when) for one in looks.keymap}
    assert shown == {
        "f6": ("/interrupt", "main"),
        "ctrl+t": ("/layout review", "main"),
        "f7": ("/whole", "transcript"),
        "ctrl+r": ("nothing", "main"),
    }
    assert not [one for one in looks.problems if "keys.toml" in one]
    assert file.read_bytes() == before


def test_layouts_and_what_was_open_are_there_again(places: Places):
    folder = places.state / "workbench" / "workspaces"
    files = (places.config / "layouts" / "mine.json", *folder.iterdir())
    before = bytes_of(*files)
    layouts = LayoutFiles(places.config / "layouts")
    assert layouts.load("mine", KINDS) == layouts.load("review", KINDS)
    snapshot = WorkspaceFiles(folder).load(CWD, KINDS)
    assert snapshot.notice is None and snapshot.shown == "ses_1"
    kinds = [(one.id, one.widget) for one in panels_of(snapshot.layout)]
    assert kinds == [(one.id, one.widget) for one in panels_of(layouts.load("grid", KINDS))]
    assert bytes_of(*files) == before


def test_drafts_are_there_again(places: Places):
    drafts = Drafts(places.state / "workbench" / "drafts")
    drafts.load()
    assert drafts.get("ses_1") == "a draft\nof two lines"


def test_a_theme_with_old_names_of_widgets_counts_and_says_so(places: Places):
    file = places.config / "themes" / "mine.toml"
    before = file.read_bytes()
    looks = load_preferences(places, "/elsewhere", {"TERM": "xterm"})
    assert looks.theme is not None and looks.theme.name == "mine"
    theme = looks.theme.theme
    assert looks.theme.error is None and theme is not None
    assert "AskLineScreen { background" in theme.css
    assert "ChatPanel PanelPage, .strip TabStrip.-active {" in theme.css
    assert "PanelPageless, .Mark {" in theme.css
    (notice,) = looks.problems
    assert "AskLine is now AskLineScreen" in notice and "mine.toml" in notice
    assert "Strip is now TabStrip" in notice and "Mark is" not in notice
    assert file.read_bytes() == before
    here = load_preferences(places, CWD, {"TERM": "xterm"})
    assert here.theme is not None and (here.theme.name, here.problems) == ("light", [])


async def test_the_old_theme_can_be_put_on(places: Places, tmp_path: Path):
    folders: Any = [("user", places.config / "themes")]
    found = await asyncio.to_thread(find_theme, "mine", folders)
    assert found is not None
    async with opened(FakeFleet(), tmp_path / "drafts") as (app, pilot):
        apply_theme(app, found)
        await pilot.pause()
        assert "mine" in app.theme


# Commands and flags


def walk(command: click.Command, path: tuple[str, ...]) -> dict[str, click.Command]:
    found = {" ".join(path): command}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= walk(below, (*path, name))
    return found


def find(path: str) -> click.Command:
    """The command of a path, hidden or not."""
    command: click.Command = root
    for name in path.split()[1:]:
        assert isinstance(command, click.Group), path
        below = command.get_command(click.Context(command), name)
        assert below is not None, f"{path} is gone"
        command = below
    return command


@pytest.mark.parametrize("path", json.loads((EARLIER / "commands.json").read_text()))
def test_every_command_and_flag_is_still_accepted(path: str):
    options, arguments, choices = [], [], {}
    for one in json.loads((EARLIER / "commands.json").read_text())[path]:
        match one:
            case str():
                arguments.append(one)
            case dict():
                options += one["names"]
                choices |= {key: set(one["choices"]) for key in one["names"]}
            case _:
                options += one
    params = find(path).params
    known = {name: p for p in params for name in (*p.opts, *p.secondary_opts)}
    assert [name for name in options if name not in known] == []
    for name, words in choices.items():
        kind = known[name].type
        assert not isinstance(kind, click.Choice) or words <= set(map(str, kind.choices))
    now = [p for p in params if isinstance(p, click.Argument)]
    then = [one.split(":")[1:] for one in arguments]
    # One that took one word may take several now.
    counts = [(p.nargs, int(count)) for p, (count, _) in zip(now, then, strict=True)]
    assert all(is_now in (was, -1) for is_now, was in counts)
    # One that was needed may be optional now, never the other way round.
    needed = [(p.required, was) for p, (_, was) in zip(now, then, strict=True)]
    assert all(was == "True" or not is_needed for is_needed, was in needed)


def test_the_list_of_earlier_commands_is_whole():
    earlier = set(json.loads((EARLIER / "commands.json").read_text()))
    assert len(earlier) > 50 and earlier <= set(walk(root, ("quarterdeck",)))


def test_every_command_of_the_workbench_is_still_there():
    earlier = set(json.loads((EARLIER / "workbench-commands.json").read_text()))
    assert earlier <= {command.name for command in COMMANDS}
