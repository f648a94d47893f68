"""``/permissions``: rules, the people who have to allow requests, and grants that are revoked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from quarterdeck.config.places import Places
from quarterdeck.policy.grants import Grant
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.screens.dialogs import ConfirmScreen
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.permissions import PermissionsScreen
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, screen_text, until

WIDE = (120, 40)
SETTINGS = """
[people.ann]
uid = 1000
[people.bob]
uid = 1001
[permissions]
deny = ["read(.env)"]
ask = ["bash("]
[[permissions.approvers]]
match = "bash(git push:*)"
people = ["ann", "bob"]
needed = 2
"""


def grant(number: int, pattern: str = "bash(make:*)", **fields: object) -> Grant:
    given = {"effect": "allow", "scope": "user", "by": "ann", "created": 1, **fields}
    return Grant(id=f"grt_{number}", pattern=pattern, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def shown(
    home: Path, settings: str, *grants: Grant, size: tuple[int, int] = WIDE
) -> AsyncGenerator[tuple[Workbench, Pilot[None], FakeFleet]]:
    places = Places.find({"QUARTERDECK_HOME": str(home / "home")})
    places.config.mkdir(parents=True)
    places.config_file.write_text(settings)
    project = home / "project"
    (project / ".git").mkdir(parents=True)
    fleet = FakeFleet()
    fleet.granted |= {one.id: one for one in grants}
    async with opened(fleet, home / "drafts", size) as (app, pilot):
        app.push_screen(PermissionsScreen(fleet, places, {"HOME": str(home)}, str(project)))
        await until(pilot, lambda: "╭─ permissions" in screen_text(app))
        await until(pilot, lambda: "reading …" not in screen_text(app))
        yield app, pilot, fleet


def lines_of(app: Workbench) -> list[str]:
    return [" ".join(line.replace("│", " ").split()) for line in screen_text(app).splitlines()]


async def test_rules_people_and_grants_are_listed(tmp_path: Path):
    made = (grant(1), grant(2, "bash(\x1b[2J)", reason="rel\x1bease", uses=2))
    async with shown(tmp_path, SETTINGS, *made) as (app, pilot, _):
        await until(pilot, lambda: "never used" in screen_text(app))
        text = "\n".join(lines_of(app))
    assert "rules in ~/project (not trusted), mode ask" in text
    assert "deny read(.env)" in text and "~/home/config.toml:7" in text
    assert "ask bash( ! " in text, "a rule that cannot be read says why"
    assert "bash(git push:*) needs 2 of ann, bob" in text and "config.toml:9" in text
    assert "all other requests the first answer decides" in text
    assert "grants (2)" in text
    assert "allow bash(make:*) everywhere, by ann, never used" in text
    assert "ends after 2 calls, never used, rel" in text
    assert "\x1b" not in text


async def test_without_settings_the_first_answer_decides(tmp_path: Path):
    async with shown(tmp_path, "") as (app, pilot, _):
        await until(pilot, lambda: "grants (0)" in screen_text(app))
        assert "every request the first answer decides" in "\n".join(lines_of(app))


async def test_a_grant_is_revoked_after_confirmation_and_a_rule_is_not(tmp_path: Path):
    async with shown(tmp_path, SETTINGS, grant(1), grant(2, "bash(npm test)")) as at:
        app, pilot, fleet = at
        await pilot.press("x")
        await until(pilot, lambda: "only grants are revoked here" in screen_text(app))
        await pilot.press("end", "x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        assert "bash(npm test)" in screen_text(app)
        await pilot.pause(QUIET)
        await pilot.press("y")
        await until(pilot, lambda: "grants (1)" in screen_text(app))
        assert list(fleet.granted) == ["grt_1"]
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, PermissionsScreen))


async def test_settings_that_are_wrong_are_said(tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    places.config.mkdir(parents=True)
    places.config_file.write_text('[[permissions.approvers]]\npeople = ["eve"]\n')
    fleet = FakeFleet()
    async with opened(fleet, tmp_path / "drafts", WIDE) as (app, pilot):
        app.push_screen(PermissionsScreen(fleet, places, {}, str(tmp_path)))
        await until(pilot, lambda: "there is no person 'eve'" in screen_text(app))


@pytest.mark.parametrize("size", [(20, 5), (80, 24), (200, 50)])
async def test_it_fits_and_scrolls(tmp_path: Path, size: tuple[int, int]):
    many = [grant(number, f"bash(make part-{number})") for number in range(60)]
    async with shown(tmp_path, SETTINGS, *many, size=size) as (app, pilot, _):
        await pilot.press("end")
        await until(pilot, lambda: "part-59" in screen_text(app) or size[0] < 30)
        rows = screen_text(app).splitlines()
    assert len(rows) <= size[1] and all(len(row) <= size[0] for row in rows)


async def test_the_command_opens_it_where_the_agent_works(tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    async with opened(FakeFleet(), tmp_path / "drafts", WIDE) as (app, pilot):
        app.context.discovery.places = places
        app.action_command("permissions", "")
        await until(pilot, lambda: isinstance(app.screen, PermissionsScreen))
