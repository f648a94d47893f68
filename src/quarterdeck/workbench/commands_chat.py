"""Commands for the transcript and the input."""

from .command import Command

__all__ = ["CHAT_COMMANDS"]

CHAT_COMMANDS = (
    Command(name="search", help="search all of this transcript", target="reading:search"),
    Command(name="copy", help="copy the marked block, else the last answer", target="reading:copy"),
    Command(name="copy-answer", help="copy the last answer", target="reading:copy_answer"),
    Command(
        name="whole",
        help="put all of the marked block into a file, else of the last answer",
        target="reading:whole",
    ),
    Command(name="earlier-prompt", help="go to the prompt before", target="reading:earlier_prompt"),
    Command(name="later-prompt", help="go to the next prompt", target="reading:later_prompt"),
    Command(name="start", help="go to the beginning of the transcript", target="reading:start"),
    Command(name="fold", help="fold or unfold the marked block", target="reading:fold"),
    Command(name="queue", help="change or drop prompts that wait", target="writing:queue"),
    Command(
        name="attach",
        help="name a file in the prompt; an image goes along",
        target="writing:attach",
        asks="path of a file",
    ),
    Command(name="editor", help="write the prompt in your own editor", target="writing:editor"),
)
