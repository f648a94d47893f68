"""Commands for keys, colours, the table of agents, the feed and custom widgets, as rows."""

__all__ = ["ROWS"]

ROWS: tuple[tuple[str, str, str, str | None], ...] = (
    ("next", "show the next agent", "binding:show_next", None),
    ("previous", "show the previous agent", "binding:show_previous", None),
    ("stop", "copy what is selected, else interrupt the agent", "binding:stop", None),
    ("go", "move the focus to agents or transcript", "binding:go", "agents or transcript"),
    ("panel", "go to the next panel, or the previous", "binding:cycle", "next or previous"),
    ("resize", "move the line beside the panel", "binding:resize", "left, right, up or down"),
    ("palette", "every command by name", "binding:open_palette", None),
    ("keys", "every key, and how to bind another", "binding:show_keys", None),
    ("bind", "let a key do a command", "binding:bind", "key, command and its words"),
    ("unbind", "let a key do nothing", "binding:unbind", "key"),
    ("rebind", "give a key back what it does by itself", "binding:rebind", "key"),
    ("themes", "choose other colours", "dressing:show_themes", None),
    ("theme", "put on other colours: NAME, or NAME here", "dressing:put_on", "name of a theme"),
    ("sort", "sort the agents: need, name, state, time, …", "tabling:sort", "column"),
    ("filter", "show only agents with these words; none: all", "tabling:narrow", None),
    ("columns", "choose the columns of the agents; none: by width", "tabling:columns", None),
    ("here", "show only agents of this directory, or all", "tabling:here", None),
    ("feed", "what all agents do: audit, agents, notices or debug", "feeding:show_feed", None),
    ("widgets", "custom widgets and what became of them", "custom.commands:show", None),
    ("widget", "approve NAME or forget NAME", "custom.commands:decide", "approve NAME"),
)
"""Name, help, target, and what has to be typed after the name."""
