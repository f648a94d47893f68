import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places, make_private


def test_one_variable_puts_everything_under_one_directory():
    places = Places.find({"QUARTERDECK_HOME": "/q", "XDG_CONFIG_HOME": "/x"})
    assert places == Places(
        config=Path("/q"), state=Path("/q/state"), cache=Path("/q/cache"), runtime=Path("/q/run")
    )
    assert places.config_file == Path("/q/config.toml")


def test_linux_follows_xdg():
    environ = {
        "HOME": "/home/a",
        "XDG_CONFIG_HOME": "/c",
        "XDG_STATE_HOME": "/s",
        "XDG_CACHE_HOME": "/k",
        "XDG_RUNTIME_DIR": "/run/user/1",
    }
    assert Places.find(environ, "linux") == Places(
        config=Path("/c/quarterdeck"),
        state=Path("/s/quarterdeck"),
        cache=Path("/k/quarterdeck"),
        runtime=Path("/run/user/1/quarterdeck"),
    )


def test_linux_without_xdg_uses_the_home_directory():
    assert Places.find({"HOME": "/home/a"}, "linux") == Places(
        config=Path("/home/a/.config/quarterdeck"),
        state=Path("/home/a/.local/state/quarterdeck"),
        cache=Path("/home/a/.cache/quarterdeck"),
        runtime=Path("/home/a/.local/state/quarterdeck/run"),
    )


def test_a_relative_xdg_path_is_ignored():
    places = Places.find({"HOME": "/h", "XDG_CONFIG_HOME": "here", "XDG_RUNTIME_DIR": "r"}, "linux")
    assert places.config == Path("/h/.config/quarterdeck")
    assert places.runtime == Path("/h/.local/state/quarterdeck/run")


def test_macos_uses_its_library():
    places = Places.find({"HOME": "/Users/a"}, "darwin")
    assert places.config == Path("/Users/a/Library/Application Support/quarterdeck")
    assert places.cache == Path("/Users/a/Library/Caches/quarterdeck")


@pytest.mark.parametrize("given", ["~", "~/deck", "relative"])
def test_home_becomes_absolute(given: str):
    assert Places.find({"QUARTERDECK_HOME": given, "HOME": "/h"}).config.is_absolute()


def test_without_home_the_user_database_is_asked():
    assert Places.find({}, "linux").config.is_absolute()


def test_finding_creates_nothing(tmp_path: Path):
    Places.find({"QUARTERDECK_HOME": str(tmp_path / "deck")})
    assert not list(tmp_path.iterdir())


def test_made_directories_are_for_the_owner_alone(tmp_path: Path):
    old = os.umask(0)
    try:
        made = make_private(tmp_path / "a" / "b")
    finally:
        os.umask(old)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (made, made.parent)] == [0o700, 0o700]


def test_a_directory_that_exists_is_closed_to_others(tmp_path: Path):
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    make_private(there)
    assert stat.S_IMODE(there.stat().st_mode) == 0o700


def test_a_file_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UnusablePlaceError, match="taken") as error:
        make_private(tmp_path / "taken" / "state")
    assert "QUARTERDECK_HOME" in str(error.value)


def test_importing_the_room_is_cheap():
    code = (
        "import sys, quarterdeck.config.places;"
        "print({'tomllib', 'msgspec', 'tempfile', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
