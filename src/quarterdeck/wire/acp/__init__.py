"""The Agent Client Protocol, version 1, on top of the JSON-RPC peer; both sides.

``schema`` has the types and methods, generated from the official schema; ``codec`` reads them,
as lenient as the schema says; ``connection`` and ``router`` are the two ends of a link. Content,
tool calls, permissions and settings are the values of ``quarterdeck.wire``: what an update
carries goes into an event unchanged.
"""
