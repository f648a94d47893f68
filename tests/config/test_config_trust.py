import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quarterdeck.config.errors import UnusablePlaceError, UnusableTrustError
from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.wire.errors import NewerVersionError


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state" / "trust.json", home=tmp_path / "home")


def make(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_nothing_is_trusted_at_first_and_asking_writes_nothing(store: TrustStore, tmp_path: Path):
    assert not store.is_trusted(tmp_path)
    assert not list(tmp_path.iterdir())


def test_trust_covers_what_is_below_and_nothing_beside(store: TrustStore, tmp_path: Path):
    project = make(tmp_path / "project")
    inside, beside = make(project / "a"), make(tmp_path / "project-2")
    store.trust(project)
    assert store.is_trusted(project)
    assert store.is_trusted(inside)
    assert not store.is_trusted(beside)
    assert not store.is_trusted(tmp_path)


def test_trust_outlives_the_object_and_can_be_revoked(store: TrustStore, tmp_path: Path):
    project = make(tmp_path / "project")
    store.trust(project)
    again = TrustStore(tmp_path / "state" / "trust.json")
    assert again.trusted() == (project,)
    assert again.revoke(project)
    assert not again.revoke(project)
    assert not store.is_trusted(project)


def test_a_link_is_as_trusted_as_what_it_points_to(store: TrustStore, tmp_path: Path):
    project, other = make(tmp_path / "project"), make(tmp_path / "other")
    link = tmp_path / "link"
    link.symlink_to(project)
    store.trust(link)
    assert store.is_trusted(project)
    link.unlink()
    link.symlink_to(other)
    assert not store.is_trusted(link)


def test_trust_in_the_home_directory_does_not_cover_clones(store: TrustStore, tmp_path: Path):
    home = make(tmp_path / "home")
    clone = make(home / "src" / "clone")
    store.trust(home)
    store.trust(Path("/"))
    assert store.is_trusted(home)
    assert not store.is_trusted(clone)


def test_only_a_directory_can_be_trusted(store: TrustStore, tmp_path: Path):
    with pytest.raises(UnusableTrustError, match="missing"):
        store.trust(tmp_path / "missing")


def test_a_damaged_list_is_an_error_and_not_trust(store: TrustStore, tmp_path: Path):
    path = make(tmp_path / "state") / "trust.json"
    for data in (b"", b"{", b"[]", b'{"v":1,"trusted":[1]}', b'{"trusted":[]}', b"\xff"):
        path.write_bytes(data)
        with pytest.raises(UnusableTrustError, match=r"trust\.json"):
            store.is_trusted(tmp_path)


def test_a_newer_list_is_left_alone(store: TrustStore, tmp_path: Path):
    path = make(tmp_path / "state") / "trust.json"
    path.write_text('{"v": 3, "other": true}')
    with pytest.raises(NewerVersionError):
        store.trust(tmp_path)
    assert path.read_text() == '{"v": 3, "other": true}'


def test_the_list_of_the_first_version_stays_readable(store: TrustStore, tmp_path: Path):
    (make(tmp_path / "state") / "trust.json").write_text('{"v": 1, "trusted": ["/a", "/b c"]}')
    assert store.trusted() == (Path("/a"), Path("/b c"))


def test_no_trust_is_lost_when_many_write(store: TrustStore, tmp_path: Path):
    places = [make(tmp_path / str(n)) for n in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(store.trust, places))
    assert set(store.trusted()) == set(places)
    names = {p.name for p in (tmp_path / "state").iterdir()}
    assert names == {"trust.json", "trust.lock"}


def test_only_the_owner_reads_the_list(store: TrustStore, tmp_path: Path):
    store.trust(tmp_path)
    path = tmp_path / "state" / "trust.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusablePlaceError, match="file"):
        TrustStore(tmp_path / "file" / "trust.json").trust(tmp_path)


def test_a_directory_about_which_nobody_wants_to_be_asked(tmp_path: Path):
    store, project = TrustStore(tmp_path / "state" / "trust.json"), make(tmp_path / "project")
    assert not store.is_unasked(project)
    store.leave_unasked(project)
    store.leave_unasked(project)
    assert store.is_unasked(project) and not store.is_trusted(project)
    assert not store.is_unasked(make(project / "below"))
    assert not store.revoke(project)
    assert not store.is_unasked(project)
    store.leave_unasked(project)
    store.trust(project)
    assert store.is_trusted(project) and not store.is_unasked(project)


def test_lists_of_both_versions_are_read(tmp_path: Path):
    path = make(tmp_path / "state") / "trust.json"
    path.write_text('{"v": 2, "trusted": ["/a"], "unasked": ["/b"]}')
    assert TrustStore(path).trusted() == (Path("/a"),)
    assert TrustStore(path).is_unasked(Path("/b"))
    TrustStore(path).revoke(Path("/b"))
    assert '"v": 1' in path.read_text()  # what an older program can read, it can read


def linked_worktree(tmp_path: Path) -> tuple[Path, Path]:
    """A repository and a worktree of it, as git lays them out."""
    project, worktree = tmp_path / "project", tmp_path / "elsewhere"
    own = project / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {own}\n")
    (own / "gitdir").write_text(f"{worktree}/.git\n")
    (own / "commondir").write_text("../..\n")
    return project, worktree


def test_a_linked_worktree_belongs_to_the_project_of_its_repository(tmp_path: Path):
    project, worktree = linked_worktree(tmp_path)
    found = find_workspace(worktree)
    assert (found.root, found.project) == (worktree, project)
    assert find_workspace(project).project == project
    (project / ".quarterdeck").mkdir()
    (project / ".quarterdeck" / "config.local.toml").write_text("")
    assert find_workspace(worktree).local_file == project / ".quarterdeck" / "config.local.toml"


def test_a_linked_worktree_cannot_bring_settings_of_its_own(tmp_path: Path):
    """Agents write there: what is trusted is what the main checkout has."""
    project, worktree = linked_worktree(tmp_path)
    for place in (worktree, worktree / "deep" / "er"):
        write_settings(place, 'mode = "full-auto"\n[worktrees]\nsetup = ["evil"]\n')
    assert find_workspace(worktree / "deep" / "er").folder is None
    write_settings(project, 'mode = "plan"\n')
    write_settings(project / "deep", 'mode = "accept-edits"\n')
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    for place, mode in ((worktree, "plan"), (worktree / "deep" / "er", "accept-edits")):
        settings = load_config(places, directory=place, environ={}, trusted=True).settings
        assert (settings.mode, settings.worktrees.setup) == (mode, ())


def write_settings(directory: Path, text: str) -> None:
    folder = directory / ".quarterdeck"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)
    (folder / "config.local.toml").write_text(text)


def test_a_directory_that_only_claims_to_be_a_worktree_belongs_to_itself(tmp_path: Path):
    project, _ = linked_worktree(tmp_path)
    liar = tmp_path / "liar"
    liar.mkdir()
    for named in (project / ".git" / "worktrees" / "w", project / ".git", tmp_path / "none"):
        (liar / ".git").write_text(f"gitdir: {named}\n")
        assert find_workspace(liar).project == liar
