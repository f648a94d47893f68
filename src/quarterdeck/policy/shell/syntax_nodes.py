"""The kinds of tree-sitter-bash's nodes that we know the meaning of. All others are doubts.

The grammar is not always right: it takes a line's end before a backslash for a part of the next
word. So what a leaf may hold is checked, too.
"""

import re

__all__ = ["LEAVES", "RESERVED", "TOKENS", "TRANSPARENT", "holds"]

TRANSPARENT = frozenset(
    (
        *("program", "list", "pipeline", "redirected_statement", "negated_command", "subshell"),
        *("compound_statement", "if_statement", "elif_clause", "else_clause", "do_group"),
        *("case_statement", "case_item", "command_substitution", "process_substitution"),
        *("string", "concatenation", "array", "binary_expression", "unary_expression"),
        *("parenthesized_expression", "heredoc_body"),
    )
)
"""Nodes that do no more than their children."""

LEAVES = frozenset(
    (
        *("word", "number", "raw_string", "ansi_c_string", "string_content", "variable_name"),
        *("special_variable_name", "extglob_pattern", "regex", "test_operator"),
        *("heredoc_content", "heredoc_start", "heredoc_end", "file_descriptor"),
    )
)
"""Nodes that hold text only."""

_SIGNS = ("&&", "||", "|", "|&", ";", "\n", "!", "(", ")", "{", "}", '"', "$(", "`", "<(", ">(")
_KEYWORDS = ("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "in")
_OTHERS = (
    *("case", "esac", "[[", "]]", "[", "]", "=", "==", "!=", "=~", "<", ">", "$", "-a", "-o"),
    *("+=", "<<", "<<-", "<<<"),
)
TOKENS = frozenset((*_SIGNS, *_KEYWORDS, *_OTHERS))
"""Signs and keywords that do nothing by themselves."""

RESERVED = frozenset(
    (
        *("{", "}", "!", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until"),
        *("do", "done", "case", "esac", "in", "select", "function", "repeat", "foreach", "end"),
    )
)
"""Words that name no program where a command begins, in bash or zsh."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,\-*?~^]+")
_UNQUOTED_BREAK = re.compile(r"[\s;&|<>()`\"']")
_STRING_END = re.compile(r"[\"`]|\$[({\[]")
_FORMS = {
    "raw_string": re.compile(r"'[^']*'"),
    "ansi_c_string": re.compile(r"\$'(?:\\.|[^'\\])*'", re.DOTALL),
    "number": re.compile(r"[0-9A-Za-z_#@-]+"),
    "variable_name": re.compile(r"[A-Za-z0-9_]+"),
    "special_variable_name": re.compile(r"[^\s]"),
    "file_descriptor": re.compile(r"[0-9]+"),
}


def holds(kind: str, text: str) -> bool:
    """Say whether a leaf of that kind can have this text in every shell."""
    if kind == "word":
        if _PLAIN.fullmatch(text):
            return True
        return not _UNQUOTED_BREAK.search(_ESCAPED.sub("x", text))
    if kind == "string_content":
        return not _STRING_END.search(_ESCAPED.sub("x", text))
    form = _FORMS.get(kind)
    return form is None or form.fullmatch(text) is not None
