"""The text form of rules: what is read, what is refused and where."""

import pytest

from quarterdeck.policy import RuleError, parse_pattern, parse_rule, print_pattern, print_rule
from quarterdeck.policy.rules import McpPattern, PathPattern, ShellPattern


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("*", "*"),
        ("bash", "bash"),
        ("bash(git status)", "bash(git status)"),
        ("bash(git log:*)", "bash(git log:*)"),
        ("bash(git log *)", "bash(git log:*)"),
        ("bash( git   log :*)", "bash(git log:*)"),
        ("bash(git commit -m 'a b')", "bash(git commit -m 'a b')"),
        ('bash(echo "(x)")', "bash(echo '(x)')"),
        ("bash(FOO=1 make)", "bash(FOO=1 make)"),
        ("read(~/notes/**)", "read(~/notes/**)"),
        ("edit(src/(group)/a b.ts)", "edit(src/(group)/a b.ts)"),
        ("edit", "edit"),
        ("fetch(Docs.Python.org)", "fetch(docs.python.org)"),
        ("fetch(*.example.com:8080)", "fetch(*.example.com:8080)"),
        ("fetch(localhost:*)", "fetch(localhost:*)"),
        ("fetch([::1]:80)", "fetch([::1]:80)"),
        ("mcp(github:create_issue)", "mcp(github:create_issue)"),
        ("mcp(github)", "mcp(github)"),
        ("mcp(github:*)", "mcp(github)"),
        ("tool(TodoWrite)", "tool(TodoWrite)"),
    ],
)
def test_a_pattern_is_read_and_printed(text: str, printed: str):
    pattern = parse_pattern(text)
    assert print_pattern(pattern) == printed
    assert parse_pattern(printed) == pattern


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "'*', 'bash'"),
        ("bsh(git)", 0, "tool(bsh)"),
        ("Bash(git)", 0, "'bash' in place of 'Bash'"),
        ("write(x)", 0, "'edit' in place of 'write'"),
        ("bash(git", 8, "')'"),
        ("bash (git)", 4, "'(' or the end"),
        ("bash()", 5, "something between"),
        ("bash(:*)", 5, "a command before"),
        ("bash(git status && ls)", 16, "one plain command"),
        ("bash(git log*)", 12, "one plain command"),
        ("bash(ls $x)", 8, "one plain command"),
        ("bash(ls 'x)", 5, "closed quotes"),
        ("read(../x)", 5, "without '..'"),
        ("edit(src/**x)", 9, "'**' as a whole part"),
        ("read(~root/x)", 5, "'~/'"),
        ("fetch(https://a.com)", 6, "a host such as"),
        ("fetch(a.*.com)", 6, "'*' may only stand"),
        ("fetch(a.com:0)", 6, "a port"),
        ("mcp(a b)", 4, "a server's name"),
        ("mcp(a:b*)", 6, "a tool's whole name"),
        ("tool", 4, "a tool's name"),
        ("read(a\nb)", 5, "one line"),
    ],
)
def test_a_wrong_pattern_says_where_and_what_was_expected(text: str, position: int, expected: str):
    with pytest.raises(RuleError) as caught:
        parse_pattern(text)
    assert caught.value.position == position
    assert expected in caught.value.expected
    assert repr(text) in str(caught.value)


def test_a_rule_has_an_effect():
    rule = parse_rule("deny bash(rm)", scope="project")
    assert (rule.effect, rule.scope) == ("deny", "project")
    assert print_rule(rule) == "deny bash(rm)"


@pytest.mark.parametrize(
    ("text", "position"), [("bash(rm)", 0), ("forbid bash", 0), ("deny  bsh", 6)]
)
def test_a_wrong_rule_says_where(text: str, position: int):
    with pytest.raises(RuleError) as caught:
        parse_rule(text)
    assert caught.value.position == position


def test_quoted_words_stay_whole():
    assert parse_pattern("bash(sh -c 'a && b')") == ShellPattern(words=("sh", "-c", "a && b"))
    assert parse_pattern("bash(echo ':*')") == ShellPattern(words=("echo", ":*"))
    assert parse_pattern("edit(a/)") == PathPattern(access="write", glob="a/")
    assert parse_pattern("mcp(a:b:c)") == McpPattern(server="a", tool="b:c")
