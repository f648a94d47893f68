"""The vocabulary of the whole system. Imports nothing of ours.

``ids``, ``content``, ``toolcalls``, ``permissions``, ``settings``, ``usage`` and
``conversation`` are the values; ``events`` says what can happen; ``record`` puts an event in its
place and gives it its JSON form; ``errors`` are the words for failure; ``rpc`` is the JSON-RPC
peer and ``acp`` the Agent Client Protocol on top of it.
"""
