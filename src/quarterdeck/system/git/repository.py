"""A person's repository, found and read without letting git read its settings.

What git would find is found here: the nearest ``.git`` going up, a directory or a file that names
one, with the common directory of linked work trees. Bare repositories do not count, and neither do
``core.worktree`` and the owner: the work tree is where ``.git`` is, and nothing in it is run.

``ask`` runs git with a new private git directory that has the repository's HEAD, refs, index and
lists of ignored files, and settings of ours; ``change`` too, for what writes references, objects
or an index. Of the repository's own settings only those pass that
say how files are compared, each checked against what it may be. A repository that is not
understood whole (settings that git cannot read, unknown extensions, odd files) raises
``GitUnsafeError``. Everything here blocks.
"""
# Names may be no text, and are joined as they are.
# ruff: noqa: PTH113, PTH114, PTH115, PTH116, PTH118, PTH120

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from quarterdeck.system.errors import (
    GitError,
    GitUnavailableError,
    GitUnsafeError,
    NotARepositoryError,
)
from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.system.git.command import GitIdentity, GitOutput, GitPlaces, run_git

__all__ = [
    "GitRepository",
    "ask_git",
    "copy_whole",
    "expect_repository",
    "find_common_directory",
    "find_identity",
    "find_repository",
    "list_remotes",
    "read_whole",
]

_MOST_SETTINGS = 1_000_000
_MOST_LIST = 10_000_000
_MOST_INDEX = 2_000_000_000
_MOST_SHARED = 64
_SECONDS = 10.0
_KEPT_FOR = 30.0
"""Seconds for which the person's own settings are remembered."""
_BOOLEAN = re.compile(r"(?i:true|false|yes|no|on|off|1|0|)\Z")
_PASSED = {
    **dict.fromkeys(("core.filemode", "core.ignorecase", "core.precomposeunicode"), _BOOLEAN),
    **dict.fromkeys(("core.symlinks", "core.trustctime", "core.sparsecheckout"), _BOOLEAN),
    **dict.fromkeys(("core.sparsecheckoutcone", "index.sparse"), _BOOLEAN),
    "core.autocrlf": re.compile(r"(?i:true|false|yes|no|on|off|1|0||input)\Z"),
    "core.eol": re.compile(r"(?i:lf|crlf|native)\Z"),
    "core.checkstat": re.compile(r"(?i:default|minimal)\Z"),
}
"""Settings that say how files are compared, and what each may be."""
_FILES = ("core.excludesfile", "core.attributesfile")
"""Settings that name a list, which is only read."""
_EXTENSIONS = frozenset(
    {
        *("noop", "preciousobjects", "partialclone", "worktreeconfig", "objectformat"),
        *("refstorage", "relativeworktrees"),
    }
)
_HEAD = re.compile(r"(?:ref: refs/[^\0-\x20\x7f~^:?*\[\\]+|[0-9a-f]{40}|[0-9a-f]{64})\Z")


class GitRepository(Struct, frozen=True, kw_only=True):
    """A work tree and where git keeps what it knows of it; paths are real."""

    top: str
    git_dir: str
    common_dir: str
    head: str
    """What HEAD says, in one line."""
    object_format: str = "sha1"
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """How files are compared: names in small letters, checked values."""
    attributes: bytes | None = None
    """A list of attributes in place of the repository's own, which outranks ``.gitattributes``."""
    has_worktree_settings: bool = False
    """Worktrees of it have settings of their own, in ``config.worktree``."""

    @property
    def index(self) -> str:
        """The file that lists what is tracked."""
        return f"{self.git_dir}/index"

    @property
    def objects(self) -> str:
        """The directory of all contents."""
        return f"{self.common_dir}/objects"

    @property
    def branch(self) -> str:
        """The branch that is checked out; else the beginning of the commit's name."""
        return self.head[5:].removeprefix("refs/heads/") if self.is_on_branch else self.head[:7]

    @property
    def is_on_branch(self) -> bool:
        """Whether HEAD names a branch, which may have no commit yet."""
        return self.head.startswith("ref: ")

    @property
    def config(self) -> str:
        """A file of settings that lets git read this repository's objects."""
        if self.object_format == "sha1":
            return "[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n"
        return (
            "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n"
            f"[extensions]\n\tobjectFormat = {self.object_format}\n"
        )

    def shared_indexes(self) -> list[Path]:
        """Files that an index in two parts needs."""
        with suppress(OSError):
            return sorted(Path(self.git_dir).glob("sharedindex.*"))[:_MOST_SHARED]
        return []

    def ask(
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        index: str | None = None,
        given: bytes = b"",
        most: int | None = None,
        seconds: float = 20.0,
        literal: bool = False,
        accepted: Sequence[int] = (0,),
    ) -> GitOutput:
        """Run a command of git that reads; ``cwd`` is in the work tree. Raises GitError.

        ``index``: another than the repository's. ``accepted``: as for ``run_git``.
        """
        return self.change(
            words,
            cwd=cwd,
            index=index,
            given=given,
            most=most,
            seconds=seconds,
            literal=literal,
            accepted=accepted,
        )

    def change(
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        index: str | None = None,
        objects: str | None = None,
        alternates: Sequence[str] = (),
        identity: GitIdentity | None = None,
        settings: Sequence[str] = (),
        given: bytes = b"",
        most: int | None = None,
        seconds: float = 20.0,
        literal: bool = False,
        accepted: Sequence[int] = (0,),
    ) -> GitOutput:
        """Run a command of git that may write: references with their logs, objects, an index.

        It runs nothing that the repository names. Raises GitError.

        Args:
            words: the command and its arguments.
            cwd: where, in the work tree; None: its top.
            index: another than the repository's, which is then neither read nor written.
            objects: where new objects go, if not into the repository, whose objects are read too.
            alternates: where else objects are read from.
            identity: who commits; needed for whatever writes a commit or a log of references.
            settings: more of them, as ``name=value``.
            given: what git reads.
            most: bytes of its output; None: all of them.
            seconds: how long it may take.
            literal: names of files are no patterns.
            accepted: exit codes that are an answer.
        """
        _expect_plain(index or self.index, _MOST_INDEX)
        if index is None and os.path.islink(self.index):  # git writes where it leads
            raise _unsafe(self.index, "it is a symbolic link")
        others = (self.objects, *alternates) if objects is not None else tuple(alternates)
        with self._view() as view:
            places = GitPlaces(
                git_dir=view,
                work_tree=self.top,
                index=index or self.index,
                objects=objects or self.objects,
                alternates=others,
                identity=identity,
                cwd=cwd or self.top,
            )
            passed = [f"{name}={value}" for name, value in self.settings.items()]
            return run_git(
                places,
                words,
                settings=(*passed, *settings),
                given=given,
                most=most,
                seconds=seconds,
                literal=literal,
                accepted=accepted,
            )

    @contextmanager
    def _view(self) -> Generator[str, None, None]:
        """A git directory of ours, for one command."""
        try:
            view = tempfile.mkdtemp(prefix="quarterdeck-git-")
        except OSError as error:
            raise GitError(f"cannot create a temporary directory: {error}") from error
        try:
            self._fill(Path(view))
            yield view
        except OSError as error:
            raise GitError(f"{self.git_dir!r} cannot be read: {error}") from error
        finally:
            shutil.rmtree(view, ignore_errors=True)

    def _fill(self, view: Path) -> None:
        (view / "info").mkdir()
        (view / "config").write_text(self.config)
        (view / "HEAD").write_text(f"{self.head}\n", "utf-8", "surrogateescape")
        (view / "refs").symlink_to(f"{self.common_dir}/refs")
        (view / "logs").mkdir()
        logs = Path(self.common_dir, "logs", "refs")
        if logs.is_dir():
            (view / "logs" / "refs").symlink_to(logs)
        for name in ("packed-refs", "shallow"):
            theirs = f"{self.common_dir}/{name}"
            if _expect_plain(theirs, _MOST_INDEX):
                (view / name).symlink_to(theirs)
        lists = {
            "exclude": self.common_dir,
            "attributes": self.common_dir,
            "sparse-checkout": self.git_dir,
        }
        for name, place in lists.items():
            data = read_whole(f"{place}/info/{name}", _MOST_LIST)
            if data:
                (view / "info" / name).write_bytes(data)
        if self.attributes is not None:
            (view / "info" / "attributes").write_bytes(self.attributes)
        for shared in self.shared_indexes():
            if _expect_plain(str(shared), _MOST_INDEX):
                (view / shared.name).symlink_to(shared)


def find_repository(directory: str) -> GitRepository | None:
    """The repository whose work tree holds a directory; None where there is none.

    Raises:
        GitUnsafeError: there is one, but it is not understood whole.
        GitError: git cannot be run.
    """
    start = os.path.realpath(directory)
    try:
        device = os.stat(start).st_dev
        for place in (Path(start), *Path(start).parents):
            if place.stat().st_dev != device:  # as git: another file system is another world
                return None
            found = _git_directory(str(place / ".git"))
            if found is not None:
                return _read_repository(str(place), *found)
    except OSError as error:
        raise GitError(f"cannot search for a repository in {directory!r}: {error}") from error
    return None


def expect_repository(directory: str) -> GitRepository:
    """As ``find_repository``; raises NotARepositoryError where there is none."""
    repository = find_repository(directory)
    if repository is None:
        raise NotARepositoryError(directory)
    return repository


def find_common_directory(top: str) -> str | None:
    """The git directory that all worktrees share with the one at ``top``; None: it is none.

    Raises GitUnsafeError.
    """
    found = _git_directory(f"{os.path.realpath(top)}/.git")
    return found[1] if found is not None else None


def ask_git(
    directory: str, words: Sequence[str], *, most: int = 4_000_000, seconds: float = 20.0
) -> GitOutput:
    """Run a command that reads in the repository around a directory. Raises GitError."""
    cwd = os.path.realpath(directory)
    return expect_repository(cwd).ask(words, cwd=cwd, most=most, seconds=seconds)


def find_identity(repository: GitRepository) -> GitIdentity:
    """Who commits in a repository, by the person's settings and the repository's; blocks.

    Without any it is this program.
    """
    theirs = _settings_in(f"{repository.common_dir}/config", repository.top)
    settings = _own_settings(repository.top) | theirs
    name, email = (_in_one_line(settings.get(f"user.{part}", "")) for part in ("name", "email"))
    return GitIdentity(name=name or "Quarterdeck", email=email or "quarterdeck@localhost")


def list_remotes(repository: GitRepository) -> dict[str, str]:
    """The remotes of a repository and their addresses, by its own settings alone; blocks.

    Addresses are as they are written, and may have a password in them: do not show them.

    Raises:
        GitUnsafeError, GitUnavailableError: the settings cannot be read.
    """
    settings = _settings_in(f"{repository.common_dir}/config", repository.top)
    begin, end = "remote.", ".url"
    return {
        name[len(begin) : -len(end)]: value
        for name, value in settings.items()
        if name.startswith(begin) and name.endswith(end) and len(name) > len(begin) + len(end)
    }


def _in_one_line(text: str) -> str:
    """Without what ends a name in a commit."""
    return " ".join(text.translate(dict.fromkeys(map(ord, "<>\n\r\0"), " ")).split())


def read_whole(path: str, most: int) -> bytes | None:
    """What is in a regular file of a repository; None if it is not there. A link to one counts.

    Raises:
        GitUnsafeError: it is no regular file, too large, or cannot be read.
    """
    try:
        data = read_regular_file(path, most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unsafe(path, str(error.strerror or error).lower()) from error
    if len(data) > most:
        raise _unsafe(path, f"it has more than {most:,} bytes")
    return data


def copy_whole(source: str, target: Path) -> bool:
    """Copy a regular file for our eyes alone; False if it is not there. Raises as reading one."""
    data = read_whole(source, _MOST_INDEX)
    if data is None:
        return False
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    status = os.stat(source)
    # Git compares times of files with that of the index.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _expect_plain(path: str, most: int) -> bool:
    """Whether there is a regular file; raises GitUnsafeError if there is something else."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unsafe(path, str(error.strerror or error).lower()) from error
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe(path, "it is not a regular file")
    if status.st_size > most:
        raise _unsafe(path, f"it has more than {most:,} bytes")
    return True


def _unsafe(path: str, problem: str) -> GitUnsafeError:
    return GitUnsafeError(
        f"git was not run, because {path!r} is not safe to read: {problem}. Check that `git "
        "status` works there, and fix the file."
    )


def _git_directory(path: str) -> tuple[str, str] | None:
    """The git directory and the common one that a ``.git`` leads to; None if to none."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode):
        link = read_whole(path, 100_000) or b""
        if not link.startswith(b"gitdir: "):
            return None
        named = os.fsdecode(link[8:].rstrip(b"\r\n"))
        path = os.path.join(os.path.dirname(path), named)
    git_dir = os.path.realpath(path)
    common = read_whole(f"{git_dir}/commondir", 100_000)
    named = os.fsdecode(common.rstrip(b"\r\n")) if common else "."
    common_dir = os.path.realpath(os.path.join(git_dir, named))
    parts = (f"{common_dir}/objects/.", f"{common_dir}/refs/.")
    has_head = os.path.lexists(f"{git_dir}/HEAD")
    is_whole = has_head and all(os.access(part, os.X_OK) for part in parts)
    return (git_dir, common_dir) if is_whole else None


def _read_repository(top: str, git_dir: str, common_dir: str) -> GitRepository:
    theirs = _settings_in(f"{common_dir}/config", top)
    object_format = _check_format(f"{common_dir}/config", theirs)
    extended = theirs.get("extensions.worktreeconfig", "false").lower()
    if has_own := extended not in ("false", "no", "off", "0"):
        theirs = theirs | _settings_in(f"{git_dir}/config.worktree", top)
    own = _own_settings(top)
    return GitRepository(
        top=top,
        git_dir=git_dir,
        common_dir=common_dir,
        head=_head(git_dir),
        object_format=object_format,
        settings=_passed(own | theirs),
        has_worktree_settings=has_own,
    )


def _check_format(path: str, settings: Mapping[str, str]) -> str:
    """How objects are named. Raises GitUnsafeError for a repository that we do not understand."""
    version = settings.get("core.repositoryformatversion", "0")
    if version not in ("0", "1"):
        raise _unsafe(path, f"unknown format version {version!r}")
    for name, value in settings.items():
        if name.startswith("extensions.") and name.partition(".")[2] not in _EXTENSIONS:
            raise _unsafe(path, f"unknown extension {name!r}")
        if name == "extensions.refstorage" and value != "files":
            raise _unsafe(path, f"references are stored as {value!r}, which is not supported")
    object_format = settings.get("extensions.objectformat", "sha1")
    if object_format not in ("sha1", "sha256"):
        raise _unsafe(path, f"unknown object format {object_format!r}")
    return object_format


def _head(git_dir: str) -> str:
    path = f"{git_dir}/HEAD"
    if os.path.islink(path):  # as old versions of git wrote it
        head = f"ref: {os.readlink(path)}"
    else:
        head = os.fsdecode(read_whole(path, 10_000) or b"").strip()
    if not _HEAD.match(head) or ".." in head:
        raise _unsafe(path, "it names no branch and no commit")
    return head


_known: dict[bytes, dict[str, str]] = {}
_own: dict[tuple[str, ...], tuple[float, dict[str, str]]] = {}
_MOST_KNOWN = 50


def _settings_in(path: str, project: str) -> dict[str, str]:
    """The settings in one file, as git reads them, without those that it includes."""
    data = read_whole(path, _MOST_SETTINGS)
    if data is None:
        return {}
    if data in _known:
        return _known[data]
    words = ("config", "--file", "-", "--null", "--list")
    try:
        output = _run_on_nothing(words, project, given=data)
    except GitUnavailableError:
        raise
    except GitError as error:
        raise _unsafe(path, str(error)) from error
    settings = _pairs(output)
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[data] = settings
    return settings


def _own_settings(project: str) -> dict[str, str]:
    """The person's and the machine's settings, which they trust: also what is included there."""
    names = ("HOME", "XDG_CONFIG_HOME", "PATH")
    key = tuple(os.environ.get(name, "") for name in names)
    known = _own.get(key)
    if known is not None and time.monotonic() - known[0] < _KEPT_FOR:
        return known[1]
    words = ("config", "--includes", "--null", "--list")
    settings = _pairs(_run_on_nothing(words, project, reads_own_settings=True))
    ignored = _default_list("ignore")
    if ignored is not None:
        settings.setdefault("core.excludesfile", ignored)
    attributes = _default_list("attributes")
    if attributes is not None:
        settings.setdefault("core.attributesfile", attributes)
    _own.clear()
    _own[key] = (time.monotonic(), settings)
    return settings


def _run_on_nothing(
    words: Sequence[str], project: str, *, given: bytes = b"", reads_own_settings: bool = False
) -> bytes:
    """Run git where there is no repository at all."""
    nowhere = tempfile.mkdtemp(prefix="quarterdeck-git-")
    try:
        places = GitPlaces(git_dir=nowhere, project=project)
        return run_git(
            places,
            words,
            given=given,
            seconds=_SECONDS,
            most=_MOST_LIST,
            reads_own_settings=reads_own_settings,
        ).data
    finally:
        shutil.rmtree(nowhere, ignore_errors=True)


def _default_list(name: str) -> str | None:
    """Where a person's list is, if they do not say."""
    above = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '')}/.config"
    path = f"{above}/git/{name}"
    return path if above.startswith(os.sep) and os.path.isfile(path) else None


def _pairs(output: bytes) -> dict[str, str]:
    """The last value of each setting; names of sections and variables in small letters."""
    found: dict[str, str] = {}
    for entry in output.split(b"\0"):
        name, has_value, value = os.fsdecode(entry).partition("\n")
        if name:
            found[name] = value if has_value else "true"
    return found


def _passed(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that may have a say in how files are compared."""
    found = {
        name: value
        for name, value in settings.items()
        if name in _PASSED and _PASSED[name].match(value)
    }
    for name in _FILES:
        path = settings.get(name, "")
        if path.startswith("~/"):
            path = os.environ.get("HOME", "") + path[1:]
        if path.startswith(os.sep) and os.path.isfile(path):
            found[name] = path
    return found
