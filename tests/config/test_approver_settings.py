"""Settings about people who have to allow calls: what cannot be is an error that names its line."""

from pathlib import Path

import pytest

from quarterdeck.config.errors import InvalidConfigError
from quarterdeck.config.loader import Config, load_config
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore

PEOPLE = "[people.ann]\nuid = 1000\n[people.bob]\nuid = 1001\n"


def load(home: Path, text: str, project: str | None = None) -> Config:
    places = Places.find({"QUARTERDECK_HOME": str(home)})
    places.config_file.parent.mkdir(parents=True, exist_ok=True)
    places.config_file.write_text(text)
    directory = home / "project"
    (directory / ".quarterdeck").mkdir(parents=True, exist_ok=True)
    if project is not None:
        (directory / ".quarterdeck" / "config.toml").write_text(project)
    TrustStore(places.trust_file).trust(directory)
    return load_config(places, directory=directory, environ={}, trusted=True)


def policy(lines: str) -> str:
    return f"{PEOPLE}\n[[permissions.approvers]]\n{lines}\n"


def test_policies_of_every_layer_add_up(tmp_path: Path):
    mine = policy('match = "bash(git push:*)"\npeople = ["ann", "bob"]\nneeded = 2')
    config = load(tmp_path, mine, '[[permissions.approvers]]\npeople = ["ann"]\n')
    first, second = config.settings.permissions.approvers
    assert (first.match, first.people, first.needed) == ("bash(git push:*)", ("ann", "bob"), 2)
    assert (second.match, second.people, second.needed) == (None, ("ann",), 1)
    assert {name: one.uid for name, one in config.settings.people.items()} == {
        "ann": 1000, "bob": 1001,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (policy('people = ["anna"]'), r"1 \(line 6\): people: there is no person 'anna'.*'ann'\?"),
        (policy("people = []"), r"approvers.1 \(line 6\): people: it is empty"),
        (policy("needed = 1"), r"approvers.1 \(line 6\): people: it is empty"),
        (
            policy('people = ["ann", "bob"]\nneeded = 3'),
            r"approvers.1 \(line 6\): needed: 3 is more than the people .*ann, bob",
        ),
        (
            policy('people = ["ann", "ann"]\nneeded = 2'),
            r"approvers.1 \(line 6\): needed: 2 is more than the people .*\(ann\)",
        ),
        (
            policy('people = ["ann"]\n[[permissions.approvers]]\npeople = ["x"]'),
            r"approvers.2 \(line 8\): people: there is no person 'x'",
        ),
        (
            f'{PEOPLE}[permissions]\napprovers = [{{people = ["x"]}}]\n',
            r"approvers.1 \(line 6\): people: there is no person 'x'",
        ),
        (policy('people = ["ann"]\nneeded = 0'), "needed: expected a whole number, at least 1"),
        (policy('people = "ann"'), "people: expected a list of texts"),
        (policy('person = ["ann"]'), "permissions.approvers.1.person: unknown key"),
        ("[people.ann]\nuid = 5\n[people.eve]\nuid = 5\n", "user 5 is 'ann' already"),
        ('[people."a b"]\nuid = 5\n', "the name must be"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_its_place(tmp_path: Path, text: str, words: str):
    with pytest.raises(InvalidConfigError, match=words) as found:
        load(tmp_path, text)
    assert "config.toml" in str(found.value)


def test_a_project_cannot_say_who_people_are(tmp_path: Path):
    with pytest.raises(InvalidConfigError, match="only your own file can name people"):
        load(tmp_path, PEOPLE, "[people.ann]\nuid = 7\n")


def test_policies_of_a_project_that_is_not_trusted_do_nothing(tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path)})
    directory = tmp_path / "project"
    (directory / ".quarterdeck").mkdir(parents=True)
    file = directory / ".quarterdeck" / "config.toml"
    file.write_text('[[permissions.approvers]]\npeople = ["ann"]\n')
    config = load_config(places, directory=directory, environ={}, trusted=False)
    assert config.settings.permissions.approvers == ()
    assert [one.key for one in config.notices] == ["permissions.approvers"]


def test_a_person_of_devices_alone_is_one_and_their_number_is_no_user(tmp_path: Path):
    people = "[people.ann]\nuid = 1\ndevices = true\n[people.bob]\ndevices = true\n"
    asked = '[[permissions.approvers]]\npeople = ["ann", "bob"]\nneeded = 2\n'
    settings = load(tmp_path, people + asked).settings
    assert {name: (one.uid, one.devices) for name, one in settings.people.items()} == {
        "ann": (1, True), "bob": (None, True),
    }  # fmt: skip
    with pytest.raises(InvalidConfigError, match="there is no person 'bob' with a uid or devices"):
        load(tmp_path, people.replace("[people.bob]\ndevices = true", "") + asked)
    with pytest.raises(InvalidConfigError, match="there is no person 'bob'"):
        load(tmp_path, "[people.ann]\nuid = 1\n[people.bob]\ndevices = false\n" + asked)
    with pytest.raises(InvalidConfigError, match="only your own file can name people"):
        load(tmp_path, people, "[people.eve]\ndevices = true\n")
