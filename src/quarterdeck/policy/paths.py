"""Paths and path patterns, as text only: no disk is touched.

A pattern is read component by component: ``*`` and ``?`` stay within one, ``**`` matches any
number of them, a backslash takes the next character literally. ``/…`` is absolute, ``~/…`` begins
at the home directory, anything else at the project's root. A pattern that ends in ``/`` means the
directory and all below.

An allow rule compares exactly. A deny or ask rule is broad: it ignores case and the form of
accents, holds for all below a match, and a pattern of one name holds at any depth.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

__all__ = [
    "absolute",
    "fixed_part",
    "is_below",
    "is_protected",
    "matches",
    "matches_broadly",
    "may_match",
]

_PROTECTED_NAMES = frozenset(
    (
        # Version control: settings, hooks and filters name programs.
        *(".git", ".hg", ".svn", ".jj", ".bzr", ".gitmodules", ".gitattributes", ".gitconfig"),
        *(".husky", ".githooks", ".pre-commit-config.yaml", ".pre-commit-config.yml"),
        *("lefthook.yml", "lefthook.yaml", "lefthook-local.yml", ".lefthook.yml", ".lefthook"),
        *("lefthook.toml", "lefthook.json", ".lefthook-local.yml", ".overcommit.yml"),
        # Agents: settings name servers, hooks and what is allowed.
        *(".quarterdeck", ".claude", ".claude.json", ".codex", ".gemini", ".opencode"),
        *("opencode.json", "opencode.jsonc", ".cursor", ".qwen", ".kimi"),
        *(".goose", ".goosehints", ".kiro", ".crush", ".crush.json", "crush.json", ".mcp.json"),
        *("mcp.json", ".vibe", ".pi", ".aider.conf.yml", ".aider.conf.yaml", ".continue"),
        *(".windsurf", ".roo", ".roomodes", ".cline", ".amp"),
        *(".augment", ".trae", ".factory", ".droid", ".junie", ".copilot", ".agents", ".amazonq"),
        *(".openhands", ".swe-agent", ".rovodev", ".iflow", ".codebuddy"),
        # Editors: tasks, launch settings and language servers.
        *(".zed", ".idea", ".vscode", ".vscode-server", ".fleet", ".devcontainer"),
        *(".devcontainer.json", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el"),
        *(".emacs", ".emacs.d", ".editorconfig-checker.json", ".helix", ".lvimrc", "_vimrc"),
        # Tools that read a program's name, a shell or a registry from a file.
        *(".yarnrc", ".yarnrc.yml", ".npmrc", ".pnpmfile.cjs", ".pnpmfile.js", ".bunfig.toml"),
        *("bunfig.toml", "pip.conf", "pip.ini", ".pip", ".pypirc", ".condarc", ".gemrc"),
        *(".envrc", ".tool-versions", "mise.toml", ".mise.toml", ".mise", "mise.local.toml"),
        *(".rtx.toml", ".direnv", ".autoenv.zsh", ".env.zsh", ".lldbinit", ".gdbinit"),
        *(".curlrc", ".wgetrc", ".netrc", ".inputrc", ".screenrc", ".tmux.conf", ".dircolors"),
        *(".ripgreprc", ".ackrc", ".pdbrc", ".pdbrc.py", ".pythonrc", ".pythonrc.py", ".irbrc"),
        *(".pryrc", ".psqlrc", ".sqliterc", ".my.cnf", ".mylogin.cnf"),
        *(".azure", ".gcloud", ".terraformrc", "terraform.rc", ".ansible.cfg"),
        *("sitecustomize.py", "usercustomize.py", ".m2", ".sbtopts", ".jvmopts", ".mavenrc"),
        # Shells' start files.
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
        *(".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc"),
        *(".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".shrc", ".xonshrc", ".xprofile"),
        *(
            ".xinitrc",
            ".xsession",
            ".xsessionrc",
            "config.fish",
            "fish_variables",
            ".pam_environment",
        ),
        # Keys.
        *(".ssh", ".gnupg", ".password-store", "authorized_keys", ".aws-vault"),
    )
)
_PROTECTED_PAIRS = frozenset(
    (
        *((".cargo", "config"), (".cargo", "config.toml"), (".cargo", "credentials.toml")),
        *((".yarn", "releases"), (".yarn", "plugins"), (".yarn", "sdks"), (".yarn", "patches")),
        *(
            (".config", "fish"),
            (".config", "git"),
            (".config", "systemd"),
            (".config", "autostart"),
        ),
        *((".mvn", "jvm.config"), (".mvn", "maven.config"), (".mvn", "extensions.xml")),
        *((".mvn", "wrapper"), ("gradle", "wrapper"), (".gradle", "gradle.properties")),
        *((".config", "opencode"), (".config", "goose"), (".config", "crush"), (".config", "zed")),
        *((".local", "bin"), (".config", "mise"), (".config", "pip"), (".docker", "config.json")),
        *((".aws", "config"), (".aws", "credentials"), (".kube", "config")),
    )
)
"""Protected only where the second is in a directory of the first name."""
_PROTECTED_ENDINGS = (".pth", ".code-workspace")


def absolute(path: str, *, cwd: str, home: str = "") -> str:
    """Make ``path`` absolute and resolve ``.`` and ``..`` by text.

    ``~`` and ``~/…`` begin at ``home``; ``~name`` cannot be known and becomes a path that is in
    no workspace.
    """
    if path == "~" or path.startswith("~/"):
        path = (home or "/~") + path[1:]
    elif path.startswith("~"):
        path = "/" + path
    joined = posixpath.normpath(posixpath.join(cwd or "/", path))
    # POSIX keeps two leading slashes apart; no system that we run on does.
    return "/" + joined.lstrip("/")


def is_below(path: str, roots: Iterable[str]) -> bool:
    """Say whether an absolute path is one of ``roots`` or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def is_protected(path: str) -> bool:
    """Say whether writing there changes what programs run later: ``.git``, agents' settings…

    No mode writes there without asking. Case, accents' form, and dots or spaces at the end of a
    name do not matter: some file systems ignore them.
    """
    parts = [_file_name(part) for part in path.split("/")]
    if any(part in _PROTECTED_NAMES or part.endswith(_PROTECTED_ENDINGS) for part in parts):
        return True
    return any(pair in _PROTECTED_PAIRS for pair in pairwise(parts))


def _file_name(part: str) -> str:
    """Return a name as file systems that ignore case and endings take it."""
    if not part.isascii():
        # HFS+ ignores characters that are not seen.
        part = "".join(sign for sign in part if unicodedata.category(sign) != "Cf")
        part = unicodedata.normalize("NFKC", part)
    # "name::$DATA" and "name:stream" are the file itself on NTFS.
    return part.partition(":")[0].rstrip(". ").casefold()


def matches(pattern: str, path: str, *, root: str, home: str) -> bool:
    """Say whether a pattern holds for an absolute path, exactly; what an allow rule needs."""
    return _exact(pattern, root, home).fullmatch(path) is not None


def matches_broadly(pattern: str, path: str, *, root: str, home: str) -> bool:
    """Say whether a pattern may be meant for an absolute path; what a deny rule needs."""
    folded = _folded(path)
    return any(form.fullmatch(folded) for form in _broad(pattern, root, home))


def may_match(pattern: str, shell_glob: str, *, root: str, home: str, whole: bool = False) -> bool:
    """Say whether an absolute pattern of a shell may name what a deny rule's pattern means.

    ``[…]`` counts as any character. As in a shell, a sign at the beginning of a name does not
    stand for a dot. With ``whole`` all below what it names counts, too.
    """
    names = [part for part in _folded(shell_glob).split("/") if part]
    forms = [pattern] if "/" in pattern.rstrip("/") else [pattern, "**/" + pattern]
    anchored = (_folded(_anchored(form, root, home)) for form in forms)
    wanted = ([part for part in form.split("/") if part] for form in anchored)
    return any(_meet(tuple(names), tuple(parts), whole) for parts in wanted)


def _meet(names: tuple[str, ...], wanted: tuple[str, ...], whole: bool) -> bool:
    """Say whether a path may match both lists of names; each pair of places is tried once."""
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        at, by = todo.pop()
        if by == len(wanted):
            return True
        if at == len(names):
            if whole or all(part == "**" for part in wanted[by:]):
                return True
            continue
        if "**" in (names[at], wanted[by]):
            steps = ((at + 1, by), (at, by + 1))
        else:
            steps = ((at + 1, by + 1),) if _names_meet(names[at], wanted[by]) else ()
        new = [place for place in steps if place not in reached]
        reached.update(new)
        todo.extend(new)
    return False


@lru_cache(maxsize=4096)
def _names_meet(given: str, wanted: str) -> bool:
    """Say whether two patterns of one name each have a name in common."""
    ours, theirs = _signs(given, brackets=True), _signs(wanted, brackets=False)
    if ours[:1] in (["*"], ["?"]) and theirs[:1] == ["."]:
        return False
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        at, by = todo.pop()
        if at == len(ours) and by == len(theirs):
            return True
        for step in _steps(ours[at : at + 1], theirs[by : by + 1]):
            place = (at + step[0], by + step[1])
            if place not in reached and place[0] <= len(ours) and place[1] <= len(theirs):
                reached.add(place)
                todo.append(place)
    return False


def _steps(one: list[str], other: list[str]) -> Iterable[tuple[int, int]]:
    if one == ["*"]:
        yield from ((1, 0), (0, 1))
    if other == ["*"]:
        yield from ((0, 1), (1, 0))
    both = one and other and "*" not in (one[0], other[0])
    if both and (one == other or "?" in (one[0], other[0])):
        yield (1, 1)


def _signs(name: str, *, brackets: bool) -> list[str]:
    """Split a pattern of one name into ``*``, ``?`` and characters; these never equal a sign."""
    if brackets:
        name = re.sub(r"\[[!^]?\]?[^\]]*\]", "?", name)
    found: list[str] = []
    signs = iter(name)
    for sign in signs:
        literal = sign == "\\"
        sign = next(signs, sign) if literal else sign
        found.append("\\" + sign if literal and sign in "*?" else sign)
    return found


@lru_cache(maxsize=1024)
def fixed_part(pattern: str, *, root: str, home: str) -> str:
    """Return the directory or file below which all matches of a pattern are."""
    fixed: list[str] = []
    for part in _anchored(pattern, root, home).split("/"):
        if any(sign in part for sign in "*?\\"):
            break
        fixed.append(part)
    return "/".join(fixed) or "/"


@lru_cache(maxsize=1024)
def _exact(pattern: str, root: str, home: str) -> re.Pattern[str]:
    return _compiled(_anchored(pattern, root, home))


@lru_cache(maxsize=1024)
def _broad(pattern: str, root: str, home: str) -> tuple[re.Pattern[str], ...]:
    forms = [pattern] if "/" in pattern.rstrip("/") else [pattern, "**/" + pattern]
    anchored = [_folded(_anchored(form, root, home)) for form in forms]
    return tuple(_compiled(form, below=True) for form in anchored)


def _anchored(pattern: str, root: str, home: str) -> str:
    if pattern.endswith("/") and pattern != "/":
        pattern += "**"
    if pattern.startswith("/"):
        base, rest = "", pattern[1:]
    elif pattern == "~" or pattern.startswith("~/"):
        base, rest = _literal(home or "/~"), pattern[2:]
    else:
        base, rest = _literal(root), pattern
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    return base.rstrip("/") + "/" + "/".join(parts)


def _literal(directory: str) -> str:
    return re.sub(r"([\\*?])", r"\\\1", directory)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold() if not text.isascii() else text.lower()


def _compiled(pattern: str, below: bool = False) -> re.Pattern[str]:
    """Make a regular expression of an anchored pattern; linear, since ``**`` is a whole part."""
    out: list[str] = []
    parts = pattern.split("/")[1:]
    for index, part in enumerate(parts):
        if part != "**":
            out.append("/" + _component(part))
        elif index == 0 or parts[index - 1] != "**":
            out.append("(?:/[^/]+)*")
    tail = "(?:/.*)?" if below else ""
    body = "".join(out) or "/"
    return re.compile(("/?" if body == "(?:/[^/]+)*" else "") + body + tail, re.DOTALL)


def _component(part: str) -> str:
    out: list[str] = []
    signs = iter(part)
    for sign in signs:
        if sign == "*":
            out.append("[^/]*")
        elif sign == "?":
            out.append("[^/]")
        elif sign == "\\":
            out.append(re.escape(next(signs, "\\")))
        else:
            out.append(re.escape(sign))
    return re.sub(r"(\[\^/\]\*)+", "[^/]*", "".join(out))
