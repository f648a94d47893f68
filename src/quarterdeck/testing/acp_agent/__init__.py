"""A scripted ACP agent: a program whose prompts are commands.

Every test of a client, and every user who writes one, can make it do what real agents do: stream,
request permission, read and write files, run terminals, wait to be cancelled, flood, print garbage,
be chatty on stderr, crash, leave grandchildren behind. ``docs/fake-agent.md`` lists the commands;
``python -m quarterdeck.testing.acp_agent --help`` the ways in which it can misbehave.
"""
