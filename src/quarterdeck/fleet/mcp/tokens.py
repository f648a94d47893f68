"""Who calls: one random token for each agent that runs, in memory alone.

An agent's token is made when it starts and given to it alone, by environment or header, never on a
command line. A later run gets another one.
"""

import hashlib
import secrets

from quarterdeck.wire.ids import SessionId

__all__ = ["TOKEN_VARIABLE", "URL_VARIABLE", "AgentTokens"]

TOKEN_VARIABLE = "QUARTERDECK_TOKEN"
"""Where the bridge finds the token."""
URL_VARIABLE = "QUARTERDECK_MCP_URL"
"""Where the bridge finds the address of the host's tools."""


class AgentTokens:
    """The tokens in force. Only their digests are kept."""

    def __init__(self) -> None:
        self._holders: dict[bytes, SessionId] = {}

    def issue(self, session: SessionId) -> str:
        """A new token for a session; the one before it is worth nothing from now on."""
        self.revoke(session)
        token = secrets.token_urlsafe(32)
        self._holders[_digest(token)] = session
        return token

    def holder(self, token: str) -> SessionId | None:
        """Whose token this is; None if no one's.

        Looked up by its digest, so that the time it takes tells nothing about the token.
        """
        return self._holders.get(_digest(token))

    def revoke(self, session: SessionId) -> None:
        """Make a session's token worthless."""
        for digest, holder in tuple(self._holders.items()):
            if holder == session:
                del self._holders[digest]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
