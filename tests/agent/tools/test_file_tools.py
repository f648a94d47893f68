"""The file tools as a set: what the model is shown, and that any ``Files`` will do."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.tools.builtin import file_tools
from quarterdeck.agent.tools.toolbox import Toolbox
from quarterdeck.system.api import FileContent, FileIdentity, FileLines, FileStat
from quarterdeck.system.errors import FileChangedError
from quarterdeck.system.files import LocalFiles


def test_what_the_model_is_shown():
    specs = Toolbox(file_tools()).specs
    shown = {
        spec.name: (list(spec.parameters["properties"]), spec.parameters.get("required", []))
        for spec in specs
    }
    assert shown == {
        "read": (["path", "line", "limit"], ["path"]),
        "write": (["path", "content"], ["path", "content"]),
        "edit": (["path", "old", "new", "replace_all"], ["path", "old", "new"]),
        "multi_edit": (["path", "edits"], ["path", "edits"]),
        "ls": (["path"], []),
        "glob": (["pattern", "path"], ["pattern"]),
        "grep": (
            ["pattern", "path", "glob", "ignore_case", "context", "mode", "limit", "multiline"],
            ["pattern"],
        ),
    }


def test_what_the_model_is_shown_stays_small():
    specs = Toolbox(file_tools()).specs
    assert all(100 < len(spec.description) < 900 for spec in specs)
    assert sum(len(spec.description) + len(str(spec.parameters)) for spec in specs) < 8000


def test_kinds_and_order_are_fixed():
    assert [(tool.name, tool.kind) for tool in file_tools()] == [
        ("read", "read"),
        ("write", "edit"),
        ("edit", "edit"),
        ("multi_edit", "edit"),
        ("ls", "read"),
        ("glob", "search"),
        ("grep", "search"),
    ]


class TextFiles(LocalFiles):
    """Files as an editor lends them: text only, and content is all that identifies a file."""

    async def read(self, path: Any, *, offset: int = 0, limit: int | None = None) -> FileContent:
        whole = await super().read(path)
        data = whole.data.decode("utf-8").encode()
        piece = data[offset:] if limit is None else data[offset : offset + limit]
        at_end = offset + len(piece) >= len(data)
        return FileContent(data=piece, identity=_identity(data), at_end=at_end)

    async def read_lines(self, path: Any, **window: Any) -> FileLines:
        lines = await super().read_lines(path, **window)
        whole = await self.read(path)
        return FileLines(
            data=lines.data,
            identity=whole.identity,
            first=lines.first,
            count=lines.count,
            total=lines.total,
        )

    async def stat(self, path: Any, *, follow: bool = True) -> FileStat:
        stat = await super().stat(path, follow=follow)
        size = stat.identity.size
        nothing = FileIdentity(device=0, inode=0, size=size, modified_ns=0)
        return FileStat(path=stat.path, kind=stat.kind, mode=stat.mode, identity=nothing)

    async def write(
        self,
        path: Any,
        data: bytes,
        *,
        expected: FileIdentity | None = None,
        create: bool | None = None,
    ) -> FileIdentity:
        if expected is not None and (await self.read(path)).identity != expected:
            raise FileChangedError(str(path), "was changed")
        await super().write(path, data, create=create)
        return _identity(data)


def _identity(data: bytes) -> FileIdentity:
    digest = hashlib.blake2b(data).hexdigest()
    return FileIdentity(device=0, inode=0, size=len(data), modified_ns=0, digest=digest)


async def test_files_of_an_editor_will_do(call, root: Path):
    system = call.workspace.system
    system.files = TextFiles(system.files._roots)
    await call("write", path="a", content="one\ntwo\n")
    await call("edit", path="a", old="two", new="2\nthree")
    assert await call("read", path="a", line=2) == (
        "    2\t2\n    3\tthree\n(end of the file, 3 lines)"
    )
    assert await call("grep", pattern="th.+e") == "a:3:three"
    assert await call("glob", pattern="*") == "a"
    prepared = await call.prepare("edit", path="a", old="one", new="1")
    (root / "a").write_text("other one\n")
    with pytest.raises(Exception, match="changed since it was read"):
        await call.finish(prepared)


async def test_policy_is_told_about_every_path(call, root: Path):
    (root / "d").mkdir()
    (root / "d" / "a").write_text("x")
    (root / "link").symlink_to("d")
    await call("read", path="link/a")
    for name, arguments, leads_to in [
        ("read", {"path": "link/a"}, "d/a"),
        ("write", {"path": "link/a", "content": "y"}, "d/a"),
        ("edit", {"path": "link/a", "old": "x", "new": "y"}, "d/a"),
        ("multi_edit", {"path": "link/a", "edits": [{"old": "x", "new": "y"}]}, "d/a"),
        ("ls", {"path": "link"}, "d"),
        ("glob", {"path": "link", "pattern": "*"}, "d"),
        ("grep", {"path": "link", "pattern": "x"}, "d"),
    ]:
        prepared = await call.prepare(name, **arguments)
        (use,) = prepared.call.paths
        assert use.path == f"{root}/{arguments['path']}"
        assert use.resolved == f"{root}/{leads_to}"
        assert use.access == ("write" if prepared.call.kind == "edit" else "read")
        assert prepared.call.tool == name
        assert arguments["path"] in prepared.title
        assert prepared.locations[0].path == use.path
    assert (root / "d" / "a").read_text() == "x"
