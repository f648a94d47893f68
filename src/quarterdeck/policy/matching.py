"""Patterns matched with the parts of a call.

``covers`` is for allow rules and takes a pattern at its narrowest; ``touches`` is for deny and ask
rules and takes it at its broadest, with ``maybe`` where only running the call would show.
"""

import posixpath
import unicodedata
from collections.abc import Iterator

from .call import Call, PathUse
from .call_parts import (
    CallPart,
    CommandPart,
    FetchPart,
    HiddenPart,
    McpPart,
    NamedToolPart,
    PathPart,
    UnclearPart,
)
from .command_paths import HARMLESS_DEVICES, argument_paths
from .domains import parse_host, parse_target
from .path_matching import Fit, command_chain, path_touches, places_of, strictest_fit
from .paths import absolute, is_below, is_protected, matches
from .rules import (
    AnyCall,
    FetchPattern,
    McpPattern,
    NamedTool,
    PathPattern,
    Pattern,
    ShellPattern,
)
from .shell.collector import split_roughly
from .shell.command_line import ShellCommand, ShellWord
from .shell.hazards import deletes_words, reaching_word_of
from .shell.program_options import is_plain

__all__ = ["Fit", "covers", "touches"]

_FETCHERS = frozenset(("curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m", "httpie"))


# Allow


def covers(pattern: Pattern, part: CallPart, call: Call) -> bool:
    """Say whether an allow rule with this pattern permits the part."""
    match pattern:
        case AnyCall():
            return not _is_inner(part)
        case ShellPattern():
            return _shell_covers(pattern, part, call)
        case PathPattern():
            return _path_covers(pattern, part, call)
        case FetchPattern(host=None):
            unclear = isinstance(part, UnclearPart) and part.family == "fetch"
            searching = isinstance(part, NamedToolPart) and call.kind == "fetch"
            return (unclear or searching or isinstance(part, FetchPart)) and not _is_inner(part)
        case FetchPattern(host=host):
            return isinstance(part, FetchPart) and host is not None and host.matches(part.target)
        case McpPattern():
            return isinstance(part, McpPart) and _mcp_fits(pattern, part)
        case NamedTool(name=name):
            return isinstance(part, NamedToolPart) and part.name == name


def _is_inner(part: CallPart) -> bool:
    """Say whether a part reaches, or may reach, an address that a rule must name."""
    if isinstance(part, FetchPart):
        return part.action == "fetch inner"
    return isinstance(part, UnclearPart) and part.family == "fetch" and part.unread


def _shell_covers(pattern: ShellPattern, part: CallPart, call: Call) -> bool:
    if not pattern.words:
        by_shell = isinstance(part, PathPart) and part.by_shell
        unclear = isinstance(part, UnclearPart) and part.family == "bash"
        return isinstance(part, CommandPart) or by_shell or unclear
    # "make test" was allowed for this workspace, not for another directory's Makefile.
    if not isinstance(part, CommandPart) or part.action == "run outside":
        return False
    if part.cwds is None or not all(is_below(cwd, call.roots) for cwd in part.cwds):
        return False
    return _words_cover(pattern, part, call)


def _words_cover(pattern: ShellPattern, run: CommandPart, call: Call) -> bool:
    command = run.command
    words = (*command.assignments, *command.words)
    count = len(pattern.words)
    if len(words) < count or (len(words) > count and not pattern.open_ended):
        return False
    # An assignment is literal: its value is known to be plain text.
    if any(word.exact != want for word, want in zip(words, pattern.words, strict=False)):
        return False
    named = count - len(command.assignments)
    if named < 1:
        return False
    if len(words) == count and not pattern.open_ended:
        return True
    if not _names_what_runs(command, named) or reaching_word_of(command, named) is not None:
        return False
    if any(_leads_away(word, run, call) for word in command.words[named:]):
        return False
    return not any(word.glob for word in command.words[named:]) or _matches_stay(run, named, call)


def _matches_stay(run: CommandPart, named: int, call: Call) -> bool:
    """Say whether all that patterns were found to match is in the workspace."""
    words = run.command.words[1:named]
    matched = {
        absolute(text, cwd=cwd, home=call.home)
        for word in words
        for text in argument_paths(word)
        for cwd in run.cwds or (call.cwd,)
    }
    return all(_inside(use, call) for use in run.named if use.path not in matched)


def _leads_away(word: ShellWord, run: CommandPart, call: Call) -> bool:
    """Say whether an open end must not cover a word: it may name a path outside the workspace,

    or one that decides which programs run, and the command may write it.
    """
    for text in argument_paths(word):
        if text in HARMLESS_DEVICES:
            continue
        if word.glob and any(part[:1] in (".", "[") for part in _glob_parts(text)):
            return True
        for cwd in run.cwds or ("/",):
            if _is_unresolved(text, cwd, call):
                return True
            for place in places_of(text, cwd, call):
                if not is_below(place, call.roots):
                    return True
                if run.reading is None and _is_kept(place, run.command, call):
                    return True
    return False


def _is_unresolved(text: str, cwd: str, call: Call) -> bool:
    """Say whether ``..`` follows a name that may be a link and was not looked up."""
    names = [part for part in text.split("/") if part not in ("", ".")]
    if ".." not in names:
        return False
    # A directory that the line went to may be a link, too.
    certain = cwd == call.cwd or cwd in call.roots
    up_first = all(part == ".." for part in names[: names.count("..")])
    return not (certain and up_first) and posixpath.join(cwd, text) not in call.links


def _glob_parts(text: str) -> Iterator[str]:
    """Yield the names of a path that are patterns; one may stand for ``..``."""
    return (part for part in text.split("/") if any(sign in part for sign in "*?["))


def _is_kept(path: str, command: ShellCommand, call: Call) -> bool:
    roots = [root for root in call.roots if is_below(path, (root,))]
    within = path[len(max(roots, key=len)) :] if roots else path
    if is_protected(within):
        return True
    return deletes_words(command) and (call.holds_protected or not within.strip("/"))


def _names_what_runs(command: ShellCommand, named: int) -> bool:
    """Say whether the first words of a wrapper say what it runs, so that more may follow."""
    if command.wrapping in ("none", "also"):
        return True
    if named <= command.inner_at:
        return False
    return not (command.words[command.inner_at].exact or "-").startswith("-")


def _path_covers(pattern: PathPattern, part: CallPart, call: Call) -> bool:
    if isinstance(part, UnclearPart):
        wanted = "read" if pattern.access == "read" else "edit"
        return pattern.glob is None and part.family == wanted
    if isinstance(part, PathPart):
        if part.whole and (call.holds_protected or part.use.path in call.roots):
            return False
        return _use_covered(pattern, part.use, call)
    if isinstance(part, CommandPart) and part.action == "run reading outside":
        outside = [use for use in part.reads if not _inside(use, call)]
        return all(_use_covered(pattern, use, call) for use in outside)
    return False


def _inside(use: PathUse, call: Call) -> bool:
    return is_below(use.path, call.roots) and is_below(use.resolved, call.roots)


def _use_covered(pattern: PathPattern, use: PathUse, call: Call) -> bool:
    if use.access == "write" and pattern.access == "read":
        return False
    glob = pattern.glob
    if use.access == "write" and not is_protected(glob or ""):
        # A wide pattern is not meant for what decides which programs run.
        root = call.project_root
        for path in (use.path, use.resolved):
            if is_protected(path.removeprefix(root)):
                return False
    if glob is None:
        return True
    root, home = call.project_root, call.home
    return all(matches(glob, path, root=root, home=home) for path in (use.path, use.resolved))


def _mcp_fits(pattern: McpPattern, part: McpPart) -> bool:
    return pattern.server in (None, part.server) and pattern.tool in (None, part.tool)


# Deny and ask


def touches(pattern: Pattern, part: CallPart, call: Call) -> Fit:
    """Say whether a deny or ask rule with this pattern holds for the part."""
    match pattern:
        case AnyCall():
            return "yes"
        case ShellPattern():
            return _shell_touches(pattern, part, call)
        case PathPattern():
            return path_touches(pattern, part, call)
        case FetchPattern():
            return _fetch_touches(pattern, part, call)
        case McpPattern():
            same = isinstance(part, McpPart) and _mcp_fits_broadly(pattern, part)
            return "yes" if same else "no"
        case NamedTool(name=name):
            return "yes" if _folded(name) == _folded(call.tool) else "no"


def _shell_touches(pattern: ShellPattern, part: CallPart, call: Call) -> Fit:
    if not pattern.words:
        by_shell = isinstance(part, PathPart) and part.by_shell
        unclear = isinstance(part, UnclearPart) and part.family == "bash"
        return "yes" if isinstance(part, CommandPart | HiddenPart) or by_shell or unclear else "no"
    if isinstance(part, CommandPart):
        return strictest_fit(
            _command_fits(pattern.words, command) for command in command_chain(part.command)
        )
    if isinstance(part, HiddenPart):
        if _tokens_fit(pattern.words, part.tokens):
            return "yes"
        return strictest_fit(_hidden_fits(pattern.words, top) for top in part.commands)
    if isinstance(part, UnclearPart) and part.family == "bash":
        named = _tokens_fit(pattern.words, split_roughly(call.command or ""))
        return "maybe" if part.unread or named else "no"
    return "no"


def _hidden_fits(wanted: tuple[str, ...], top: ShellCommand) -> Fit:
    """Hold a rule against what a line may run besides; a doubt about it is no more than that."""
    found = strictest_fit(
        _command_fits(wanted, command, launches=False) for command in command_chain(top)
    )
    if top.doubts:
        return "no" if found == "no" else "maybe"
    return "yes" if found == "yes" else "no"


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def _program(text: str) -> str:
    return _folded(text.rsplit("/", 1)[-1])


def _command_fits(wanted: tuple[str, ...], command: ShellCommand, launches: bool = True) -> Fit:
    first = next((index for index, word in enumerate(wanted) if "=" not in word), 0)
    for assignment in wanted[:first]:
        if not any(assignment == word.value for word in command.assignments):
            return "no"
    value = command.words[0].value
    if value is None or command.words[0].glob:
        return "maybe"
    rest = command.words[1:]
    if _program(value) != _program(wanted[first]):
        return _launches(wanted[first], value, rest) if launches else "no"
    if _in_order(wanted[first + 1 :], [word.value for word in rest]):
        return "yes"
    return "maybe" if any(word.value is None or word.glob for word in rest) else "no"


_PROGRAM_PLACES = (
    *("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/bin/"),
    *("/usr/local/sbin/", "/snap/bin/"),
)


def _launches(wanted: str, program: str, words: tuple[ShellWord, ...]) -> Fit:
    """Say whether a program may run the denied one, or give it another name, by its words.

    Of a program that is not known every word may hold a command; of one that is, only the file of
    the denied program itself counts.
    """
    name = _program(wanted)
    known = is_plain(_program(program))
    for word in words:
        value = word.value or ""
        if value.startswith(_PROGRAM_PLACES) and _program(value) == name:
            return "maybe"
        if not known and any(_program(token) == name for token in split_roughly(value)):
            return "maybe"
    return "no"


def _tokens_fit(wanted: tuple[str, ...], tokens: tuple[str, ...]) -> bool:
    name = _program(wanted[0])
    for index, token in enumerate(tokens):
        if _program(token) == name and _in_order(wanted[1:], list(tokens[index + 1 :])):
            return True
    return False


def _in_order(wanted: tuple[str, ...], words: list[str | None]) -> bool:
    """Say whether all wanted words are there: options anywhere, the others in their order."""
    at = 0
    for want in wanted:
        if want.startswith("-") and len(want) > 1:
            if not _has_option(want, words):
                return False
            continue
        while at < len(words) and words[at] != want:
            at += 1
        if at == len(words):
            return False
        at += 1
    return True


def _has_option(want: str, words: list[str | None]) -> bool:
    if want.startswith("--"):
        name = want.partition("=")[0]
        for word in words:
            given = (word or "").partition("=")[0]
            # Programs take an unambiguous beginning for the whole option.
            if given == name or (len(given) > 2 and given[:2] == "--" and name.startswith(given)):
                return True
        return False
    letters = {sign for word in words if _is_cluster(word) for sign in word or ""}
    return want in words or all(sign in letters for sign in want[1:])


def _is_cluster(word: str | None) -> bool:
    return word is not None and word.startswith("-") and not word.startswith("--")


def _fetch_touches(pattern: FetchPattern, part: CallPart, call: Call) -> Fit:
    if isinstance(part, FetchPart):
        meant = pattern.host is None or pattern.host.matches_broadly(part.target)
        return "yes" if meant else "no"
    if isinstance(part, NamedToolPart):
        return "yes" if call.kind == "fetch" and pattern.host is None else "no"
    if isinstance(part, UnclearPart):
        if part.family != "fetch":
            return "no"
        return "yes" if pattern.host is None else "maybe"
    if isinstance(part, CommandPart):
        return strictest_fit(
            _command_fetches(pattern, each) for each in command_chain(part.command)
        )
    if isinstance(part, HiddenPart):
        return strictest_fit(
            _command_fetches(pattern, each) for top in part.commands for each in command_chain(top)
        )
    return "no"


def _command_fetches(pattern: FetchPattern, command: ShellCommand) -> Fit:
    fetcher = command.name in _FETCHERS
    if pattern.host is None:
        return "yes" if fetcher or any("://" in word.raw for word in command.words) else "no"
    for word in command.words[1:]:
        text = word.value or word.raw
        if not (fetcher or "://" in text):
            continue
        host = _host_in(text)
        if host is not None and _same_host(pattern, host):
            return "yes"
    unknown = fetcher and any(word.value is None for word in command.words)
    return "maybe" if unknown else "no"


def _host_in(text: str) -> str | None:
    _, _, rest = text.rpartition("://")
    authority = rest.split("/", 1)[0].split("?", 1)[0].split("#", 1)[0].rpartition("@")[2]
    name = authority if authority.startswith("[") else authority.partition(":")[0]
    return parse_host(name)


def _same_host(pattern: FetchPattern, host: str) -> bool:
    target = parse_target(f"http://{'[' + host + ']' if ':' in host else host}/")
    return not isinstance(target, str) and bool(
        pattern.host and pattern.host.matches_broadly(target)
    )


def _mcp_fits_broadly(pattern: McpPattern, part: McpPart) -> bool:
    server = pattern.server is None or _folded(pattern.server) == _folded(part.server)
    return server and (pattern.tool is None or _folded(pattern.tool) == _folded(part.tool))
