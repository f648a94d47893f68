"""What we keep is its owner's alone, whatever the umask and whatever was there before."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.agent.session_store import SessionStore
from quarterdeck.cli import crash_report
from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places, make_private
from quarterdeck.config.trust import TrustStore
from quarterdeck.journal import Journal
from quarterdeck.policy.grants import Grant, GrantStore
from quarterdeck.wire.events import NoticePosted
from quarterdeck.wire.ids import new_session_id
from quarterdeck.wire.private_files import close_to_others, make_private_directory, open_private


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(root: Path) -> list[str]:
    found = [root, *root.rglob("*")]
    return [f"{path} {mode_of(path):o}" for path in found if mode_of(path) & 0o077]


def grant() -> Grant:
    return Grant(id="g1", pattern="bash(ls)", scope="user", created=1, by="person")


async def keep_everything(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Journal.open(places.journal_file) as journal:
        await journal.commit("a", NoticePosted(title="words"))
        await journal.search("words")
        beside = [places.journal_file.with_name(f"journal.db{end}") for end in ("-wal", "-shm")]
        assert [mode_of(path) & 0o077 for path in beside] == [0, 0]
    async with SessionStore(places.state / "sessions").create(new_session_id()) as journal:
        await journal.commit("b", NoticePosted(title="words"))
    await GrantStore(places.state / "grants.json").add([grant()])
    await asyncio.to_thread(TrustStore(places.trust_file).trust, places.config)
    monkeypatch.setenv("QUARTERDECK_HOME", str(places.config))
    assert await asyncio.to_thread(crash_report.write_crash_report, ValueError("x")) is not None


async def test_all_that_is_kept_is_the_owners_alone(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    await keep_everything(places, monkeypatch)
    assert await asyncio.to_thread(open_to_others, places.state) == []
    names = {path.name for path in await asyncio.to_thread(lambda: list(places.state.rglob("*")))}
    assert {"journal.db", "journal.db.search", "grants.json", "trust.json", "logs"} <= names


async def test_what_was_left_open_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    await keep_everything(places, monkeypatch)

    def loosen() -> None:
        for path in (places.state, *places.state.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)

    await asyncio.to_thread(loosen)
    await keep_everything(places, monkeypatch)
    await GrantStore(places.state / "grants.json").load()
    for name in ("", "journal.db", "journal.db.search", "grants.json", "trust.json", "sessions"):
        assert mode_of(places.state / name) & 0o077 == 0, name


def test_directories_above_are_made_private_and_those_that_exist_stay(tmp_path: Path, umask: int):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    make_private(shared / "one" / "two")
    assert mode_of(shared) == 0o755
    assert mode_of(shared / "one") == mode_of(shared / "one" / "two") == 0o700
    make_private_directory(shared, is_ours=False)
    assert mode_of(shared) == 0o755


def test_a_link_is_not_followed_to_close_something_else(tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("x")
    target.chmod(0o644)
    (tmp_path / "link").symlink_to(target)
    close_to_others(tmp_path / "link")
    assert mode_of(target) == 0o644
    close_to_others(tmp_path / "none")


def test_a_file_is_private_from_its_first_moment(tmp_path: Path, umask: int):
    os.close(open_private(tmp_path / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    assert mode_of(tmp_path / "new") & 0o177 == 0


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = tmp_path / "theirs"
    place.mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(place, 12345, 12345)
    monkeypatch.setattr(os, "getuid", lambda: 23456)
    with pytest.raises(UnusablePlaceError, match="belongs to another user"):
        make_private(place)
