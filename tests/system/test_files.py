"""Files: read without blocking, written in one step, never half."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.system.api import DirectoryEntry
from quarterdeck.system.errors import (
    FileChangedError,
    NoSuchPathError,
    OutsideRootsError,
    PathError,
    PathRefusedError,
    SpecialFileError,
)
from quarterdeck.system.file_reader import read_window
from quarterdeck.system.files import LocalFiles
from quarterdeck.system.paths import Roots
from tests.support.path_swaps import swapping


@pytest.fixture
def files(root: Path) -> LocalFiles:
    return LocalFiles(Roots([root]))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


async def test_reading_gives_bytes_and_pages(root: Path, files: LocalFiles):
    (root / "f").write_bytes(b"0123456789")
    whole = await files.read("f")
    assert (whole.data, whole.at_end) == (b"0123456789", True)
    page = await files.read(root / "f", offset=3, limit=4)
    assert (page.data, page.at_end) == (b"3456", False)
    assert (await files.read("f", offset=8, limit=4)).at_end
    assert (await files.read("f", offset=99)).data == b""


async def test_missing_files_and_directories_are_named(root: Path, files: LocalFiles):
    with pytest.raises(NoSuchPathError, match="'no/such'"):
        await files.read("no/such")
    with pytest.raises(PathRefusedError, match="is a directory"):
        await files.read(".")
    with pytest.raises(PathRefusedError, match="is a directory"):
        await files.write(".", b"")
    with pytest.raises(PathRefusedError, match="not a directory"):
        (root / "f").touch()
        await files.list("f")


async def test_pipes_sockets_and_devices_are_refused_without_blocking(root: Path):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        files = LocalFiles(Roots([root, "/dev"]))
        async with asyncio.timeout(45):
            for path, kind in (("pipe", "pipe"), ("socket", "socket"), ("/dev/zero", "device")):
                for attempt in (files.read(path), files.read_lines(path), files.write(path, b"")):
                    with pytest.raises(SpecialFileError, match=kind):
                        await attempt
                assert (await files.stat(path)).kind == kind


async def test_a_window_of_lines(root: Path, files: LocalFiles):
    (root / "f").write_bytes(b"one\r\ntwo\nthree\nfour")
    window = await files.read_lines("f", line=2, limit=2)
    assert (window.data, window.first, window.count, window.total) == (b"two\nthree\n", 2, 2, 4)
    assert window.next == 4
    last = await files.read_lines("f", line=4)
    assert (last.text, last.next) == ("four", None)
    beyond = await files.read_lines("f", line=9)
    assert (beyond.data, beyond.count, beyond.next) == (b"", 0, None)
    assert (await files.read_lines("f")).data == b"one\r\ntwo\nthree\nfour"


async def test_a_window_ends_with_a_line_and_a_long_line_at_a_character(
    root: Path, files: LocalFiles
):
    (root / "f").write_text("ab\ncd\n" + "é" * 10 + "\nend\n")
    window = await files.read_lines("f", max_bytes=5)
    assert (window.data, window.next, window.is_cut) == (b"ab\n", 2, False)
    cut = await files.read_lines("f", line=3, max_bytes=5)
    assert (cut.text, cut.next, cut.is_cut) == ("éé", 4, True)


@settings(max_examples=200, deadline=None)
@given(
    content=st.lists(st.sampled_from([b"\n", b"a", b"\xc3\xa9", b"\r\n", b"x" * 20])).map(b"".join),
    line=st.integers(1, 8),
    limit=st.one_of(st.none(), st.integers(0, 5)),
    max_bytes=st.integers(1, 40),
)
def test_windows_agree_with_splitting(content: bytes, line: int, limit: int | None, max_bytes: int):
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        window = read_window(file.fileno(), line, limit, max_bytes)
    lines = content.split(b"\n")
    lines = [part + b"\n" for part in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    wanted = lines[line - 1 :][:limit]
    assert window.total == len(lines)
    assert b"".join(wanted).startswith(window.data)
    assert len(window.data) <= max_bytes
    if window.is_cut:
        assert len(wanted[0]) > max_bytes
    else:
        assert window.data == b"".join(wanted[: window.count])
        assert window.count == len(wanted) or len(b"".join(wanted[: window.count + 1])) > max_bytes


async def test_a_large_file_is_paged_in_constant_memory(root: Path, files: LocalFiles):
    with (root / "big").open("wb") as file:
        for start in range(0, 500_000, 10_000):
            file.write(b"".join(b"%099d\n" % n for n in range(start, start + 10_000)))
    tracemalloc.start()
    try:
        window = await files.read_lines("big", line=400_001, limit=2000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert window.data.startswith(b"%099d\n" % 400_000)
    assert (window.count, window.total) == (2000, 500_000)
    assert peak < 4_000_000


async def test_writing_keeps_the_mode_and_makes_parents(root: Path, files: LocalFiles):
    (root / "tool").write_text("old")
    (root / "tool").chmod(0o754)
    await files.write("tool", b"new")
    assert (root / "tool").read_bytes() == b"new"
    assert (root / "tool").stat().st_mode & 0o7777 == 0o754
    mask = os.umask(0o027)
    try:
        await files.write("new/deep/er", b"x")
    finally:
        os.umask(mask)
    assert (root / "new" / "deep" / "er").stat().st_mode & 0o777 == 0o640
    assert names(root) == ["new", "tool"]


async def test_writing_through_a_symlink_keeps_the_symlink(root: Path, files: LocalFiles):
    (root / "target").write_text("old")
    (root / "link").symlink_to("target")
    (root / "dangling").symlink_to("made")
    await files.write("link", b"new")
    await files.write("dangling", b"made")
    assert (root / "link").is_symlink()
    assert (root / "target").read_text() == "new"
    assert (root / "made").read_text() == "made"
    (root / "out").symlink_to("../outside/secret")
    with pytest.raises(OutsideRootsError):
        await files.write("out", b"stolen")
    assert (root.parent / "outside" / "secret").read_text() == "secret"


async def test_a_failed_write_leaves_no_trace(root: Path, files: LocalFiles):
    (root / "full").symlink_to("/dev/full")
    (root / "f").write_text("old")
    with pytest.raises(FileChangedError):
        await files.write("f", b"new", create=True)
    with pytest.raises(NoSuchPathError):
        await files.write("missing/g", b"new", create=False)
    with pytest.raises(PathError):
        await files.write("x" * 300, b"new")
    assert names(root) == ["f", "full"]
    assert (root / "f").read_text() == "old"


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE to behave as on Linux")
def test_a_full_disk_leaves_the_old_file_and_no_temporary(root: Path):
    (root / "f").write_text("old")
    script = (
        "import asyncio, resource, signal, sys\n"
        "from quarterdeck.system.local import LocalSystem\n"
        "from quarterdeck.system.errors import PathRefusedError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: asyncio.run(LocalSystem([sys.argv[1]]).files.write('f', b'x' * 5000))\n"
        "except PathRefusedError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, root], stdout=subprocess.PIPE, text=True, check=True
    )
    assert "too large" in done.stdout
    assert names(root) == ["f"]
    assert (root / "f").read_text() == "old"


async def test_a_file_changed_since_it_was_read_is_not_overwritten(root: Path, files: LocalFiles):
    (root / "f").write_text("old")
    read = (await files.read("f")).identity
    lines = (await files.read_lines("f", limit=0)).identity
    assert read.digest == lines.digest != ""
    times = (root / "f").stat()
    (root / "f").write_text("0ld")  # same size, same time
    os.utime(root / "f", ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(FileChangedError, match="was changed since it was read"):
        await files.write("f", b"new", expected=read)
    assert (root / "f").read_text() == "0ld"
    (root / "f").unlink()
    with pytest.raises(FileChangedError, match="was removed"):
        await files.write("f", b"new", expected=read)
    assert names(root) == []


async def test_a_file_that_was_only_touched_can_be_written(root: Path, files: LocalFiles):
    (root / "f").write_text("old")
    read = (await files.read("f")).identity
    os.utime(root / "f", ns=(1, 1))
    written = await files.write("f", b"new", expected=read)
    assert written == (await files.read("f")).identity
    await files.write("f", b"newer", expected=written)
    assert (root / "f").read_text() == "newer"


async def test_an_identity_without_digest_compares_size_and_time(root: Path, files: LocalFiles):
    (root / "f").write_text("old")
    seen = (await files.stat("f")).identity
    await files.write("f", b"new", expected=seen)
    os.utime(root / "f", ns=(1, 1))
    with pytest.raises(FileChangedError):
        await files.write("f", b"newer", expected=seen)


WRITER = """
import asyncio, sys
from quarterdeck.system.local import LocalSystem

async def main():
    files = LocalSystem([sys.argv[1]]).files
    print("ready", flush=True)
    while True:
        for letter in b"ab":
            await files.write("f", bytes([letter]) * 300_000)

asyncio.run(main())
"""


def kill_writers(root: Path, times: int) -> None:
    for _ in range(times):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, root], stdout=subprocess.PIPE)
        with writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(random.random() * 0.05)
            writer.send_signal(signal.SIGKILL)
        content = (root / "f").read_bytes() if (root / "f").exists() else b""
        assert content in (b"", b"a" * 300_000, b"b" * 300_000)


def test_a_writer_that_is_killed_leaves_a_whole_file(root: Path):
    kill_writers(root, 5)


@pytest.mark.stress
def test_a_hundred_writers_that_are_killed_leave_a_whole_file(root: Path):
    kill_writers(root, 100)


async def test_concurrent_writers_do_not_mix(root: Path, files: LocalFiles):
    contents = [bytes([65 + n]) * 100_000 for n in range(8)]
    async with asyncio.TaskGroup() as group:
        for content in contents:
            group.create_task(files.write("f", content))
    assert (root / "f").read_bytes() in contents
    assert names(root) == ["f"]


async def test_a_cancelled_write_has_happened_or_not(root: Path, files: LocalFiles):
    (root / "f").write_bytes(b"old")
    for delay in (0, 0, 0.0005, 0.001):
        writing = asyncio.create_task(files.write("f", b"n" * 200_000))
        await asyncio.sleep(delay)
        writing.cancel()
        await asyncio.wait([writing])
        assert (root / "f").read_bytes() in (b"old", b"n" * 200_000)


async def test_listing_is_sorted_and_tells_kinds(root: Path, files: LocalFiles):
    (root / "b").write_text("xy")
    (root / "a").mkdir()
    (root / "c").symlink_to("/etc")
    entries = await files.list()
    assert [(e.path, e.kind, e.size) for e in entries if e.kind == "file"] == [("b", "file", 2)]
    assert [(e.path, e.kind) for e in entries] == [
        ("a", "directory"),
        ("b", "file"),
        ("c", "symlink"),
    ]


async def test_a_walk_is_ordered_bounded_and_stays_inside(root: Path, files: LocalFiles):
    for path in ("a/x", "a/b/y", "z", ".git/skip", "c.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / "out").symlink_to("../outside")
    (root / "loop").symlink_to(".")

    def prune(entry: DirectoryEntry) -> bool:
        return entry.path == ".git"

    found = [entry.path async for entry in files.walk(prune=prune)]
    assert found == ["a", "a/b", "a/b/y", "a/x", "c.txt", "loop", "out", "z"]
    assert [entry.path async for entry in files.walk("a", limit=2)] == ["b", "b/y"]
    with pytest.raises(OutsideRootsError):
        _ = [entry async for entry in files.walk("out")]


async def test_a_walk_goes_on_past_a_directory_that_vanishes(root: Path, files: LocalFiles):
    for n in range(600):  # more than one batch
        (root / f"d{n:03}").mkdir()
    seen: list[DirectoryEntry] = []
    async for entry in files.walk():
        if not seen:
            (root / "d599").rmdir()
        seen.append(entry)
    assert len(seen) == 600
    assert "does not exist" in seen[-1].problem


async def test_removing_and_renaming_touch_the_symlink_not_its_target(
    root: Path, files: LocalFiles
):
    (root / "f").write_text("f")
    (root / "out").symlink_to("../outside/secret")
    (root / "empty").mkdir()
    await files.rename("out", "deep/moved")
    assert (root / "deep" / "moved").is_symlink()
    await files.remove("deep/moved")
    await files.remove("empty")
    await files.rename("f", "g")
    assert names(root) == ["deep", "g"]
    assert (root.parent / "outside" / "secret").exists()
    with pytest.raises(PathRefusedError):
        await files.remove(".")
    with pytest.raises(OutsideRootsError):
        await files.rename("g", "../outside/g")
    await files.make_directory("g2/h")
    await files.make_directory("g2/h")
    with pytest.raises(PathRefusedError, match="exists"):
        await files.make_directory("g")


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=2000))
async def test_what_is_written_is_read(root: Path, files: LocalFiles, data: bytes):
    identity = await files.write("f", data)
    content = await files.read("f")
    assert content.data == data
    assert content.identity == identity


@pytest.mark.skipif(sys.platform != "linux", reason="there are no files about processes")
async def test_files_about_processes_are_not_read(root: Path):
    """With the whole file system as root: our own environment has keys."""
    files = LocalFiles(Roots(["/"]))
    (root / "link").symlink_to("/proc/self")
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/maps", f"{root}/link/environ"):
        for attempt in (files.read(path), files.read_lines(path)):
            with pytest.raises(PathRefusedError, match="processes"):
                await attempt


@pytest.mark.parametrize(
    "path",
    [
        "link-root/etc/passwd", "link-cwd/../outside/secret", "link-fd/0", "link-thread/root/etc",
        "inner/up/../../outside/secret", "inner/up/../../../etc/passwd", "link-abs/secret",
        "/proc/self/root/etc/passwd", "/dev/fd/0", "/proc/thread-self/cwd/x",
    ],
)  # fmt: skip
async def test_no_link_of_the_kernel_and_no_dotdot_leads_out(
    root: Path, files: LocalFiles, path: str
):
    for name, target in (
        ("link-root", "/proc/self/root"), ("link-cwd", "/proc/self/cwd"), ("link-fd", "/dev/fd"),
        ("link-thread", "/proc/thread-self"), ("link-abs", str(root.parent / "outside")),
    ):  # fmt: skip
        (root / name).symlink_to(target)
    (root / "inner" / "deep").mkdir(parents=True)
    (root / "inner" / "up").symlink_to("deep/..")
    for attempt in (
        files.read(path),
        files.write(path, b"x"),
        files.remove(path),
        files.make_directory(path + "/new"),
        files.rename("inner", path),
        files.stat(path),
    ):
        with pytest.raises((OutsideRootsError, NoSuchPathError)):
            await attempt
    assert (root.parent / "outside" / "secret").read_text() == "secret"


async def test_what_another_name_of_a_file_holds_stays(root: Path, files: LocalFiles):
    """A hard link may lead out of the roots, and nobody can see where to."""
    secret = root.parent / "outside" / "secret"
    os.link(secret, root / "hard")
    await files.write("hard", b"agent")
    assert (root / "hard").read_bytes() == b"agent" and secret.read_text() == "secret"
    os.link(secret, root / "gone")
    await files.remove("gone")
    assert secret.read_text() == "secret"


async def test_other_content_does_not_keep_another_users_rights(root: Path, files: LocalFiles):
    (root / "tool").write_text("old")
    (root / "tool").chmod(0o6755)
    await files.write("tool", b"new")
    assert (root / "tool").stat().st_mode & 0o7777 == 0o755


async def test_making_removing_and_moving_do_not_lose_a_race(root: Path, files: LocalFiles):
    outside = root.parent / "outside"
    (outside / "empty").mkdir()
    (root / "sub").mkdir()
    (root / "link").symlink_to(outside)
    done = {True: 0, False: 0}
    with swapping(root / "sub", root / "link"):
        for number in range(200):
            for attempt in (
                files.make_directory(f"sub/empty/{number}"),
                files.write("sub/secret", b"agent"),
                files.rename("sub/secret", "sub/moved"),
                files.remove("sub/moved"),
                files.remove("sub/empty"),
            ):
                try:
                    await attempt
                    done[True] += 1
                except PathError:
                    done[False] += 1
    assert all(done.values()), f"nobody raced: {done}"
    assert sorted(path.name for path in outside.iterdir()) == ["empty", "secret"]
    assert (outside / "secret").read_text() == "secret"
    assert not list((outside / "empty").iterdir())
