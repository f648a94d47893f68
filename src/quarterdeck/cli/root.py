"""The command ``quarterdeck``: its own options, and the names of its commands."""

import click

from quarterdeck import __version__

from .lazy import Later, LazyGroup

__all__ = ["COMMANDS", "root"]

COMMANDS = {
    "acp": Later("quarterdeck.cli.acp:acp", "Serve our own agent to an editor."),
    "run": Later(
        "quarterdeck.cli.headless.command:run", "Run our own agent, or another, on PROMPT."
    ),
    "demo": Later("quarterdeck.cli.demo:demo", "See two agents at work; no key needed."),
    "agents": Later("quarterdeck.cli.agents:agents", "List the agents that can be used."),
    "login": Later("quarterdeck.cli.login:login", "Log in to the agent NAME."),
    "doctor": Later("quarterdeck.cli.doctor:doctor", "Tell what is installed and what is missing."),
    "config": Later("quarterdeck.cli.config:config", "Show and check the settings."),
    "mcp-servers": Later(
        "quarterdeck.cli.mcp_servers:mcp_servers",
        "Show and try the MCP servers that lend tools to our own agent.",
    ),
    "hooks": Later("quarterdeck.cli.hooks:hooks", "Show and try the hooks of our own agent."),
    "permissions": Later(
        "quarterdeck.cli.permissions.command:permissions",
        "Show and change what agents may do without asking.",
    ),
    "journal": Later(
        "quarterdeck.cli.journal:journal",
        "Look after the log of every session.",
    ),
    "ps": Later("quarterdeck.cli.fleet.listing:ps", "List the agents."),
    "spawn": Later("quarterdeck.cli.fleet.beginning:spawn", "Start an agent on PROMPT."),
    "lead": Later("quarterdeck.cli.fleet.lead:lead", "Start an agent that leads others."),
    "attach": Later("quarterdeck.cli.fleet.attach:attach", "Follow AGENT in this terminal."),
    "send": Later("quarterdeck.cli.fleet.steering:send", "Give AGENT a prompt."),
    "hand-over": Later("quarterdeck.cli.fleet.steering:hand_over", "Hand AGENT's work to another."),
    "inbox": Later("quarterdeck.cli.fleet.inbox:inbox", "Show what agents ask for."),
    "answer": Later("quarterdeck.cli.fleet.inbox:answer", "Answer a request."),
    "logs": Later("quarterdeck.cli.fleet.logs:logs", "Show what AGENT said and did."),
    "wait": Later("quarterdeck.cli.fleet.steering:wait", "Wait until agents are at rest."),
    "interrupt": Later(
        "quarterdeck.cli.fleet.steering:interrupt", "End the turn that each agent works on."
    ),
    "kill": Later("quarterdeck.cli.fleet.steering:kill", "End agents and all their processes now."),
    "close": Later("quarterdeck.cli.fleet.steering:close", "End agents in good order."),
    "resume": Later("quarterdeck.cli.fleet.beginning:resume", "Start AGENT again where it ended."),
    "fork": Later("quarterdeck.cli.fleet.beginning:fork", "Start a copy of AGENT."),
    "rename": Later("quarterdeck.cli.fleet.steering:rename", "Call AGENT by another name."),
    "archive": Later("quarterdeck.cli.fleet.steering:archive", "Put agents away."),
    "search": Later(
        "quarterdeck.cli.fleet.listing:search",
        "Find WORDS in everything that agents and people said.",
    ),
    "sessions": Later("quarterdeck.cli.fleet.listing:sessions", "List every session."),
    "history": Later(
        "quarterdeck.cli.history:history",
        "List the sessions that other agents keep on disk.",
    ),
    "terminal": Later(
        "quarterdeck.cli.fleet.terminal:terminal",
        "Run programs in terminals that outlive this one.",
    ),
    "host": Later(
        "quarterdeck.cli.fleet.host:host", "Look after the process that owns the agents."
    ),
    "mcp": Later("quarterdeck.cli.mcp:mcp", "Give an agent the fleet's tools.", hidden=True),
    "testing": Later(
        "quarterdeck.cli.testing:testing", "Run the fakes that tests use.", hidden=True
    ),
}


@click.group(
    cls=LazyGroup,
    later=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help.",
)
@click.version_option(__version__, "-V", "--version", message="quarterdeck %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks (also: QUARTERDECK_DEBUG=1).")
@click.pass_context
def root(context: click.Context, debug: bool) -> None:
    """Command many coding agents, of any make, from one place."""
    del debug  # ``run`` looks for it itself, because it must know when parsing fails.
    if context.invoked_subcommand is None:
        from .welcome import welcome

        welcome()
