"""Commands that deserve a person's eye each time.

``never_standing`` names those for which no "always" is offered. ``runs_programs`` finds options
that make a harmless program run another: a rule with an open end does not cover them unless it
names the option itself.
"""

import re

from .line import Command
from .wrappers import INTERPRETERS, SHELLS

__all__ = ["leading_words", "never_standing", "runs_programs"]

_DANGEROUS = frozenset(
    (
        *("rm", "rmdir", "unlink", "shred", "dd", "mkfs", "fdisk", "parted", "wipefs", "truncate"),
        *(
            "sudo",
            "doas",
            "su",
            "pkexec",
            "runuser",
            "chown",
            "chmod",
            "chgrp",
            "chattr",
            "setfacl",
        ),
        *("kill", "pkill", "killall", "shutdown", "reboot", "halt", "poweroff", "systemctl"),
        *("launchctl", "crontab", "at", "mount", "umount", "iptables", "nft", "eval", "source"),
        *(".", "exec", "trap", "passwd", "useradd", "usermod", "visudo", "nc", "ncat", "netcat"),
        *("socat", "telnet", "security", "gpg", "ssh-keygen", "ssh-add", "history", "alias"),
    )
)
_DANGEROUS_FORMS = (
    ("git", "push", "--force"),
    ("git", "push", "-f"),
    ("git", "push", "--force-with-lease"),
    ("git", "push", "--delete"),
    ("git", "push", "-d"),
    ("git", "push", "--mirror"),
    ("git", "push", "--prune"),
    ("git", "reset", "--hard"),
    ("git", "clean"),
    ("git", "filter-branch"),
    ("git", "filter-repo"),
    ("git", "config"),
    ("git", "gc"),
    ("git", "prune"),
    ("git", "update-ref"),
    ("git", "checkout", "--"),
    ("git", "checkout", "."),
    ("git", "checkout", "-f"),
    ("git", "restore"),
    ("git", "branch", "-D"),
    ("git", "branch", "-d"),
    ("git", "branch", "--delete"),
    ("git", "tag", "-d"),
    ("git", "stash", "drop"),
    ("git", "stash", "clear"),
    ("git", "worktree", "remove"),
    ("git", "submodule", "foreach"),
    ("npm", "publish"),
    ("npm", "unpublish"),
    ("pnpm", "publish"),
    ("yarn", "publish"),
    ("cargo", "publish"),
    ("twine", "upload"),
    ("gh", "auth"),
    ("gh", "repo", "delete"),
    ("gh", "release", "delete"),
    ("docker", "system", "prune"),
    ("kubectl", "delete"),
    ("terraform", "apply"),
    ("terraform", "destroy"),
    ("find", "-delete"),
    ("find", "-fprint"),
    ("find", "-fprintf"),
    ("find", "-fls"),
)
"""The first word, then others anywhere after it in this order."""

_EXACT_ONLY = frozenset(
    (
        *("curl", "wget", "scp", "rsync", "ssh", "sed", "tar", "zip", "unzip", "xargs", "env"),
        *("find", "npx", "uvx", "pipx", "mv", "cp", "ln", "install", "tee", "patch", "kubectl"),
        *("docker", "podman", "aws", "gcloud", "az", "gh", "terraform", "psql", "mysql", "sqlite3"),
        *("sort", "sftp", "ftp", "vim", "vi", "emacs", "nano", "less", "more", "man", "make"),
    )
)
_GIT_EXACT_ONLY = frozenset(
    ("push", "pull", "reset", "checkout", "rebase", "branch", "stash", "tag", "remote", "merge")
)

_MANY_THINGS = frozenset(
    (
        *("git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "uv", "pip", "pip3", "poetry"),
        *("brew", "apt", "apt-get", "dotnet", "gradle", "mvn", "rustup", "deno", "swift", "mix"),
        *("bundle", "rails", "hatch", "pdm", "nix", "helm", "just", "task", "composer", "flutter"),
    )
)
"""Programs that do many things; the second word says which."""

_PROGRAM_OPTIONS: dict[str, re.Pattern[str]] = {
    "git": re.compile(
        r"-c|--config-env.*|--exec-path=.*|--git-dir.*|--work-tree.*|-C|--ext-diff|--textconv"
        r"|--upload-pack.*|--receive-pack.*|--exec(=.*)?|-x.*|--open-files-in-pager.*|-O.*"
        r"|--extcmd.*|--output(=.*)?|ext::.*|--config(=.*)?|--template(=.*)?"
    ),
    "tar": re.compile(r"--checkpoint-action.*|--to-command.*|-I.*|--use-compress.*|--rsh-command.*"
                      r"|-F.*|--info-script.*|--new-volume-script.*"),
    "find": re.compile(r"-fprint.*|-fls|-files0-from"),
    "rg": re.compile(r"--pre(=.*)?|--hostname-bin.*"),
    "sort": re.compile(r"--compress-program.*|-o.*|--output.*"),
    "rsync": re.compile(r"-e.*|--rsh.*|--rsync-path.*|-[a-zA-Z]*e"),
    "ssh": re.compile(r"-o.*|-F.*"),
    "scp": re.compile(r"-o.*|-S.*|-F.*"),
    "curl": re.compile(r"-o.*|--output.*|-O|--remote-name.*|-K.*|--config.*|-T.*|--upload-file.*"),
    "wget": re.compile(r"--use-askpass.*|-e.*|--execute.*|-O.*|--post-file.*|--config.*"),
    "npm": re.compile(r"--script-shell.*|--node-options.*|--prefix.*"),
    "cargo": re.compile(r"--config.*"),
    "go": re.compile(r"-exec.*|-toolexec.*|--toolexec.*"),
    "make": re.compile(r"-C.*|-f.*|--file.*|--directory.*|--eval.*|-E.*|SHELL=.*"),
    "man": re.compile(r"-P.*|--pager.*|-H.*"),
    "zip": re.compile(r"-T.*|-TT.*|--unzip-command.*"),
    "vim": re.compile(r"-c.*|\+.*|--cmd.*"),
    "docker": re.compile(r"-v.*|--volume.*|--privileged.*|--mount.*|-H.*|--host.*"),
}  # fmt: skip
"""Options that run programs or write files that the command's name does not let expect."""


def never_standing(command: Command) -> str | None:
    """Say why no standing permission is offered for a command; None when one may be."""
    name = command.name
    if name is None:
        return "which program runs is not certain"
    if name in _DANGEROUS or name.startswith("mkfs."):
        return f"{name!r} can do lasting harm"
    words = [word.exact for word in command.words[1:]]
    for first, *rest in _DANGEROUS_FORMS:
        if name == first and _in_order(rest, words):
            return f"'{' '.join((first, *rest))}' can do lasting harm"
    if name == "git" and "push" in words and any((w or "").startswith("+") for w in words):
        return "a push with '+' can do lasting harm"
    if name in SHELLS or command.wrapping == "opaque":
        return f"what {name!r} runs is not certain"
    inline = name in INTERPRETERS or name.startswith("python")
    if inline and any(w in ("-c", "-e", "-p", "-r", "--eval", "-i", "-") for w in words):
        return f"{name!r} is given a program to run"
    if inline and not words:
        return f"{name!r} runs what it reads"
    return None


def leading_words(command: Command) -> int:
    """Return how many first words say what a command is, so that others may follow; 0: none."""
    name = command.name or ""
    words = [word.exact for word in command.words]
    if name in SHELLS or name in _EXACT_ONLY or command.wrapping != "none":
        return 0
    if name == "git" and (len(words) < 2 or words[1] in _GIT_EXACT_ONLY):
        return 0
    if name in INTERPRETERS or name.startswith("python"):
        count = 3 if words[1:2] == ["-m"] else 2
    else:
        count = 2 if name in _MANY_THINGS else 1
        if count == 2 and words[1:2] in (["run"], ["run-script"], ["compose"]):
            count = 3
    leading = words[:count]
    known = len(leading) == count and None not in leading
    plain = known and all(not (word or "").startswith("-") or word == "-m" for word in leading)
    return count if plain else 0


def runs_programs(command: Command, named: int) -> str | None:
    """Return a word beyond the first ``named`` that can make the program run or write others.

    A word that is not known may be such an option, unless it is the text of a message.
    """
    pattern = _PROGRAM_OPTIONS.get(command.name or "")
    if pattern is None:
        return None
    for before, word in zip(command.words[named - 1 :], command.words[named:], strict=False):
        if word.value is None:
            if not (word.raw.startswith('"') and before.exact in ("-m", "--message", "-am")):
                return word.raw
        elif pattern.fullmatch(word.value):
            return word.value
    return None


def _in_order(wanted: list[str], words: list[str | None]) -> bool:
    rest = iter(words)
    return all(any(word == want or _clustered(want, word) for word in rest) for want in wanted)


def _clustered(want: str, word: str | None) -> bool:
    """Say whether a one-letter option is among others: ``-f`` in ``-uf``."""
    if word is None or len(want) != 2 or want[0] != "-" or want[1] == "-":
        return False
    return word.startswith("-") and not word.startswith("--") and want[1] in word
