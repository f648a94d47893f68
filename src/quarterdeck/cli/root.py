"""The command ``quarterdeck``: its own options, and the names of its commands."""

import click

from quarterdeck import __version__

from .lazy_group import LazyCommand, LazyGroup

__all__ = ["COMMANDS", "root"]

COMMANDS = {
    "acp": LazyCommand("quarterdeck.cli.acp:acp", "Serve our own agent to an editor."),
    "run": LazyCommand(
        "quarterdeck.cli.headless.command:run", "Run our own agent, or another, on PROMPT."
    ),
    "demo": LazyCommand("quarterdeck.cli.demo:demo", "Watch two agents work; no key needed."),
    "agents": LazyCommand("quarterdeck.cli.agents:agents", "List the known agents."),
    "login": LazyCommand("quarterdeck.cli.login:login", "Log in to the agent NAME."),
    "doctor": LazyCommand(
        "quarterdeck.cli.doctor:doctor", "Show what is installed and what is missing."
    ),
    "config": LazyCommand("quarterdeck.cli.config:config", "Show and check the settings."),
    "mcp-servers": LazyCommand(
        "quarterdeck.cli.mcp_servers:mcp_servers",
        "Show and test the MCP servers of our own agent.",
    ),
    "hooks": LazyCommand(
        "quarterdeck.cli.hooks:hooks", "Show and test the hooks of our own agent."
    ),
    "permissions": LazyCommand(
        "quarterdeck.cli.permissions.command:permissions",
        "Show and change what agents may do without asking.",
    ),
    "journal": LazyCommand(
        "quarterdeck.cli.journal:journal",
        "Inspect and maintain the log of every session.",
    ),
    "ps": LazyCommand("quarterdeck.cli.fleet.sessions:ps", "List the agents."),
    "spawn": LazyCommand("quarterdeck.cli.fleet.spawn:spawn", "Start an agent on PROMPT."),
    "lead": LazyCommand("quarterdeck.cli.fleet.lead:lead", "Start a lead agent."),
    "attach": LazyCommand("quarterdeck.cli.fleet.attach:attach", "Follow AGENT in this terminal."),
    "send": LazyCommand("quarterdeck.cli.fleet.agent_control:send", "Send AGENT a prompt."),
    "hand-over": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:hand_over", "Hand AGENT's work to another agent."
    ),
    "inbox": LazyCommand("quarterdeck.cli.fleet.inbox:inbox", "Show open requests."),
    "answer": LazyCommand("quarterdeck.cli.fleet.inbox:answer", "Answer a request."),
    "logs": LazyCommand("quarterdeck.cli.fleet.logs:logs", "Show the transcript of AGENT."),
    "wait": LazyCommand("quarterdeck.cli.fleet.agent_control:wait", "Wait until agents are idle."),
    "interrupt": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:interrupt", "Interrupt the running turn of each agent."
    ),
    "kill": LazyCommand(
        "quarterdeck.cli.fleet.agent_control:kill",
        "Kill agents, their children and all their processes.",
    ),
    "close": LazyCommand("quarterdeck.cli.fleet.agent_control:close", "Close agents in order."),
    "resume": LazyCommand("quarterdeck.cli.fleet.spawn:resume", "Resume AGENT where it ended."),
    "fork": LazyCommand("quarterdeck.cli.fleet.spawn:fork", "Start a copy of AGENT."),
    "rename": LazyCommand("quarterdeck.cli.fleet.agent_control:rename", "Rename AGENT."),
    "archive": LazyCommand("quarterdeck.cli.fleet.agent_control:archive", "Archive agents."),
    "search": LazyCommand(
        "quarterdeck.cli.fleet.sessions:search",
        "Search the messages of agents and people.",
    ),
    "sessions": LazyCommand("quarterdeck.cli.fleet.sessions:sessions", "List every session."),
    "history": LazyCommand(
        "quarterdeck.cli.history:history",
        "List the sessions that other agents store on disk.",
    ),
    "terminal": LazyCommand(
        "quarterdeck.cli.fleet.terminal:terminal",
        "Run programs in terminals that outlive this one.",
    ),
    "host": LazyCommand(
        "quarterdeck.cli.fleet.host:host", "Manage the process that owns the agents."
    ),
    "mcp": LazyCommand("quarterdeck.cli.mcp:mcp", "Give an agent the fleet's tools.", hidden=True),
    "testing": LazyCommand(
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
    """Command many coding agents, of any vendor, from one place."""
    del debug  # ``run`` looks for it itself, because it must know when parsing fails.
    if context.invoked_subcommand is None:
        from .welcome import welcome

        welcome()
