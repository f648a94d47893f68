import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.config.errors import UnreadableConfigError
from quarterdeck.config.loader import LARGEST, read_toml


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_a_missing_file_is_none(path: Path):
    assert read_toml(path) is None
    path.write_text("")
    assert read_toml(path / "below") is None


def test_values_are_read_with_or_without_a_mark_of_byte_order(path: Path):
    path.write_bytes(b'\xef\xbb\xbfmodel = "a/b"\n')
    assert read_toml(path) == {"model": "a/b"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a = 1\nb = = 2\n", "line 2, column 5"),
        (b"a = 1\nb = [1,\n", "line 3, column 1"),
        (b"a = 1\n[t", "line 2"),
        (b"a = 1\nb = '\xff'\n", "not UTF-8 in line 2"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * (LARGEST + 1), "larger than"),
    ],
)
def test_a_broken_text_names_file_and_place(path: Path, data: bytes, reason: str):
    path.write_bytes(data)
    with pytest.raises(UnreadableConfigError) as error:
        read_toml(path)
    assert str(path) in str(error.value)
    assert reason in str(error.value)


def test_a_directory_is_refused(path: Path):
    path.mkdir()
    with pytest.raises(UnreadableConfigError, match="not a file"):
        read_toml(path)


def test_a_pipe_and_a_device_are_refused_without_waiting(path: Path):
    os.mkfifo(path)
    with pytest.raises(UnreadableConfigError, match="not a file"):
        read_toml(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(UnreadableConfigError, match="not a file"):
        read_toml(path)


def test_a_loop_of_links_is_an_error_that_names_the_file(path: Path):
    path.symlink_to(path)
    with pytest.raises(UnreadableConfigError, match=r"config\.toml: cannot be read"):
        read_toml(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(path: Path):
    path.write_text("")
    path.chmod(0)
    with pytest.raises(UnreadableConfigError, match="Permission denied"):
        read_toml(path)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200) | st.text(alphabet="[]{}=\"'.\n#a1", max_size=60).map(str.encode))
def test_any_bytes_are_a_table_or_our_error(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(data)
    try:
        assert isinstance(read_toml(path), dict)
    except UnreadableConfigError as error:
        assert "fuzz.toml" in str(error)
