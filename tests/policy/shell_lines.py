"""Command lines with something planted in them: a grammar of bash that knows where text may run.

Half of the lines are of the small grammar that may run unasked, with a plant where it must not run
(in quotes, after a comment, as an argument). The other half are of all of bash, with the plant
where it does run: tests, patterns, here-documents, arithmetic, arrays, expansions, redirections,
functions, aliases, wrappers. Then lines are spliced, cut and joined, so that the two meet.
"""

# Rows of a table are read one by one.
# ruff: noqa: E501

import random

__all__ = ["EFFECT", "LineMaker"]

EFFECT = "effect"
"""The planted program."""

_PLANTS = (
    *("effect", "effect", "effect x", "./effect", ">canary", ": >canary", "touch canary"),
    *("echo x >canary", "eval effect", "command effect", "echo x >>canary", "$(echo effect)"),
    *("cat a >canary", "env effect", "exec effect", "\\effect", "'effect'", "e''ffect"),
)
_NAMES = (
    *("ls", "cat a", "head -5 a", "tail -n 2 a", "wc -l a", "grep -n x a", "pwd", "true", ":"),
    *("sort a", "uniq a", "cut -c1 a", "stat a", "file a", "rg x", "find . -name a", "echo"),
    *("echo -n", "printf '%s\\n'", "test -f a", "[ -f a ]", "[ a = b ]", "cd src", "ls *"),
    *("cat *.txt", "sed -n 1p a", "awk '{print $1}' a", "xxd a", "od -c a", "date +%s", "du -s ."),
    *("basename a/b", "seq 1 3", "type ls", "command -v ls", "diff a b", "sha256sum a", "tr a b"),
    *("git status", "git log -1", "git diff", "jq .a x.json", "timeout 5 ls", "time ls", "nice ls"),
    *("env ls", "bash -c ls", "sh -c 'ls; pwd'", "bash -lc 'cat a'", "test 1 -eq 2", "exit 0"),
    *("set -e", "id -u", "readlink a", "tree", "column -t a", "nl a", "strings a", "cmp a b"),
)
_SAFE_ARGUMENTS = (
    *("a", "src", "./a", "src/x.py", "-la", "-n", "*.py", "s?c", "effect", "canary", "x=1", "a:b"),
    *("'{p}'", "'x {p}'", "'$({p})'", "'`{p}`'", "'a[$({p})]'", "'<({p})'", "'; {p}'", "'\n{p}\n'"),
    *('"x {q}"', '"; {q}"', '"\\$({q})"', '"\\`{q}\\`"', '"a[\\$({q})]"', '"&& {q} ||"', '"$?"'),
    *('"$HOME"', '"$PWD/{q}"', "\\;", "\\&\\&", "\\$\\({n}\\)", "\\>canary", "\\|", "$?", "~/x"),
    *("-e", "'!'", "!", "=", "!=", "%s", "@", "HEAD~1", "a,b", "+x", "'#' {n}", '"# {q}"', "''"),
    *(
        "1",
        "0",
        "-eq",
        "-f",
        "-nt",
        "]",
        "'-v'",
        "-v",
        "-o",
        "-exec",
        "--output=canary",
        "-o canary",
    ),
)
_REDIRECTS = (
    *("2>/dev/null", ">/dev/null", "2>&1", "&>/dev/null", "</dev/null", ">/dev/null 2>&1", ">&2"),
    *("1>&2", ">> /dev/null", "2> /dev/null", "&>> /dev/null"),
)
_BAD_REDIRECTS = (
    *(
        ">canary",
        ">>canary",
        "2>canary",
        "&>canary",
        ">|canary",
        "<>canary",
        ">&canary",
        "{fd}>canary",
    ),
    *("> /dev/null/../canary", ">/dev/nullx", "2>&1canary", ">&2canary", "> >({p})", "< <({p})"),
    *(
        "<<<$({p})",
        "<<E\n$({p})\nE\n",
        "<<'E'\nx\nE\n{p}\n",
        "<<-E\n\tx\n\tE\n{p}\n",
        "<<E x\ny\nE\n{p}\n",
    ),
    *("<<E\nx\nE ; {p}\nE\n", "<<\\E\nx\nE\n{p}\n", "<<'E F'\nx\nE F\n{p}\n", "<<E\n`{p}`\nE\n"),
    *(
        "<<A <<B\nA\n{p}\nB\n{p}\n",
        "<<E\n${x:-$({p})}\nE\n",
        "<<E\n\\$({p})\nE\n{p}\n",
        '<<""\n\n{p}\n',
    ),
    *(
        "3>&1 >&3-",
        "<&0",
        "2>&-",
        "> canary#",
        ">$HOME/canary",
        ">~/canary",
        "2>&$x",
        ">&$(effect)",
    ),
)
_JOINS = (
    "; ",
    ";",
    " && ",
    "&&",
    " || ",
    " | ",
    "|",
    "\n",
    " \n ",
    " &&\n",
    " |\n",
    " \\\n ",
    ";\n\n",
    " ; ",
)
_BAD_JOINS = (
    " & ",
    "&",
    " |& ",
    ";;",
    "\r",
    "\r\n",
    "\\\n",
    "\v",
    "\f",
    " \u00a0",
    "\u2028",
    "\0",
    "&;",
    "\x01",
)
_COMMENTS = (" # {n}", " # $({n}) `{n}`", " #; {n}", "\n# {n}\n", " # '\n")
_SHAPES = (
    *("{p}", "ls; {p}", "ls && {p}", "ls | {p}", "ls & {p}", "({p})", "{{ {p}; }}", "! {p}"),
    *("ls $({p})", 'ls "$({p})"', "ls `{p}`", "ls <({p})", "ls >({p})", "ls $(( $({p}) ))"),
    *("[[ a == $({p}) ]]; ls", "[[ a =~ ^(`{p}`)$ ]]; ls", "[[ a == x<({p}) ]]; ls", "[[ a < $({p}) ]]"),
    *("[[ (-v 'a[$({p})]') ]]", "[[ -v a[$({p})] ]]", "[[ 'a[$({p})]' -eq 1 ]]", "[[ -R 'a[$({p})]' ]]"),
    *("[[ a == @(x|$({p})) ]]", "[[ -f x || -v 'a[$({p})]' ]] && ls", "[[ a = [$({p})] ]]"),
    *("test -v 'a[$({p})]'", "[ -v 'a[$({p})]' ]", "test 'a[$({p})]' -eq 1", "[ 1 -eq 'a[$({p})]' ]"),
    *("test -f a -a -v 'a[$({p})]'", "[ ! -v 'a[$({p})]' ]", "test '(' -v 'a[$({p})]' ')'", "[ -t 'a[$({p})]' ]"),
    *('o=-v; test "$o" \'a[$({p})]\'', "test -n x -o -v 'a[$({p})]'", "echo a == x ; {p} ; ]"),
    *("(( a[$({p})] ))", "(( x = $({p}) ))", "let 'a[$({p})]=1'", "echo $(( a[$({p})] ))", "echo $[ $({p}) ]"),
    *("a=($({p}))", "a[$({p})]=1", "a=([$({p})]=1)", "declare -a 'a=($({p}))'", "declare 'a[$({p})]=1'"),
    *("export x=$({p})", "readonly x=`{p}`", "local x=$({p})", "unset 'a[$({p})]'", "typeset -i x='a[$({p})]'"),
    *("printf -v 'a[$({p})]' x", "printf '%d' 'a[$({p})]'", "read 'a[$({p})]' <<< x", "wait -p 'a[$({p})]'"),
    *("mapfile -C '{p}' -c 1 <<< x", "mapfile 'a[$({p})]' <<< x", "getopts a 'a[$({p})]' -a", "exit 'a[$({p})]'"),
    *("return 'a[$({p})]'", "break 'a[$({p})]'", "shift 'a[$({p})]'", "ulimit -n 'a[$({p})]'", "sleep $({p})"),
    *("echo ${{x:-$({p})}}", "echo ${{x:=`{p}`}}", 'x=\'a[$({p})]\'; echo ${{!x}}', "echo ${{x:$({p})}}"),
    *("x='$({p})'; echo ${{x@P}}", "echo ${{a[$({p})]}}", "echo \"${{x/$({p})/}}\"", "echo ${{#a[$({p})]}}"),
    *("case $({p}) in *) ls;; esac", "case a in $({p})) ls;; esac", "case a in a) {p};; esac", "case a in (a) {p} ;& b) ls;; esac"),
    *("if {p}; then ls; fi", "if ls; then {p}; fi", "while {p}; do break; done", "until {p}; do break; done"),
    *("for i in $({p}); do ls; done", "for i in 1; do {p}; done", "for ((i=$({p});i<1;i++)); do ls; done"),
    *("select x in 1; do {p}; break; done <<< 1", "f() {{ {p}; }}; f", "function ls {{ {p}; }}; ls", "ls() ( {p} ); ls"),
    *("ls() {{ {p}; }}\nls", "alias ls='{p}'\nshopt -s expand_aliases\nls", "coproc {p}", "coproc X {{ {p}; }}"),
    *("trap '{p}' EXIT", "trap '{p}' DEBUG; ls", "eval '{p}'", "eval ls '; {p}'", "source <(echo '{p}')", ". ./effect"),
    *("exec {p}", "command {p}", "builtin eval '{p}'", "time {p}", "time ( {p} )", "timeout 5 {p}", "nice {p}", "nohup {p}"),
    *("env {p}", "env -S '{p}'", "xargs {p} < /dev/null", "echo effect | sh", "echo '{p}' | bash", "bash -c '{p}'", "sh -c 'ls; {p}'"),
    *("./env ls; {p}", "bash <<< '{p}'", "find . -exec {p} \\;", "find . -execdir {p} +", "find . -fprint canary", "find a -ok {p} \\;"),
    *("PATH=. effect", "IFS=f; ls $({p})", "BASH_ENV=./effect bash -c ls", "ENV=./effect sh -c ls", "PS4='$({p})' bash -xc ls"),
    *("set -x; PS4='$({p})'; ls", "PROMPT_COMMAND='{p}' bash -ic ls", "LD_PRELOAD=./effect ls", "X=1 {p}", "x=$({p}) ls"),
    *("hash -p ./effect ls; ls", "enable -n echo; echo", "printf '%s' $({p})", "echo {{a,$({p})}}", "ls $'\\x3b' {p}", "ls $'a'`{p}`"),
    *("ls ~$({p})", "ls *$({p})", "ls \"\"$({p})", "ls ''`{p}`", "ls a$({p})b", "[ a = b ]; {p}", "[ -f a ] ; {p} ; ]", "test a == b ; {p}"),
    *("ls #\n{p}", "ls \\#\n{p}", "ls a#b\n{p}", "#\n{p}", "ls '#'\n{p}", "ls \\\n{p}", "ls \\\n;{p}", "ls a\\\n{p}", "ls;#\\\n{p}"),
    *("xxd -ps a canary", "xxd -r a canary", "sort -o canary a", "uniq a canary", "sed -n 'w canary' a", "sed -i s/x/y/ a", "sed 's/x/y/e' a"),
    *("tree -o canary", "awk 'BEGIN{{system(\"{p}\")}}'", "awk '{{print > \"canary\"}}' a", "rg --pre ./effect x", "git -c alias.x='!{p}' x"),
    *("git diff --output=canary", "git grep -O./effect x", "git log --output=canary", "date -s 1", "tee canary", "split a canary", "file -C -m a"),
    *("!{p}", "!!", "ls !$", "ls ^x^{p}", "=effect", "ls =effect", "ls *(e:{p}:)", "noglob {p}", "- {p}", "ls {{1..2}}; {p}", "ls |& {p}", "ls ;& {p}"),
    *("echo $'{p}'", "echo $\"`{p}`\"", "echo \"`{p}`\"", "echo \"a\\\"`{p}`\"", "echo \"\\\\$({p})\"", "echo \"\\\\`{p}`\"", "echo '\\'; {p}; ''"),
)  # fmt: skip

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_LONG_OPTIONS = (
    *("output", "out", "outp", "file", "files", "recursive", "check", "pre", "exec", "delete"),
    *("in-place", "help", "version", "all", "count", "lines", "bytes", "color", "format", "regexp"),
    *("include", "exclude", "max-count", "quiet", "verbose", "key", "unique", "reverse", "size"),
    *(
        "number",
        "files0-from",
        "from-file",
        "to-file",
        "compress-program",
        "follow",
        "sort",
        "time",
    ),
)
_OPERANDS = (
    *(
        "a",
        "a",
        "b",
        "src",
        "canary",
        "canary",
        "-",
        "1",
        "5",
        "x",
        "n.txt",
        "src/x.py",
        "1,2",
        ":",
    ),
    *("'s/x/y/'", "1p", "'{print}'", ".", ".a", "-name", "-print", "+1", "'w canary'", "a=b", "--"),
)


class LineMaker:
    """Makes lines from a seed; equal seeds make equal lines."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._kept: list[str] = ["ls"]

    def line(self) -> str:
        """Make one line."""
        ways = (self._plain, self._shape, self._spliced)
        made = self.dice.choices(ways, weights=(62, 16, 22))[0]()
        if self.dice.random() < 0.1:
            made = self._scratched(made)
        if len(made) < 300:
            self._keep(made)
        return made

    def optioned(self, name: str) -> str:
        """Make a command with options and operands that it may or may not know."""
        dice = self.dice
        words = [name]
        for _ in range(dice.randint(0, 3)):
            letters = "".join(dice.choices(_LETTERS, k=dice.choice((1, 1, 1, 2, 2, 3))))
            long = dice.choice(_LONG_OPTIONS)
            value = dice.choice(("", "", "=a", "=canary", "=1"))
            words.append(dice.choice((f"-{letters}", f"-{letters}", f"--{long}{value}")))
            if dice.random() < 0.3:
                words.append(dice.choice(_OPERANDS))
        words.extend(dice.choices(_OPERANDS, k=dice.randint(0, 3)))
        return " ".join(words)

    def _keep(self, line: str) -> None:
        if len(self._kept) < 200:
            self._kept.append(line)
        else:
            self._kept[self.dice.randrange(200)] = line

    def _plant(self) -> str:
        return self.dice.choice(_PLANTS)

    def _filled(self, text: str) -> str:
        plant = self._plant()
        quoted = plant.replace("\\", "").replace("$", "\\$").replace('"', "").replace("`", "")
        named = "".join(sign for sign in plant if sign.isalnum() or sign in " .")
        filled = text.replace("{p}", plant).replace("{q}", quoted).replace("{n}", named)
        return filled.replace("{{", "{").replace("}}", "}")

    def _command(self) -> str:
        dice = self.dice
        parts = [dice.choice(_NAMES)]
        words = dice.choices(_SAFE_ARGUMENTS, k=dice.choice((0, 0, 1, 1, 2, 3)))
        parts.extend(map(self._filled, words))
        if dice.random() < 0.2:
            parts.append(dice.choice(_REDIRECTS))
        if dice.random() < 0.04:
            parts.append(self._filled(dice.choice(_BAD_REDIRECTS)))
        return " ".join(parts)

    def _echo(self) -> str:
        """Make a command that takes any words, so that many lines with plants are accepted."""
        dice = self.dice
        quoted = [text for text in _SAFE_ARGUMENTS if text[0] in "'\"\\"]
        words = [self._filled(dice.choice(quoted)) for _ in range(dice.randint(1, 3))]
        name = dice.choice(("echo", "echo", "printf '%s'", "basename", "grep -F -e", "true", ":"))
        return " ".join((name, *words))

    def _plain(self) -> str:
        dice = self.dice
        made = ""
        for number in range(dice.choice((1, 1, 1, 2, 2, 3))):
            if number:
                made += dice.choice(_BAD_JOINS if dice.random() < 0.04 else _JOINS)
            made += self._echo() if dice.random() < 0.5 else self._command()
        if dice.random() < 0.1:
            made += self._filled(dice.choice(_COMMENTS))
        return made

    def _shape(self) -> str:
        made = self._filled(self.dice.choice(_SHAPES))
        while self.dice.random() < 0.25:
            outer = self.dice.choice(_SHAPES)
            if "{p}" in outer:
                made = outer.replace("{p}", made).replace("{{", "{").replace("}}", "}")
            if len(made) > 200:
                break
        return made

    def _spliced(self) -> str:
        """Put a part of one line into another, or one behind the other."""
        dice = self.dice
        one = self._plain()
        other = dice.choice((self._shape, self._plain, lambda: dice.choice(self._kept)))()
        at = dice.randint(0, len(one))
        match dice.randrange(4):
            case 0:
                return one[:at] + other + one[at:]
            case 1:
                return one + dice.choice((*_JOINS, *_BAD_JOINS, " ", "")) + other
            case 2:
                return one[:at] + other[dice.randint(0, len(other)) :]
            case _:
                start = dice.randint(0, len(other))
                return one[:at] + other[start : start + dice.randint(1, 8)] + one[at:]

    def _scratched(self, line: str) -> str:
        """Change, drop, double or add one character."""
        dice = self.dice
        at = dice.randint(0, len(line))
        sign = dice.choice("'\"\\$`()[]{}<>|&;#!~=*? \t\n-+%^:@,.\r/")
        return dice.choice(
            (
                line[:at] + sign + line[at:],
                line[:at] + line[at + 1 :],
                line[:at] + sign + line[at + 1 :],
            )
        )
