"""One setting of the user's file is changed; everything else stays."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.config.errors import InvalidConfigError, UnreadableConfigError
from quarterdeck.config.places import Places
from quarterdeck.config.writer import UnwritableConfigError, write_user_setting


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
        ('mode = """\\\nask"""\n', UnwritableConfigError),
    ],
)
def test_a_file_that_cannot_be_changed_stays(places: Places, before: str, error: type[Exception]):
    write(places, before)
    key, value = (("mode",), "plan") if "mode" in before else (("host", "idle_minutes"), 4)
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
