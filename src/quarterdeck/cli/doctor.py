"""``quarterdeck doctor``: what is installed, what is missing, and how to get it."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from quarterdeck import __version__

from .findings import Finding, examine
from .output import echo

__all__ = ["doctor", "lines"]

TITLES = {"required": "Required", "useful": "Useful", "agent": "Agents"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Tell what is installed and what is missing.

    Ends with 1 if something is missing that nothing works without.
    """
    findings = examine()
    if as_json:
        echo(_json(findings))
    else:
        for line in lines(findings):
            echo(line)
    if any(finding.is_fatal for finding in findings):
        context.exit(1)


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """The findings for a person, in plain text."""
    yield f"Quarterdeck {__version__} on {sys.platform}"
    for kind, title in TITLES.items():
        ours = [finding for finding in findings if finding.kind == kind]
        yield ""
        yield title
        for finding in sorted(ours, key=lambda finding: finding.state != "found"):
            yield from _lines_of(finding)
    yield ""
    yield _verdict(findings)


def _lines_of(finding: Finding) -> Iterator[str]:
    version = finding.version or ""
    if finding.kind == "agent":
        about = finding.place or f"get it: {finding.advice}"
        yield f"  {finding.state:<8} {finding.name:<15} {version:<12} {about}".rstrip()
        return
    yield f"  {finding.state:<8} {finding.name:<15} {version:<12} {finding.purpose}".rstrip()
    for line in (finding.advice or "").splitlines():
        yield f"  {'':<8} {line}"


def _verdict(findings: Sequence[Finding]) -> str:
    if fatal := [finding.name for finding in findings if finding.is_fatal]:
        return f"Mend this first: {', '.join(fatal)}."
    agents = [finding for finding in findings if finding.kind == "agent"]
    count = sum(finding.state == "found" for finding in agents)
    return f"Ready. Agents found: {count} of the {len(agents)} that were looked for."


def _json(findings: Sequence[Finding]) -> str:
    import json

    return json.dumps(
        {
            "version": __version__,
            "ok": not any(finding.is_fatal for finding in findings),
            "findings": [asdict(finding) for finding in findings],
        },
        indent=2,
    )
