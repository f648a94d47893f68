"""Our side of the Model Context Protocol: servers that lend tools to a session.

``finding`` reads which servers there are; ``servers`` are those of a session and ``server`` is one
that is kept alive; ``client`` talks to it in the words of ``protocol`` over ``stdio`` or ``http``;
``listing`` makes of what it says what a model may be shown, ``tool`` is one tool in the loop's
eyes, ``result`` what a call came to.
"""
