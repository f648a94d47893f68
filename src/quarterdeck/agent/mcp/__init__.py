"""Our side of the Model Context Protocol: servers that lend tools to a session.

``servers`` finds the servers of a session and runs them, ``server`` keeps one alive,
``client`` talks to it in the words of ``protocol`` over ``stdio`` or ``http``, ``tool_list``
makes of its list what a model may be shown, ``tool`` is one of its tools. Imported when a
server is configured.
"""
