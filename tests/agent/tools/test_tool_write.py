"""``write``: whole files, and only over what was seen."""

from pathlib import Path

import pytest

from quarterdeck.system.errors import FileChangedError


async def test_new_file_gets_its_parents(call, root: Path):
    prepared = await call.prepare("write", path="a/b/c.txt", content="hi\n")
    assert prepared.title == "Create a/b/c.txt"
    assert prepared.content[0].old_text is None
    assert prepared.content[0].new_text == "hi\n"
    assert prepared.content[0].path == f"{root}/a/b/c.txt"
    assert prepared.call.paths[0].access == "write"
    assert not (root / "a").exists()
    outcome = await call.finish(prepared)
    assert outcome.result[0].text == "Created a/b/c.txt: 1 line, 3 bytes."
    assert (root / "a/b/c.txt").read_text() == "hi\n"


async def test_existing_file_has_to_be_read_first(call, root: Path):
    (root / "a").write_text("mine")
    assert "was not read in this session" in await call.refused("write", path="a", content="x")
    assert (root / "a").read_text() == "mine"
    await call("read", path="a")
    prepared = await call.prepare("write", path="a", content="x")
    assert (prepared.content[0].old_text, prepared.content[0].new_text) == ("mine", "x")
    await call.finish(prepared)
    assert (root / "a").read_text() == "x"


async def test_changed_file_is_not_overwritten(call, root: Path):
    (root / "a").write_text("seen")
    await call("read", path="a")
    (root / "a").write_text("new!")
    assert "changed since it was read" in await call.refused("write", path="a", content="x")
    assert (root / "a").read_text() == "new!"


async def test_change_while_the_person_thinks_is_not_overwritten(call, root: Path):
    (root / "a").write_text("seen")
    await call("read", path="a")
    prepared = await call.prepare("write", path="a", content="x")
    (root / "a").write_text("new!")
    with pytest.raises(FileChangedError):
        await call.finish(prepared)
    prepared = await call.prepare("write", path="b", content="x")
    (root / "b").write_text("there")
    with pytest.raises(FileChangedError):
        await call.finish(prepared)
    assert (root / "b").read_text() == "there"


async def test_written_file_may_be_written_again(call, root: Path):
    await call("write", path="a", content="1")
    await call("write", path="a", content="2")
    await call("edit", path="a", old="2", new="3")
    assert (root / "a").read_text() == "3"


async def test_mode_and_symlink_stay(call, root: Path):
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("run.sh")
    await call("read", path="link")
    await call("write", path="link", content="#!/bin/bash\n")
    assert (root / "link").is_symlink()
    assert (root / "run.sh").read_text() == "#!/bin/bash\n"
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755


async def test_line_ends_and_byte_order_mark_of_the_file_stay(call, root: Path):
    (root / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    await call("read", path="a")
    told = await call("write", path="a", content="1\n2\n3\n")
    assert (root / "a").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert told.endswith("Kept CR LF line endings and the byte order mark of the file.")


async def test_line_ends_that_were_given_are_written(call, root: Path):
    await call("write", path="a", content="1\r\n2\r\n")
    assert (root / "a").read_bytes() == b"1\r\n2\r\n"
    await call("write", path="b", content="1\n2\n")
    await call("write", path="b", content="1\r\n2\n")
    assert (root / "b").read_bytes() == b"1\r\n2\n"


async def test_what_cannot_be_written_is_refused(call, root: Path):
    (root / "d").mkdir()
    assert "is a directory" in await call.refused("write", path="d", content="x")
    assert "outside" in await call.refused("write", path="../outside/x", content="x")
    (root / "dangling").symlink_to("nowhere")
    assert "symlink to something" in await call.refused("write", path="dangling", content="x")
    (root / "linked").symlink_to(root.parent / "outside")
    assert "outside" in await call.refused("write", path="linked/x", content="x")
    assert not (root.parent / "outside" / "x").exists()
    assert "can be written at once" in await call.refused(
        "write", path="large", content="x" * 10_000_001
    )


async def test_policy_sees_where_a_new_file_would_be(call, root: Path):
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    prepared = await call.prepare("write", path="link/new/a", content="x")
    (use,) = prepared.call.paths
    assert (use.path, use.resolved) == (f"{root}/link/new/a", f"{root}/real/new/a")
