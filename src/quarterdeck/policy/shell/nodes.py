"""The kinds of tree-sitter-bash's nodes that we know the meaning of. All others are doubts."""

__all__ = ["LEAVES", "TOKENS", "TRANSPARENT"]

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
