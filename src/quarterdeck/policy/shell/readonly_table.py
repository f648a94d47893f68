"""Commands that change nothing, each with the options that keep it so.

An option that is not listed is not known. Left out on purpose: options that write (``sort -o``),
run programs (``rg --pre``), read names of further files from a file (``sha256sum -c``), follow
links while they go through directories (``diff -r``), ask other machines (``hostname -f``), or
follow for ever.

Programs whose version depends on the project are left out of ``VERSIONED``: ``cargo --version``
runs the toolchain that ``rust-toolchain.toml`` names, ``yarn --version`` the file in
``.yarnrc.yml``, ``pytest --version`` loads the plugins of ``pytest.ini``.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["COMMANDS", "GIT", "VERSIONED", "Operands", "ReadOnlySpec"]

Operands: TypeAlias = Literal["paths", "text", "number", "pattern", "revisions", "none"]
"""What stands after the options: files; text that names none; digits (some shells calculate them,
and calculating can run commands); a pattern, then files; git's revisions and files; nothing."""


class ReadOnlySpec(Struct, frozen=True, kw_only=True):
    """The options of a command that are known to be harmless."""

    flags: str = ""
    """Letters without a value."""
    valued: str = ""
    """Letters with one."""
    long: frozenset[str] = frozenset()
    """Long options without a value, or with ``=value`` that names no file."""
    long_valued: frozenset[str] = frozenset()
    """Long options that may take the next word as their value."""
    operands: Operands = "paths"
    most: int | None = None
    """How many operands keep it harmless."""
    least: int = 0
    numbers: bool = False
    """``-5`` is an option."""
    recursive: str = ""
    """Letters that make it read whole directories; ``*``: always."""
    here: bool = False
    """Without operands it reads the working directory."""
    unvetted: bool = False
    """No argument at all can do harm."""
    globs: bool = False
    """A file whose name looks like an option does no harm."""
    follows: bool = False
    """Given a directory it reads files in it, and follows links there."""
    core: bool = False
    """Small enough to be certain: no settings, no parser of a rich format, no files of its own."""


def _spec(
    flags: str = "",
    valued: str = "",
    long: str = "",
    long_valued: str = "",
    operands: Operands = "paths",
    *,
    most: int | None = None,
    numbers: bool = False,
    recursive: str = "",
    here: bool = False,
    globs: bool = False,
    follows: bool = False,
    core: bool = False,
) -> ReadOnlySpec:
    return ReadOnlySpec(
        flags=flags,
        valued=valued,
        long=frozenset("--" + name for name in long.split()),
        long_valued=frozenset("--" + name for name in long_valued.split()),
        operands=operands,
        most=most,
        numbers=numbers,
        recursive=recursive,
        here=here,
        globs=globs,
        follows=follows,
        core=core,
    )


_FREE = ReadOnlySpec(unvetted=True, operands="text", core=True)
_NUMBER = ReadOnlySpec(operands="number", most=1, core=True)
_SUM = _spec("btz", long="binary text tag zero", core=True)
_GREP = _spec(
    "EFGPivwxcLlqsHhnobrIaUyTZ",
    "eABCm",
    "ignore-case invert-match word-regexp line-regexp count files-with-matches files-without-match "
    "quiet silent no-messages with-filename no-filename line-number only-matching byte-offset "
    "recursive text null extended-regexp fixed-strings basic-regexp "
    "perl-regexp color colour include exclude exclude-dir binary-files max-count context "
    "after-context before-context null-data initial-tab",
    "regexp include exclude exclude-dir max-count context after-context before-context",
    "pattern",
    numbers=True,
    recursive="r",
    core=True,
)
_RG = _spec(
    "iSsFPwxvclnNHIouUaqp0.hV",
    "egtTABCmMjEdr",
    "ignore-case smart-case case-sensitive fixed-strings word-regexp line-regexp invert-match "
    "count count-matches files files-with-matches files-without-match line-number no-line-number "
    "with-filename no-filename only-matching hidden no-ignore no-ignore-vcs unrestricted text "
    "quiet pretty heading no-heading column json stats trim multiline multiline-dotall pcre2 "
    "null type-list version vimgrep no-messages color sort sortr glob iglob type type-not "
    "max-count max-depth max-columns context after-context before-context replace max-filesize "
    "encoding no-config crlf passthru",
    "regexp glob iglob type type-not max-count max-depth max-columns context after-context "
    "before-context replace color sort sortr max-filesize encoding",
    "pattern",
    recursive="*",
    here=True,
    core=True,
)
_TAIL = _spec(
    "qvz", "nc", "quiet silent verbose lines bytes zero-terminated", "lines bytes",
    numbers=True, globs=True, core=True,
)  # fmt: skip

COMMANDS: dict[str, ReadOnlySpec] = {
    "echo": _FREE,
    "true": _FREE,
    "false": _FREE,
    ":": _FREE,
    "pwd": _FREE,
    "basename": _FREE,
    "dirname": _FREE,
    "seq": _FREE,
    "whoami": _FREE,
    "nproc": _FREE,
    "uptime": _spec("ps", operands="none"),
    "arch": _FREE,
    "tty": _FREE,
    "logname": _FREE,
    "groups": _spec(operands="text", core=True),
    "id": _spec("ugGnrz", operands="text", core=True),
    "uname": _spec("asnrvmpio", long="all", operands="none", core=True),
    "hostname": _spec("s", operands="none"),
    "sleep": _spec(operands="text", core=True),
    "which": _spec("as", operands="text", core=True),
    "type": _spec("afptP", operands="text", core=True),
    "command": _spec("vV", operands="text", core=True),
    "ls": _spec(
        "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1@eO", "",
        "all almost-all color classify directory human-readable inode recursive reverse size sort "
        "time group-directories-first full-time time-style format si no-group numeric-uid-gid "
        "ignore hide",
        "ignore hide",
        here=True, globs=True, core=True,
    ),
    "cat": _spec("AbeEnstTuv", long="number number-nonblank show-all show-ends", globs=True,
                 core=True),
    "tac": _spec(globs=True, core=True),
    "rev": _spec(core=True),
    "nl": _spec("p", "bfhdilnsvw", globs=True, core=True),
    "head": _TAIL,
    "tail": _TAIL,
    "wc": _spec("clmwL", long="bytes chars lines words max-line-length", globs=True, core=True),
    "stat": _spec("Ltx", "c", "dereference terse format printf", "format printf", globs=True,
                  core=True),
    "file": _spec("bhikNr", long="brief mime mime-type mime-encoding dereference"),
    "du": _spec(
        "abchHklmPsSx0", "dt",
        "all apparent-size bytes total human-readable max-depth summarize exclude si",
        "max-depth exclude",
        here=True, globs=True,
    ),
    "df": _spec("ahHiklmPT", long="human-readable total inodes si print-type", operands="none"),
    "tree": _spec("adfipsughDFrtxACSnNQ", "LPI", "dirsfirst gitignore prune noreport filelimit",
                  here=True),
    "realpath": _spec("emsLPqz", long="canonicalize-existing canonicalize-missing no-symlinks",
                      core=True),
    "readlink": _spec("fenmqsvz", long="canonicalize canonicalize-existing", core=True),
    "sort": _spec(
        "bdfghiMnrRVcCmsuz", "kt",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort "
        "human-numeric-sort month-sort numeric-sort reverse version-sort check unique stable key "
        "field-separator zero-terminated",
        "key field-separator",
    ),
    "uniq": _spec("cdDiuz", "fsw", "count repeated ignore-case unique skip-fields", most=1,
                  core=True),
    "cut": _spec("nsz", "bcdf", "bytes characters delimiter fields complement only-delimited "
                 "output-delimiter", "bytes characters delimiter fields", core=True),
    "tr": _spec("cCdst", operands="text", core=True),
    "fold": _spec("bs", "w"),
    "column": _spec("txe", "sco"),
    "paste": _spec("sz", "d"),
    "comm": _spec("123iz"),
    "join": _spec("i", "12aejotv"),
    "diff": _spec(
        "abBcdeEiNnpqstTuwyZ", "UCWxIF",
        "unified context brief ignore-case ignore-all-space ignore-space-change "
        "ignore-blank-lines side-by-side color report-identical-files new-file exclude "
        "strip-trailing-cr minimal stat",
        "exclude",
        follows=True,
    ),
    "cmp": _spec("bls", "in", core=True),
    "md5sum": _SUM, "sha1sum": _SUM, "sha256sum": _SUM, "sha512sum": _SUM,
    "b2sum": _SUM, "cksum": _spec(core=True),
    "shasum": _spec("bt", "a"),
    "od": _spec("abcdDefFhHiIlLoOsvxX", "AjNtS"),
    "hexdump": _spec("bcCdovx", "ns"),
    "strings": _spec("afo", "nt"),
    "grep": _GREP, "egrep": _GREP, "fgrep": _GREP,
    "rg": _RG,
    "exit": _NUMBER,
    "return": _NUMBER,
    "break": _NUMBER,
    "continue": _NUMBER,
}  # fmt: skip

_DIFF_LONG = (
    "stat shortstat numstat name-only name-status cached staged summary patch no-patch unified "
    "raw minimal patience histogram word-diff color-words color no-color check full-index "
    "binary abbrev find-renames find-copies diff-filter ignore-all-space ignore-space-change "
    "ignore-blank-lines ignore-space-at-eol function-context no-ext-diff no-textconv exit-code "
    "quiet no-prefix text relative dirstat compact-summary no-renames pickaxe-all merge-base "
    "word-diff-regex ignore-submodules no-relative"
)
_LOG_LONG = (
    _DIFF_LONG + " oneline graph all decorate no-decorate pretty format since until after before "
    "author committer grep max-count skip reverse no-merges merges first-parent date follow "
    "abbrev-commit branches tags remotes left-right cherry-pick cherry-mark cherry topo-order "
    "date-order author-date-order simplify-by-decoration invert-grep all-match parents children "
    "boundary count glob exclude regexp-ignore-case extended-regexp fixed-strings "
    "notes no-notes source ancestry-path full-history root no-color no-walk walk-reflogs "
    "decorate-refs decorate-refs-exclude min-parents max-parents"
)
_LOG_VALUED = "since until after before author committer grep max-count skip date format"


def _git(flags: str = "", valued: str = "", long: str = "", long_valued: str = "", *,
         least: int = 0, most: int | None = None, numbers: bool = False,
         none: bool = False) -> ReadOnlySpec:  # fmt: skip
    return ReadOnlySpec(
        flags=flags,
        valued=valued,
        long=frozenset("--" + name for name in long.split()),
        long_valued=frozenset("--" + name for name in long_valued.split()),
        operands="none" if none else "revisions",
        least=least,
        most=most,
        numbers=numbers,
    )


_LOG = _git("pswbzRuiEFgmcMC", "SGUnL", _LOG_LONG, _LOG_VALUED, numbers=True)
_LIST_LONG = "contains no-contains merged no-merged sort format points-at color column ignore-case"

GIT: dict[str, ReadOnlySpec] = {
    "status": _git("sbvz", "", "short branch porcelain long verbose untracked-files ignored "
                   "ahead-behind no-ahead-behind show-stash no-renames column"),
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "diff": _git("pswbzRuaDWrtMC", "SGUl", _DIFF_LONG),
    "diff-tree": _git("prtszmcRMC", "", _DIFF_LONG + " root no-commit-id stdin"),
    "diff-index": _git("pszRMC", "", _DIFF_LONG),
    "diff-files": _git("pszRMC", "", _DIFF_LONG),
    "shortlog": _git("snec", "", _LOG_LONG + " summary numbered email", least=1),
    "blame": _git("lsetwcpnfbMC", "L", "porcelain line-porcelain date since root show-name "
                  "show-number show-email", least=1),
    "rev-parse": _git("q", "", "abbrev-ref short show-toplevel git-dir git-common-dir verify "
                      "is-inside-work-tree show-prefix show-cdup symbolic-full-name quiet "
                      "absolute-git-dir is-bare-repository is-shallow-repository"),
    "rev-list": _git("n", "", _LOG_LONG, _LOG_VALUED, numbers=True),
    "ls-files": _git("cdomsuktvz", "x", "cached deleted others modified stage unmerged exclude "
                     "exclude-standard error-unmatch full-name directory"),
    "ls-tree": _git("drtlz", "", "name-only name-status full-name full-tree long abbrev format"),
    "cat-file": _git("tspe", "", "batch-check", least=1),
    "describe": _git("", "", "all tags long always dirty abbrev match exact-match contains "
                     "candidates first-parent", "match"),
    "merge-base": _git("a", "", "all is-ancestor octopus fork-point independent"),
    "name-rev": _git("", "", "name-only tags refs always"),
    "show-ref": _git("dsq", "", "heads branches tags head dereference hash verify quiet abbrev"),
    "for-each-ref": _git("", "", _LIST_LONG + " count omit-empty", "sort format count"),
    "branch": _git("arvl", "", "all remotes verbose list show-current no-abbrev abbrev "
                   + _LIST_LONG, none=True),
    "tag": _git("ln", "", "list " + _LIST_LONG, none=True),
    "grep": _git("aIiwvhHEGPFnlLczpqr", "eABCm", "ignore-case word-regexp invert-match "
                 "extended-regexp perl-regexp fixed-strings line-number column files-with-matches "
                 "files-without-match count name-only cached untracked break heading "
                 "show-function function-context quiet and or not all-match max-depth color "
                 "context after-context before-context recursive", numbers=True),
    "count-objects": _git("vH", "", "verbose human-readable", none=True),
    "version": _git("", "", "build-options", none=True),
}  # fmt: skip
"""Subcommands of git that only read, without those that need a closer look."""

VERSIONED = frozenset(
    (
        *("python", "python3", "node", "deno", "gcc", "g++", "clang", "cmake", "make", "perl"),
        *("docker", "jq", "rg", "curl", "wget", "gh", "tar", "sed", "awk", "git"),
    )
)
"""Programs that with ``--version`` alone only print it."""
