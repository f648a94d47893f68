"""One setting of the user's file is changed; everything else stays."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.config.errors import ConfigError, InvalidConfigError, UnreadableConfigError
from quarterdeck.config.places import Places
from quarterdeck.config.writer import (
    UnwritableConfigError,
    find_setting,
    parse_setting_value,
    remove_setting,
    write_setting,
    write_user_setting,
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.find({"QUARTERDECK_HOME": str(tmp_path / "qd"), "HOME": str(tmp_path)})


def write(places: Places, text: str) -> None:
    places.config.mkdir(parents=True, exist_ok=True)
    places.config_file.write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", ("mode",), "plan", 'mode = "plan"\n'),
        ("# mine\n", ("mode",), "plan", '# mine\nmode = "plan"\n'),
        ('mode="ask"# why', ("mode",), "plan", 'mode= "plan"# why\n'),
        (
            "[host]\nidle_minutes = 1",
            ("mode",),
            "plan",
            'mode = "plan"\n[host]\nidle_minutes = 1\n',
        ),
        ("[host]\nidle_minutes = 1\n", ("host", "idle_minutes"), 5, "[host]\nidle_minutes = 5\n"),
        ("", ("host", "resume_agents"), True, "[host]\nresume_agents = true\n"),
        (
            "[host] # h\n\n[limits]\nseconds = 9\n",
            ("host", "idle_minutes"),
            2,
            "[host] # h\nidle_minutes = 2\n\n[limits]\nseconds = 9\n",
        ),
        (
            'mode = "ask"\n\n[host]\nidle_minutes = 1\n',
            ("limits", "seconds"),
            3,
            'mode = "ask"\n\n[host]\nidle_minutes = 1\n\n[limits]\nseconds = 3\n',
        ),
    ],
)
def test_a_setting_is_written(places: Places, before: str, key, value, after: str):
    write(places, before)
    assert write_user_setting(places, key, value) == places.config_file
    assert places.config_file.read_text("utf-8") == after


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ('mode = """\\\nask"""\n', ("mode",), "plan", 'mode = "plan"\n'),
        (
            '[permissions]\nallow = [\n  "a",\n  "b",\n]\npatience = 3 # s\n',
            ("permissions", "allow"),
            ["c"],
            '[permissions]\nallow = ["c"]\npatience = 3 # s\n',
        ),
        ('[permissions]\nallow = ["a"] # mine\n', ("permissions", "allow"), ["b", "c"],
         '[permissions]\nallow = ["b", "c"] # mine\n'),
    ],
)  # fmt: skip
def test_a_value_over_several_lines_is_replaced_whole(places: Places, before, key, value, after):
    write(places, before)
    write_user_setting(places, key, value)
    assert places.config_file.read_text("utf-8") == after


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ('# mine\nmode = "ask" # why\neffort = "low"\n', ("mode",), '# mine\neffort = "low"\n'),
        ("[host]\nidle_minutes = 1\n", ("host", "idle_minutes"), "[host]\n"),
        ('[permissions]\nallow = [\n "a",\n]\n', ("permissions", "allow"), "[permissions]\n"),
        ('mode = "ask"\n', ("mode",), ""),
    ],
)
def test_a_setting_is_taken_out(places: Places, before: str, key, after: str):
    write(places, before)
    assert remove_setting(places.config_file, key)
    assert places.config_file.read_text("utf-8") == after
    assert not remove_setting(places.config_file, key)


def test_the_file_of_a_project_can_be_read_by_others_and_is_no_link(tmp_path: Path):
    path = tmp_path / ".quarterdeck" / "config.toml"
    write_setting(path, ("mode",), "plan", is_shared=True)
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o664)
    write_setting(path, ("mode",), "ask", is_shared=True)
    assert path.stat().st_mode & 0o777 == 0o664
    victim = tmp_path / "victim"
    victim.write_text("")
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(UnwritableConfigError, match="link"):
        write_setting(path, ("mode",), "plan", is_shared=True)
    assert victim.read_text() == ""


@pytest.mark.parametrize(
    ("key", "texts", "value"),
    [
        ("mode", ["plan"], "plan"),
        ("host.resume_agents", ["yes"], True),
        ("limits.model_calls", ["5"], 5),
        ("limits.model_calls", ["adaptive"], "adaptive"),
        ("limits.cost", ["2.5"], 2.5),
        ("permissions.allow", ["bash(a, b)", "read"], ["bash(a, b)", "read"]),
        ("permissions.allow", ['["a", "b"]'], ["a", "b"]),
        ("notifications.on", ["done"], ["done"]),
        ('models."a/b".window', ["7"], 7),
        ("landing.check", ["make test"], "make test"),
    ],
)
def test_a_text_is_read_as_its_setting_wants_it(key: str, texts: list[str], value: object):
    assert parse_setting_value(*find_setting(key), texts) == value


@pytest.mark.parametrize(
    ("key", "texts", "error"),
    [
        ("mode", ["paln"], "did you mean 'plan'"),
        ("limits.cost", ["much"], "expected a number of US dollars"),
        ("limits.cost", ["nan"], "found 'nan'"),
        ("limits.cost", ["1", "2"], "found 2 values"),
        ("permissions.allow", ["[1]"], "expected a list of texts"),
        ("permissions.allow", ["[broken"], "expected a list of texts"),
        ("hooks.prompt", ["x"], "edit it in the file"),
        ("mdoe", ["plan"], "unknown key; did you mean 'mode'"),
        ("models.a/b.window", ["7"], "in quotes"),
        ("mode\neffort", ["x"], "is no key"),
    ],
)
def test_a_value_that_does_not_fit_is_explained(key: str, texts: list[str], error: str):
    with pytest.raises(ConfigError, match=re.escape(error)):
        parse_setting_value(*find_setting(key), texts)


def test_a_missing_file_is_made_for_the_owner_alone(places: Places):
    write_user_setting(places, ("mode",), "plan")
    assert places.config_file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("before", "error"),
    [
        ("= broken", UnreadableConfigError),
        ("unknown_key = 1\n", InvalidConfigError),
        ("[host]\nidle_minutes = 1\n[host.x]\n", InvalidConfigError),
        ("host.idle_minutes = 1\nhost = 2", UnreadableConfigError),
        ("host = { idle_minutes = 1 }\n", UnwritableConfigError),
        ('[permissions]\nallow = [\n "a", # why\n]\n', UnwritableConfigError),
    ],
)
def test_a_file_that_cannot_be_changed_stays(places: Places, before: str, error: type[Exception]):
    write(places, before)
    key, value = ("host", "idle_minutes"), 4
    if "permissions" in before:
        key, value = ("permissions", "allow"), ["b"]
    with pytest.raises(error):
        write_user_setting(places, key, value)
    assert places.config_file.read_text("utf-8") == before


def test_a_value_that_no_setting_takes_is_refused(places: Places):
    with pytest.raises(InvalidConfigError):
        write_user_setting(places, ("mode",), "reckless")
    assert not places.config_file.exists()


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=20), st.text(max_size=20))
def test_every_text_is_read_back(tmp_path_factory: pytest.TempPathFactory, first: str, second: str):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path_factory.mktemp("qd"))})
    for text in (first, second):
        write_user_setting(places, ("landing", "check"), text)
        assert tomllib.loads(places.config_file.read_bytes().decode())["landing"]["check"] == text
