"""What some agents do differently from the protocol, by the names that their files use.

=====================  ============================================================================
``empty-for-missing``  It asks to read a file before it creates it, and takes any error as a failure
                       of its tool. A missing file is answered as an empty one.
``echoes-prompts``     It sends each prompt back as a user's message. Those are left out while a
                       turn runs; in a replay they are history and stay.
``never-asks``         It never asks for permission. A mode of ours is then what its file
                       has words for; opening with another one fails.
``streams-input``      It shows the arguments of a call as the text of the call while they grow, and
                       asks for permission without them. The text of other agents' calls is never
                       read as arguments: a model may have written it.
``leaves-at-start``    It may end while it starts if another one of it starts beside it for the
                       first time on a machine: it makes its database without a lock. It is started
                       once more. Known for every transport.
=====================  ============================================================================

What needs no name because it is always tolerated: a banner on the output; a call that is first
reported with its permission request; calls that never end; ``models`` beside the session's options;
a command line given as one word to a terminal; error codes that are none; requests that the
protocol does not know, which are answered with -32601.
"""

from typing import Final

__all__ = [
    "ECHOES_PROMPTS",
    "EMPTY_FOR_MISSING",
    "KNOWN",
    "LEAVES_AT_START",
    "NEVER_ASKS",
    "STREAMS_INPUT",
]

EMPTY_FOR_MISSING: Final = "empty-for-missing"
ECHOES_PROMPTS: Final = "echoes-prompts"
NEVER_ASKS: Final = "never-asks"
STREAMS_INPUT: Final = "streams-input"
LEAVES_AT_START: Final = "leaves-at-start"
KNOWN: Final = frozenset(
    (EMPTY_FOR_MISSING, ECHOES_PROMPTS, NEVER_ASKS, STREAMS_INPUT, LEAVES_AT_START)
)
"""Every name that means something here."""
