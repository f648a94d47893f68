"""The Agent Client Protocol, version 1, on top of the JSON-RPC peer; both sides.

``schema`` has the types and methods, generated from the official schema; ``connection`` reads them,
as lenient as the schema says, and has the two ends of a link with its ``Router``. Content,
tool calls, permissions and settings are the values of ``quarterdeck.wire``: what an update
carries goes into an event unchanged.
"""
