"""Files that are no capsules, or not what one may be: refused by name, and nothing is written."""

import json
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.capsule.archive import (
    MANIFEST,
    ArchiveWriter,
    CapsuleLimits,
    PartSpool,
    part_name,
)
from quarterdeck.fleet.capsule.errors import CapsuleError, CapsuleRefusedError
from quarterdeck.fleet.capsule.reader import open_capsule
from tests.support.capsules import (
    Machine,
    files_below,
    read_members,
    rewrite_capsule,
    short_session,
    write_members,
)

Members = list[tuple[Any, bytes]]


@pytest.fixture(scope="module")
def capsule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("capsule")
    machine = Machine(folder / "home")
    ids: list[str] = []
    for word in ("one", "two"):
        entries = short_session("/w", *(f"{word} {number}" for number in range(30)))
        machine.record(entries)
        ids.append(entries[0][0])
    machine.export(folder / "good.capsule", *ids)
    return folder / "good.capsule"


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "there")


def refuse(there: Machine, file: Path, reason: str, match: str = "", **options: Any) -> None:
    with pytest.raises(CapsuleRefusedError) as caught:
        there.take(file, **options)
    assert caught.value.reason == reason
    assert match in str(caught.value)
    assert files_below(there.home) == set()


def test_a_good_one_is_taken(there: Machine, capsule: Path, tmp_path: Path):
    again = write_members(tmp_path / "again", read_members(capsule))  # by another zip program
    assert len(there.take(again).sessions) == 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_one(there: Machine, capsule: Path, tmp_path: Path, share: float):
    data = capsule.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    refuse(there, cut, "truncated" if share else "not a capsule")


def test_one_byte_less_and_one_more(there: Machine, capsule: Path, tmp_path: Path):
    file = tmp_path / "c"
    file.write_bytes(capsule.read_bytes()[:-1])
    refuse(there, file, "truncated")
    file.write_bytes(capsule.read_bytes() + b"\0")
    refuse(there, file, "truncated", "something follows it")


def test_any_byte_changed_is_noticed(capsule: Path, tmp_path: Path):
    """Except those that mean nothing, and such as unpack to the very same content."""
    data = capsule.read_bytes()
    with open_capsule(capsule) as opened:
        good = opened.digest
    file = tmp_path / "changed"
    missed: list[int] = []
    for place in range(0, len(data), 7):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            with open_capsule(file) as opened:
                opened.verify(lambda *_: None)
                assert opened.digest == good
        except CapsuleRefusedError:
            continue
        missed.append(place)
    assert len(set(missed) - free_bytes(data)) < 3  # a copy from another equal place


def free_bytes(data: bytes) -> set[int]:
    """Versions and times, in the headers of members and in the list."""
    free: set[int] = set()
    for found in re.finditer(rb"PK\x03\x04", data):
        free |= {found.start() + place for place in (4, 5, 7, 10, 11, 12, 13)}
    for found in re.finditer(rb"PK\x01\x02", data):
        free |= {found.start() + place for place in (4, 5, 6, 7, 9, *range(12, 16))}
        free |= {found.start() + place for place in (34, 35, 36, 37, *range(38, 42))}
    return free


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, zip_: bool):
    file = tmp_path_factory.getbasetemp() / "any.capsule"
    file.write_bytes(b"PK\5\6" + data if zip_ else data)
    with pytest.raises(CapsuleRefusedError), open_capsule(file):
        pass


def swap(members: Members) -> Members:
    return [members[1], members[0], *members[2:]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (swap, "reordered"),
        (lambda members: [members[-1], *members[:-1]], "reordered"),
        (lambda members: members[1:], "missing part"),
        (lambda members: [("parts/" + "0" * 64, b""), *members], "unlisted part"),
        (lambda members: members[:-1], "not a capsule"),
        (lambda members: [(members[0][0], b"x" * len(members[0][1])), *members[1:]], "changed"),
        (lambda members: [(members[0][0], members[0][1] + b"x"), *members[1:]], "changed"),
        (lambda members: [*members, ("../../etc/passwd", b"")], "unsafe name"),
        (lambda members: [*members, ("/etc/passwd", b"")], "unsafe name"),
        (lambda members: [*members, ("C:/x", b"")], "unsafe name"),
        (lambda members: [*members, ("parts\\x", b"")], "unsafe name"),
        (lambda members: [*members, ("parts/../x", b"")], "unsafe name"),
        (lambda members: [*members, ("readme.txt", b"")], "unsafe name"),
        (lambda members: [*members, ("parts/", b"")], "unsafe name"),
    ],
)
def test_other_members(
    there: Machine,
    capsule: Path,
    tmp_path: Path,
    change: Callable[[Members], Members],
    reason: str,
):
    members: Members = list(read_members(capsule))
    refuse(there, write_members(tmp_path / "c", change(members)), reason)


def test_a_name_with_a_nul(there: Machine, capsule: Path, tmp_path: Path):
    file = tmp_path / "c"
    with file.open("wb") as output:
        writer = ArchiveWriter(output)
        with PartSpool(tmp_path) as spool:
            spool.finish()
            writer.add("manifest.json\0.txt", spool)
        writer.finish()
    refuse(there, file, "unsafe name", "NUL")


def test_a_symbolic_link(there: Machine, capsule: Path, tmp_path: Path):
    members: Members = list(read_members(capsule))
    link = zipfile.ZipInfo(members[0][0])
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    members[0] = (link, b"/etc/passwd")
    refuse(there, write_members(tmp_path / "c", members), "symbolic link")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(there: Machine, capsule: Path, tmp_path: Path):
    members: Members = list(read_members(capsule))
    refuse(there, write_members(tmp_path / "c", [members[0], *members]), "duplicate name")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression(there: Machine, capsule: Path, tmp_path: Path, method: int):
    file = write_members(tmp_path / "c", read_members(capsule), method)
    refuse(there, file, "unknown compression")


def test_sizes_behind_the_data(there: Machine, capsule: Path, tmp_path: Path):
    class Pipe:
        def __init__(self, file: Any) -> None:
            self.write, self.flush = file.write, file.flush

    file = tmp_path / "c"
    with file.open("wb") as output, zipfile.ZipFile(Pipe(output), "w") as container:  # type: ignore[arg-type]
        for name, data in read_members(capsule):
            container.writestr(name, data)
    refuse(there, file, "unknown compression", "has no sizes")


def test_a_member_that_unpacks_to_far_more(there: Machine, tmp_path: Path):
    file = write_members(tmp_path / "c", [(part_name("0" * 64), b"\0" * (8 << 20))])
    refuse(there, file, "compression bomb", "would unpack")


def test_a_member_that_is_larger_than_it_says(there: Machine, capsule: Path, tmp_path: Path):
    data = bytearray(write_members(tmp_path / "c", read_members(capsule)).read_bytes())
    for found in re.finditer(rb"PK\x03\x04|PK\x01\x02", bytes(data)):
        place = found.start() + (22 if found[0] == b"PK\x03\x04" else 24)
        data[place : place + 4] = (10).to_bytes(4, "little")
    (tmp_path / "c").write_bytes(data)
    refuse(there, tmp_path / "c", "compression bomb", "more than its 10 bytes")


def test_members_that_lie_over_one_another(there: Machine, capsule: Path, tmp_path: Path):
    data = bytearray(write_members(tmp_path / "c", read_members(capsule)).read_bytes())
    second = [found.start() for found in re.finditer(rb"PK\x01\x02", bytes(data))][1]
    data[second + 42 : second + 46] = (0).to_bytes(4, "little")
    (tmp_path / "c").write_bytes(data)
    refuse(there, tmp_path / "c", "reordered")


def test_more_than_is_allowed(there: Machine, capsule: Path):
    refuse(there, capsule, "too large", "--most", limits=CapsuleLimits(total=1_000))
    refuse(there, capsule, "too large", MANIFEST, limits=CapsuleLimits(manifest=100))
    refuse(there, capsule, "too many members", limits=CapsuleLimits(members=2))
    refuse(there, capsule, "bad events", "a line has more", limits=CapsuleLimits(line=50))


def test_a_list_of_members_without_end(there: Machine, tmp_path: Path):
    import struct

    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    (tmp_path / "c").write_bytes(b"PK\3\4" + b"\0" * 100 + end)
    refuse(there, tmp_path / "c", "truncated")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "bad manifest"),
        (b"not JSON", "bad manifest"),
        (b"\xff\xfe", "bad manifest"),
        (b"[" * 100_000, "bad manifest"),
        (b"[]", "bad manifest"),
        (b'{"format":"other","version":1}', "bad manifest"),
        (b'{"format":"quarterdeck-capsule","version":2,"new":true}', "newer version"),
        (b'{"format":"quarterdeck-capsule","version":"1"}', "bad manifest"),
        (b'{"format":"quarterdeck-capsule","version":1}', "bad manifest"),
    ],
)
def test_another_manifest(there: Machine, tmp_path: Path, data: bytes, reason: str):
    refuse(there, write_members(tmp_path / "c", [(MANIFEST, data)]), reason)


def first(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["logs"][0]["sessions"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(version=0),
        lambda m: m.update(surprise=1),
        lambda m: m.update(logs=[]),
        lambda m: first(m).update(id="../../x"),
        lambda m: first(m).update(id=m["logs"][1]["root"]),
        lambda m: m["logs"][0].update(root="ses_" + "0" * 26),
        lambda m: m["logs"][0].update(records=1),
        lambda m: m["logs"][0].update(events="0" * 64),
        lambda m: m["parts"].append(m["parts"][0]),
        lambda m: m["parts"][0].update(size=-1),
        lambda m: first(m).update(work_tree=3),
        lambda m: first(m).update(work_tree=-1),
        lambda m: first(m).update(inside="../x"),
        lambda m: first(m).update(inside="a\0b"),
        lambda m: m.update(
            work_trees=[{"bundle": m["parts"][0]["sha256"], "tree": "--upload-pack=x"}]
        ),
        lambda m: first(m).update(files=[{"name": "x", "sha256": m["parts"][0]["sha256"]}] * 2),
    ],
)
def test_a_manifest_that_contradicts_itself(
    there: Machine, capsule: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
):
    refuse(there, rewrite_capsule(capsule, tmp_path / "c", change), "bad manifest")


def with_events(capsule: Path, file: Path, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    """The capsule with other events, and a manifest that lists them."""
    import hashlib

    members: Members = list(read_members(capsule))
    data = b"".join(line + b"\n" for line in change(members[0][1].splitlines()))
    old = members[0][0].removeprefix("parts/")
    new = hashlib.sha256(data).hexdigest()
    manifest = json.loads(members[-1][1].decode().replace(old, new))
    manifest["parts"][0]["size"] = len(data)
    members[0] = (part_name(new), data)
    members[-1] = (MANIFEST, json.dumps(manifest).encode())
    return write_members(file, members)


def edit(line: bytes, **changes: Any) -> bytes:
    return json.dumps(json.loads(line) | changes).encode()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: [b"{}", *lines[1:]], "bad events"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "reordered"),
        (lambda lines: lines[:-1], "bad events"),
        (lambda lines: [*lines[:-1], edit(lines[-1], session="ses_" + "0" * 26)], "bad events"),
        (lambda lines: [edit(lines[0], v=2), *lines[1:]], "newer version"),
    ],
)
def test_events_that_are_none(
    there: Machine,
    capsule: Path,
    tmp_path: Path,
    change: Callable[[list[bytes]], list[bytes]],
    reason: str,
):
    refuse(there, with_events(capsule, tmp_path / "c", change), reason)


def test_an_event_of_a_kind_that_is_not_known_is_kept_as_it_is(
    there: Machine, capsule: Path, tmp_path: Path
):
    later = {"type": "from_the_future", "x": 1}
    file = with_events(
        capsule, tmp_path / "c", lambda lines: [*lines[:-1], edit(lines[-1], event=later)]
    )
    report = there.take(file)
    assert there.read(report.sessions[0].id)[-1].raw == later  # type: ignore[union-attr]


def test_files_of_a_vendor_with_names_that_lead_elsewhere_are_not_placed(
    there: Machine, capsule: Path, tmp_path: Path
):
    def change(manifest: dict[str, Any]) -> None:
        digest = manifest["parts"][0]["sha256"]
        session = first(manifest)
        session["agent"] = "claude"
        session["agent_session"] = "x"
        session["files"] = [{"name": "../../../.ssh/authorized_keys", "sha256": digest}]

    # The part is the events', too, and stays what it is.
    file = rewrite_capsule(capsule, tmp_path / "c", change)
    report = there.take(file)
    assert any("authorized_keys" in one.why for one in report.omitted)
    assert not (there.home / ".ssh").exists()
    assert all(one.startswith("quarterdeck/") for one in files_below(there.home))


def test_what_is_no_file(there: Machine, tmp_path: Path):
    with pytest.raises(CapsuleError, match="cannot open"):
        there.take(tmp_path / "missing")
