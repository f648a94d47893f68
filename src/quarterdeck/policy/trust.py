"""Workspace trust: a repository cannot give itself permissions.

Until a person trusts a workspace, what its files allow does nothing: neither rules nor grants.
What they deny or ask about can only narrow, and holds. Grants that the person gave for the project
are kept outside it, and hold.
"""

from collections.abc import Iterable, Iterator

from .rules import Rule

__all__ = ["trusted_rules"]


def trusted_rules(rules: Iterable[Rule], trusted: bool) -> Iterator[Rule]:
    """Yield the rules that have an effect."""
    for rule in rules:
        if trusted or rule.effect != "allow" or rule.source.origin != "project file":
            yield rule
