"""Pull requests: a branch is pushed and a request opened by the person's own git, ``gh`` or
``glab``, with the person's settings and credentials.

Nothing here runs unless a person asks for it, and it runs in the person's own process, not in the
host. No program inside the repository is used, but git runs what the repository's own settings
name, such as hooks and ``core.sshCommand``: so the project must be trusted.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct

from quarterdeck.config.trust import TrustStore
from quarterdeck.config.workspace import find_workspace
from quarterdeck.system.api import CommandSpec, EndingDeadlines
from quarterdeck.system.environment import find_own_program
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.repository import expect_repository, list_remotes
from quarterdeck.system.output import OutputRing, Utf8Decoder
from quarterdeck.system.process import spawn
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import LinkError

from ..errors import FleetError
from .api import PullRequestDraft

__all__ = [
    "OpenedPullRequest",
    "PullRequestError",
    "check_pull_request",
    "open_pull_request",
    "run_own_program",
]

_SECONDS = 120.0
_OUTPUT = 8_000
_NO_PROGRAM = "neither gh nor glab is on PATH outside the project; install one of them and log in"
_URL = re.compile(r"https?://\S+")
_NO_PROMPT = {"GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1", "NO_COLOR": "1"}


class PullRequestError(FleetError):
    """A pull request could not be opened; the message has the program's own words."""


class OpenedPullRequest(Struct, frozen=True, kw_only=True):
    """A pull request."""

    url: str
    """Empty: the program did not print one."""
    remote: str
    branch: str
    program: str


async def open_pull_request(
    draft: PullRequestDraft,
    trust: TrustStore | None,
    *,
    remote: str | None = None,
    seconds: float = _SECONDS,
) -> OpenedPullRequest:
    """Push a branch and open a pull request for it, or find the one that is open already.

    ``trust``: says whether the project is trusted; None: the repository is ours.

    Raises:
        PullRequestError: the project is not trusted, a program is missing or failed, or the remote
            is not clear.
        UnusableTrustError, NewerVersionError: the list of trusted directories cannot be read.
    """
    if trust is not None:
        await asyncio.to_thread(_check_trust, Path(draft.repository), trust)
    tools = _Tools(draft.repository, seconds)
    remote = await tools.choose_remote(remote)
    url = (await tools.git("remote", "get-url", remote)).strip()
    name = await tools.choose_program(url)
    await tools.git("push", "--porcelain", remote, f"{draft.commit}:refs/heads/{draft.branch}")
    try:
        output = await tools.run(name, _words(name, draft), given=draft.body)
        found = _URL.search(output)
        opened = found[0] if found is not None else ""
    except PullRequestError:
        if not (opened := await tools.find_open(name, draft)):
            raise
    return OpenedPullRequest(url=opened, remote=remote, branch=draft.branch, program=name)


def check_pull_request(directory: str, remote: str | None = None) -> None:
    """See whether a pull request could be opened from here; blocks, and runs nothing of a project.

    Whether the person is logged in shows when it is opened.

    Raises:
        PullRequestError: there is no repository, no remote, or neither ``gh`` nor ``glab``.
    """
    try:
        repository = expect_repository(directory)
        known = list_remotes(repository)
    except GitError as error:
        raise PullRequestError(f"a pull request needs a git repository: {error}") from error
    chosen = _choose_remote(repository.top, list(known), remote)
    for name in _list_programs(known[chosen]):
        if find_own_program(name, [repository.top]) is not None:
            return
    raise PullRequestError(_NO_PROGRAM)


def _choose_remote(repository: str, listed: Sequence[str], wanted: str | None) -> str:
    known = [name for name in listed if not name.startswith("-")]  # it would be an option
    if wanted is not None:
        if wanted in known:
            return wanted
        raise PullRequestError(
            f"there is no remote {wanted!r} in {repository!r}; its remotes are: "
            f"{', '.join(known) or 'none'}"
        )
    if "origin" in known:
        return "origin"
    if len(known) != 1:
        raise PullRequestError(
            f"{repository!r} has no remote 'origin'; name one with --remote: "
            f"{', '.join(known) or 'it has none, add one with git remote add'}"
        )
    return known[0]


def _list_programs(url: str) -> tuple[str, ...]:
    """Which programs may do it, by the address of the remote."""
    return ("glab", "gh") if "gitlab" in url.lower() else ("gh", "glab")


def _check_trust(repository: Path, trust: TrustStore) -> None:
    project = find_workspace(repository).project
    if not trust.is_trusted(project):
        raise PullRequestError(
            f"{str(project)!r} is not trusted, and your own git runs the hooks and programs that "
            "its settings name; look at them, then trust it with `quarterdeck config trust "
            f"{shlex.quote(str(project))}`"
        )


def _words(name: str, draft: PullRequestDraft) -> tuple[str, ...]:
    if name == "gh":
        words = ("pr", "create", "--base", draft.base, "--head", draft.branch)
        return (*words, "--title", draft.title, "--body-file", "-")
    words = ("mr", "create", "--target-branch", draft.base, "--source-branch", draft.branch)
    return (*words, "--title", draft.title, "--description", draft.body, "--yes")


class _Tools:
    """The person's programs, in one repository."""

    def __init__(self, repository: str, seconds: float) -> None:
        self._repository = repository
        self._seconds = seconds

    async def choose_remote(self, wanted: str | None) -> str:
        listed = (await self.git("remote")).split()
        return _choose_remote(self._repository, listed, wanted)

    async def choose_program(self, url: str) -> str:
        """``gh`` or ``glab``, by the address of the remote and by what is installed."""
        for name in _list_programs(url):
            if await self._find(name) is not None:
                return name
        raise PullRequestError(_NO_PROGRAM)

    async def find_open(self, name: str, draft: PullRequestDraft) -> str:
        """The address of a pull request of this branch that is open already; empty: none is."""
        if name == "gh":
            words = ("pr", "list", "--state", "open", "--base", draft.base)
            words = (*words, "--head", draft.branch, "--json", "url")
        else:
            words = ("mr", "list", "--target-branch", draft.base)
            words = (*words, "--source-branch", draft.branch, "--output", "json")
        try:
            found = decode_json((await self.run(name, words)).encode(), list[dict[str, Any]])
        except (PullRequestError, DecodeError):
            return ""  # what failed before says more
        return next((str(one.get("url") or one.get("web_url") or "") for one in found), "")

    async def git(self, *words: str) -> str:
        return await self.run("git", words)

    async def _find(self, name: str) -> str | None:
        return await asyncio.to_thread(find_own_program, name, [self._repository])

    async def run(self, name: str, words: Sequence[str], *, given: str = "") -> str:
        return await run_own_program(
            name, words, cwd=self._repository, given=given, seconds=self._seconds
        )


async def run_own_program(
    name: str,
    words: Sequence[str],
    *,
    cwd: str,
    given: str = "",
    seconds: float = _SECONDS,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run git, gh or glab as the person would, with all of their settings; what it prints.

    Args:
        name: no program of this name in ``cwd`` counts.
        words: its arguments; no secret may be among them.
        cwd: whose settings git reads, so it must be trusted, or ours.
        given: what it reads.
        seconds: it is ended then, with all that it started.
        env: more variables.

    Raises:
        PullRequestError: it is not there, failed, or did not end; with its own words.
    """
    program = await asyncio.to_thread(find_own_program, name, [cwd])
    if program is None:
        raise PullRequestError(f"{name} is not on PATH outside the project; install it")
    spec = CommandSpec(
        argv=(program, *words),
        cwd=cwd,
        env={**_NO_PROMPT, **(env or {})},
        inherit=tuple(os.environ),
    )
    ring, code = OutputRing(tail=_OUTPUT), None
    async with await spawn(spec, merged=True) as process:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                with suppress(LinkError):  # it need not read what it is given
                    await process.send(given.encode("utf-8", "replace"))
                process.close_input()
                while data := await process.receive():
                    ring.write(data)
                code = (await process.wait()).code
        await process.end(EndingDeadlines(ask=0.0, terminate=2.0))
    output = Utf8Decoder().decode(ring.kept().at_characters().tail, final=True)
    if code != 0:
        how = f"exit code {code}" if code is not None else f"no end within {seconds:g} s"
        shown = f"{name} {' '.join(words[:2])}"
        raise PullRequestError(f"`{shown}` failed ({how}): {output.strip() or 'no output'}")
    return output
