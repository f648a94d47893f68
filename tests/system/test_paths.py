"""No spelling of a path, and no swap during a call, leads out of the roots."""
# ruff: noqa: PTH123, PTH102, PTH104, PTH116, PTH120, PTH211

import asyncio
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarterdeck.system.errors import (
    NoSuchPathError,
    OutsideRootsError,
    PathError,
    PathRefusedError,
)
from quarterdeck.system.files import LocalFiles
from quarterdeck.system.paths import Roots


def real(roots: Roots, path: str | os.PathLike[str], *, follow: bool = True) -> str:
    with roots.place(path, follow=follow) as place:
        return place.path


def test_relative_paths_begin_at_the_first_root(root: Path):
    (root / "a").mkdir()
    assert real(Roots([root, root.parent]), "a/../a/./b") == str(root / "a" / "b")


@pytest.mark.parametrize(
    "path",
    ["..", "../outside/secret", "a/../../outside", "/etc/passwd", "/", "//etc", "a/../..//root2"],
)
def test_paths_that_lead_out_are_refused(root: Path, path: str):
    (root / "a").mkdir()
    (root.parent / "root2").mkdir()
    with pytest.raises(OutsideRootsError) as caught:
        real(Roots([root]), path)
    assert repr(path) in str(caught.value)
    assert repr(str(root)) in str(caught.value)


def test_a_path_that_leaves_and_comes_back_is_inside(root: Path):
    assert real(Roots([root]), "../root/x") == str(root / "x")
    assert real(Roots([root]), f"{root}/../root/../root/x") == str(root / "x")


def test_a_tilde_is_an_ordinary_name(root: Path):
    assert real(Roots([root]), "~") == str(root / "~")
    with pytest.raises(NoSuchPathError):
        real(Roots([root]), "~/x")


def test_symlinks_are_followed_inside_and_refused_outside(root: Path):
    (root / "a").mkdir()
    (root / "in").symlink_to("a")
    (root / "up").symlink_to("../root/a")
    (root / "absolute").symlink_to(root / "a")
    (root / "out").symlink_to("../outside")
    (root / "secret").symlink_to(root.parent / "outside" / "secret")
    (root / "dangling").symlink_to("a/new")
    roots = Roots([root])
    for inside in ("in", "up", "absolute"):
        assert real(roots, f"{inside}/f") == str(root / "a" / "f")
        assert real(roots, inside) == str(root / "a")
    assert real(roots, "dangling") == str(root / "a" / "new")
    for outside in ("out", "out/secret", "secret", "in/../out/x"):
        with pytest.raises(OutsideRootsError):
            real(roots, outside)
    assert real(roots, "secret", follow=False) == str(root / "secret")


def test_after_a_symlink_dotdot_is_the_parent_of_its_target(root: Path):
    (root / "deep" / "er").mkdir(parents=True)
    (root / "link").symlink_to("deep/er")
    assert real(Roots([root]), "link/../x") == str(root / "deep" / "x")


def test_a_root_may_be_a_symlink(root: Path):
    link = root.parent / "link"
    link.symlink_to("root")
    (root / "f").touch()
    for roots in (Roots([link]), Roots([root])):
        for spelling in ("f", link / "f", root / "f", f"{link}/../root/f"):
            assert real(roots, spelling) == str(root / "f")


def test_several_roots_are_one_world(root: Path):
    other = root.parent / "other"
    other.mkdir()
    (root / "link").symlink_to(other)
    roots = Roots([root, other])
    assert real(roots, "link/f") == str(other / "f")
    assert real(roots, "../other/f") == str(other / "f")
    with pytest.raises(OutsideRootsError):
        real(roots, "../outside/secret")


def test_the_whole_file_system_can_be_the_root(root: Path):
    assert real(Roots(["/"]), "/../../" + "../" * 50 + str(root)) == str(root)


def test_loops_and_bad_names_are_refused(root: Path):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "c").symlink_to(root / "c")
    (root / "file").touch()
    roots = Roots([root])
    for path in ("a", "a/x", "c", "c/x"):
        with pytest.raises(PathRefusedError, match=r"symbolic links|loop"):
            real(roots, path)
    for path in ("", "x\0y", "\ud800", "file/x", "x" * 300 + "/y"):
        with pytest.raises(PathRefusedError):
            real(roots, path)
    with pytest.raises(PathRefusedError), roots.place("x" * 300) as place:
        place.stat()


def test_names_that_are_no_utf8_work(root: Path):
    raw = os.fsencode(root) + b"/\xff\xfe"
    os.close(os.open(raw, os.O_CREAT | os.O_WRONLY, 0o600))
    assert os.fsencode(real(Roots([root]), os.fsdecode(b"\xff\xfe"))) == raw


@pytest.mark.parametrize("bad", [[], ["relative"], ["/a/../b"], [""]])
def test_roots_have_to_be_absolute(bad: list[str]):
    with pytest.raises(ValueError, match=r"Root"):
        Roots(bad)


def test_a_place_is_not_left_by_what_happens_after_it_was_found(root: Path):
    (root / "dir").mkdir()
    (root / "dir" / "secret").write_text("inside")
    roots = Roots([root])
    with roots.place("dir/secret") as place:
        (root / "dir").rename(root / "moved")
        (root / "dir").symlink_to("../outside")
        with open(place.open(os.O_RDONLY)) as file:
            assert file.read() == "inside"
        (root / "moved" / "secret").unlink()
        (root / "moved" / "secret").symlink_to("../../outside/secret")
        with pytest.raises(OSError, match=r"symbolic links"):
            place.open(os.O_RDONLY)


def test_no_descriptor_is_left_open(root: Path):
    (root / "a" / "b").mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    roots = Roots([root])
    before = len(list(Path("/dev/fd").iterdir()))
    for path in ("a/b/c", "a/../a/b/../../a", "out/x", "a/b/../../..", "no/such", "."):
        try:
            real(roots, path)
        except PathError:
            continue
    assert len(list(Path("/dev/fd").iterdir())) == before


NAMES = st.sampled_from(["a", "b", "c", "é", "..", ".", "", "\udcff"])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """What to make, in order: (kind, where, symlink target)."""
    made: list[tuple[str, str, str]] = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["directory", "file", "link", "link", "absolute"]))
        made.append((kind, draw(PATHS), draw(PATHS)))
    return made


def build(top: Path, tree: list[tuple[str, str, str]]) -> None:
    for kind, where, target in tree:
        path = f"{top}/root/{where}"
        if not os.path.realpath(os.path.dirname(path)).startswith(str(top)):
            continue
        try:
            if kind == "directory":
                os.mkdir(path)
            elif kind == "file":
                Path(path).touch()
            else:
                os.symlink(f"{top}/root/{target}" if kind == "absolute" else target, path)
        except (OSError, ValueError):
            continue


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=trees(), path=PATHS, is_absolute=st.booleans())
@example(tree=[("link", "a", "..")], path="a/outside/x", is_absolute=False)
@example(tree=[("link", "a", "../outside")], path="a/../root/b", is_absolute=False)
def test_the_walk_agrees_with_realpath(
    tree: list[tuple[str, str, str]], path: str, is_absolute: bool
):
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        (top / "root").mkdir()
        (top / "outside").mkdir()
        build(top, tree)
        roots = Roots([top / "root"])
        path = path.lstrip("/") or "."
        text = f"{top}/root/{path}" if is_absolute else path
        expected = os.path.realpath(f"{top}/root/{path}")
        try:
            found = real(roots, text)
        except OutsideRootsError:
            assert not is_inside(expected, top / "root") or passes_the_missing(top, path)
        except PathError:
            assert passes_the_missing(top, path)
        else:
            assert is_inside(found, top / "root")
            assert found == expected


def is_inside(path: str, root: Path) -> bool:
    return path == str(root) or path.startswith(f"{root}/")


def passes_the_missing(top: Path, path: str) -> bool:
    """Some directory on the way does not exist or loops, so that realpath only guesses."""
    names = path.split("/")
    for count in range(1, len(names) + 1):
        try:
            os.stat(f"{top}/root/" + "/".join(names[:count]))
        except OSError:
            return True
    return False


def put(source: Path, target: Path) -> None:
    """Rename; a directory that a writer has made at the target meanwhile is in the way."""
    while True:
        try:
            os.rename(source, target)
        except OSError:
            shutil.rmtree(target, ignore_errors=True)
        else:
            return


@contextmanager
def swapping(link: Path, directory: Path, spare: Path) -> Iterator[None]:
    """Swap ``directory`` for a symlink to the outside and back, as fast as it goes."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(directory, spare)
            put(link, directory)
            os.rename(directory, link)
            put(spare, directory)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def race(root: Path, times: int) -> set[str]:
    """Read and write through a directory that is swapped for a symlink to the outside."""
    outside = root.parent / "outside"
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "dir" / "sub" / "secret").write_text("inside")
    (outside / "sub").mkdir()
    (outside / "sub" / "secret").write_text("secret")
    (root / "link").symlink_to(outside)
    files = LocalFiles(Roots([root]))
    seen: set[str] = set()
    with swapping(root / "link", root / "dir", root / "spare"):
        for _ in range(times):
            for attempt in (
                files.read("dir/sub/secret"),
                files.write(f"dir/sub/{random.randrange(9)}", b"written"),
                files.write("dir/sub/secret", b"inside"),
                files.rename("dir/sub/secret", "dir/sub/secret"),
                files.list("dir/sub"),
            ):
                try:
                    result = await attempt
                except PathError as error:
                    seen.add(type(error).__name__)
                    continue
                seen.add("done")
                assert getattr(result, "data", b"inside") == b"inside"
    assert [path.name for path in outside.rglob("*") if path.is_file()] == ["secret", "secret"]
    assert (outside / "sub" / "secret").read_text() == "secret"
    return seen


async def test_a_racing_swap_never_leads_outside(root: Path):
    assert "done" in await race(root, 150)


@pytest.mark.stress
async def test_a_racing_swap_never_leads_outside_for_long(root: Path):
    assert "OutsideRootsError" in await race(root, 5_000)


async def test_a_leaf_swapped_for_a_symlink_is_never_followed(root: Path):
    outside = root.parent / "outside" / "secret"
    (root / "file").write_text("inside")
    (root / "link").symlink_to(outside)
    files = LocalFiles(Roots([root]))
    with swapping(root / "link", root / "file", root / "spare"):
        for _ in range(150):
            try:
                assert (await files.read("file")).data == b"inside"
                await files.write("file", b"inside")
            except PathError:
                await asyncio.sleep(0)
    assert outside.read_text() == "secret"
