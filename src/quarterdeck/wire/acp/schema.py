"""Types and methods of the Agent Client Protocol, version 1.

Generated from the JSON schema of @agentclientprotocol/sdk 2.4.0 by tools/generate_acp.py.
Do not edit; regenerate with: .venv/bin/python tools/generate_acp.py
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from ..content import (
    Annotations,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from ..permissions import (
    PermissionOption,
    PermissionOutcome,
)
from ..settings import (
    Command,
    ConfigChoice,
    ConfigOption,
    Mode,
    PlanEntry,
)
from ..tool_calls import (
    Diff,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolKind,
)
from ..usage import (
    Cost,
)
from ..values import AcpValue
from .methods import Method, Notification
from .leniency import Leniency, require

__all__ = [
    "AGENT_METHODS",
    "AGENT_NOTIFICATIONS",
    "AUTHENTICATE",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "ArchiveSessionRequest",
    "AuthCapabilities",
    "AuthMethod",
    "AuthenticateRequest",
    "AvailableCommandsUpdate",
    "CANCEL_REQUEST",
    "CLIENT_METHODS",
    "CLIENT_NOTIFICATIONS",
    "CancelNotification",
    "CancelRequestNotification",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CloseSessionRequest",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "CompleteElicitationNotification",
    "ConfigOptionUpdate",
    "ContentChunk",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "CurrentModeUpdate",
    "DeleteSessionRequest",
    "ELICITATION_COMPLETE",
    "ELICITATION_CREATE",
    "ElicitationCapabilities",
    "ElicitationProperty",
    "ElicitationSchema",
    "Empty",
    "EnumOption",
    "EnvVariable",
    "FS_READ_TEXT_FILE",
    "FS_WRITE_TEXT_FILE",
    "FileSystemCapabilities",
    "ForkSessionRequest",
    "ForkSessionResponse",
    "HttpHeader",
    "INITIALIZE",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "KillTerminalRequest",
    "LOGOUT",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "McpCapabilities",
    "McpServer",
    "MultiSelectItems",
    "NewSessionRequest",
    "NewSessionResponse",
    "Notice",
    "Plan",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "SESSION_ARCHIVE",
    "SESSION_CANCEL",
    "SESSION_CLOSE",
    "SESSION_DELETE",
    "SESSION_FORK",
    "SESSION_LIST",
    "SESSION_LOAD",
    "SESSION_NEW",
    "SESSION_PROMPT",
    "SESSION_REQUEST_PERMISSION",
    "SESSION_RESUME",
    "SESSION_SET_CONFIG_OPTION",
    "SESSION_SET_MODE",
    "SESSION_SET_TITLE",
    "SESSION_STATUS",
    "SESSION_UNARCHIVE",
    "SESSION_UPDATE",
    "SessionCapabilities",
    "SessionConfigOptionsCapabilities",
    "SessionInfo",
    "SessionInfoUpdate",
    "SessionModeState",
    "SessionNotification",
    "SessionStatusRequest",
    "SessionStatusResponse",
    "SessionSystemPromptCapabilities",
    "SessionSystemPromptModeCapabilities",
    "SessionUpdate",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SetSessionModeRequest",
    "SetSessionTitleRequest",
    "SetSessionTitleResponse",
    "SystemPrompt",
    "TERMINAL_CREATE",
    "TERMINAL_KILL",
    "TERMINAL_OUTPUT",
    "TERMINAL_RELEASE",
    "TERMINAL_WAIT_FOR_EXIT",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "ToolCall",
    "ToolCallDetails",
    "ToolCallUpdate",
    "UnarchiveSessionRequest",
    "UnknownUpdate",
    "Usage",
    "UsageUpdate",
    "UserMessageChunk",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WriteTextFileRequest",
    "leniency",
]


class Empty(AcpValue, frozen=True, kw_only=True):
    """Nothing but room for ``_meta``: a capability that is there, parameters that are not."""


class UnknownUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="_unknown"
):
    """An update that is no other one of ``SessionUpdate``: a new kind, or one with a mistake."""

    kind: str
    """Its ``sessionUpdate``."""
    raw: Raw
    """The whole update as it came."""


class ContentChunk(AcpValue, frozen=True, kw_only=True):
    """A streamed item of content."""

    content: ContentBlock
    message_id: str | None = None


class UserMessageChunk(
    ContentChunk, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="user_message_chunk"
):
    """``user_message_chunk``: A streamed item of content."""


class AgentMessageChunk(
    ContentChunk, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_message_chunk"
):
    """``agent_message_chunk``: A streamed item of content."""


class AgentThoughtChunk(
    ContentChunk, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_thought_chunk"
):
    """``agent_thought_chunk``: A streamed item of content."""


class ToolCall(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"
):
    """Represents a tool call that the language model has requested."""

    tool_call_id: str
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None


class ToolCallDetails(AcpValue, frozen=True, kw_only=True):
    """An update to an existing tool call."""

    tool_call_id: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    title: str | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


class ToolCallUpdate(
    ToolCallDetails, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"
):
    """``tool_call_update``: An update to an existing tool call."""


class Plan(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan"
):
    """An execution plan for accomplishing complex tasks."""

    entries: tuple[PlanEntry, ...]


class AvailableCommandsUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    """Available commands are ready or have changed."""

    available_commands: tuple[Command, ...]


class CurrentModeUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="current_mode_update"
):
    """The current mode of the session has changed."""

    current_mode_id: str


class ConfigOptionUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="config_option_update"
):
    """Session configuration options have been updated."""

    config_options: tuple[ConfigOption, ...]


class SessionInfoUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"
):
    """Update to session metadata."""

    title: str | None | UnsetType = UNSET
    updated_at: str | None | UnsetType = UNSET


class UsageUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="usage_update"
):
    """Context window and cost update for a session."""

    used: int
    size: int
    cost: Cost | None = None


class Notice(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="notice"
):
    """Fire-and-forget information for the user."""

    severity: str
    """Known: ``info``, ``warning``, ``error``."""
    title: str
    description: str | None = None


class CompactionUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_update"
):
    """A context compaction upsert."""

    compaction_id: str
    status: str
    """Known: ``in_progress``, ``completed``, ``failed``, ``cancelled``."""
    summary: tuple[ContentBlock, ...] | None | UnsetType = UNSET
    error: str | None | UnsetType = UNSET


class CompactionSummaryChunk(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_summary_chunk"
):
    """A content block appended to a compaction's summary."""

    compaction_id: str
    content: ContentBlock


class CancelRequestNotification(AcpValue, frozen=True, kw_only=True):
    """Notification to cancel an ongoing request."""

    request_id: int | str | None


class AuthenticateRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for the authenticate method."""

    method_id: str


class CompleteElicitationNotification(AcpValue, frozen=True, kw_only=True):
    """Notification sent by the agent when a URL-based elicitation is complete."""

    elicitation_id: str


class EnumOption(AcpValue, frozen=True, kw_only=True):
    """EnumOption."""

    const: str
    title: str
    description: str | None = None


class MultiSelectItems(AcpValue, frozen=True, kw_only=True):
    """Items for a multi-select (array) property schema."""

    type: str | None = None
    enum: tuple[str, ...] | None = None
    any_of: tuple[EnumOption, ...] | None = None


class ElicitationProperty(AcpValue, frozen=True, kw_only=True):
    """Property schema for elicitation form fields."""

    type: str
    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    """Known: ``email``, ``uri``, ``date``, ``date-time``."""
    default: str | float | int | bool | tuple[str, ...] | None = None
    enum: tuple[str, ...] | None = None
    one_of: tuple[EnumOption, ...] | None = None
    minimum: float | int | None = None
    maximum: float | int | None = None
    min_items: int | None = None
    max_items: int | None = None
    items: MultiSelectItems | None = None


class ElicitationSchema(AcpValue, frozen=True, kw_only=True):
    """Type-safe elicitation schema for requesting structured user input."""

    type: str = "object"
    """Known: ``object``."""
    title: str | None = None
    properties: dict[str, ElicitationProperty] = {}
    required: tuple[str, ...] | None = None
    description: str | None = None


class CreateElicitationRequest(AcpValue, frozen=True, kw_only=True):
    """Request from the agent to elicit structured user input."""

    message: str
    mode: str
    requested_schema: ElicitationSchema | None = None
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None | UnsetType = UNSET
    elicitation_id: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        require(
            self,
            self.mode,
            {
                "form": ("requested_schema", ),
                "url": ("elicitation_id", "url", ),
            },
        )


class CreateElicitationResponse(AcpValue, frozen=True, kw_only=True):
    """Response from the client to an elicitation request."""

    action: str
    content: dict[str, str | int | float | bool | tuple[str, ...]] | None = None


class ReadTextFileRequest(AcpValue, frozen=True, kw_only=True):
    """Request to read content from a text file."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(AcpValue, frozen=True, kw_only=True):
    """Response containing the contents of a text file."""

    content: str


class WriteTextFileRequest(AcpValue, frozen=True, kw_only=True):
    """Request to write content to a text file."""

    session_id: str
    path: str
    content: str


class FileSystemCapabilities(AcpValue, frozen=True, kw_only=True):
    """File system capabilities that a client may support."""

    read_text_file: bool = False
    write_text_file: bool = False


class SessionConfigOptionsCapabilities(AcpValue, frozen=True, kw_only=True):
    """Session configuration option capabilities supported by the client."""

    boolean: Empty | None = None


class ClientSessionCapabilities(AcpValue, frozen=True, kw_only=True):
    """Session-related capabilities supported by the client."""

    compaction: Empty | None = None
    config_options: SessionConfigOptionsCapabilities | None = None
    notices: Empty | None = None


class AuthCapabilities(AcpValue, frozen=True, kw_only=True):
    """Authentication capabilities supported by the client."""

    terminal: bool = False


class ElicitationCapabilities(AcpValue, frozen=True, kw_only=True):
    """Elicitation capabilities supported by the client."""

    form: Empty | None = None
    url: Empty | None = None


class ClientCapabilities(AcpValue, frozen=True, kw_only=True):
    """Capabilities supported by the client."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    subagents: Empty | None = None
    """Unstable."""
    auth: AuthCapabilities = AuthCapabilities()
    elicitation: ElicitationCapabilities | None = None


class Implementation(AcpValue, frozen=True, kw_only=True):
    """Metadata about the implementation of the client or agent."""

    name: str
    version: str
    title: str | None = None


class InitializeRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for the initialize method."""

    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class PromptCapabilities(AcpValue, frozen=True, kw_only=True):
    """Prompt capabilities supported by the agent in `session/prompt` requests."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(AcpValue, frozen=True, kw_only=True):
    """MCP capabilities supported by the agent."""

    http: bool = False
    sse: bool = False


class SessionSystemPromptModeCapabilities(AcpValue, frozen=True, kw_only=True):
    """System prompt delivery modes the agent supports in addition to `append`."""

    override: Empty | None = None


class SessionSystemPromptCapabilities(AcpValue, frozen=True, kw_only=True):
    """Capabilities for client-provided system prompts."""

    mode: SessionSystemPromptModeCapabilities | None = None


class SessionCapabilities(AcpValue, frozen=True, kw_only=True):
    """Session capabilities supported by the agent."""

    list: Empty | None = None
    delete: Empty | None = None
    additional_directories: Empty | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None
    """Unstable."""
    fork: Empty | None = None
    """Unstable."""
    archive: Empty | None = None
    """Unstable."""
    status: Empty | None = None
    """Unstable."""
    title: Empty | None = None
    """Unstable."""
    resume: Empty | None = None
    close: Empty | None = None


class AgentAuthCapabilities(AcpValue, frozen=True, kw_only=True):
    """Authentication-related capabilities supported by the agent."""

    logout: Empty | None = None


class AgentCapabilities(AcpValue, frozen=True, kw_only=True):
    """Capabilities supported by the agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AgentAuthCapabilities = AgentAuthCapabilities()


class AuthMethod(AcpValue, frozen=True, kw_only=True):
    """Describes an available authentication method."""

    id: str
    name: str
    type: str | None = None
    description: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class InitializeResponse(AcpValue, frozen=True, kw_only=True):
    """Response to the `initialize` method."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: tuple[AuthMethod, ...] = ()
    agent_info: Implementation | None = None


class ArchiveSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for archiving a session."""

    session_id: str


class CancelNotification(AcpValue, frozen=True, kw_only=True):
    """Notification to cancel ongoing operations for a session."""

    session_id: str


class CloseSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for closing an active session."""

    session_id: str


class DeleteSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for deleting an existing session from `session/list`."""

    session_id: str


class HttpHeader(AcpValue, frozen=True, kw_only=True):
    """An HTTP header to set when making requests to the MCP server."""

    name: str
    value: str


class EnvVariable(AcpValue, frozen=True, kw_only=True):
    """An environment variable to set when launching an MCP server."""

    name: str
    value: str


class McpServer(AcpValue, frozen=True, kw_only=True):
    """Configuration for connecting to an MCP (Model Context Protocol) server."""

    name: str
    type: str | None = None
    url: str | None = None
    headers: tuple[HttpHeader, ...] | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVariable, ...] | None = None

    def __post_init__(self) -> None:
        require(
            self,
            self.type,
            {
                "http": ("headers", "url", ),
                "sse": ("headers", "url", ),
                None: ("args", "command", "env", ),
            },
        )


class SystemPrompt(AcpValue, frozen=True, kw_only=True):
    """Client-provided system-level instructions for a session."""

    mode: str
    """Known: ``append``, ``override``."""
    content: tuple[ContentBlock, ...]


class ForkSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for forking an existing session."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None


class SessionModeState(AcpValue, frozen=True, kw_only=True):
    """The set of modes and the one currently active."""

    current_mode_id: str
    available_modes: tuple[Mode, ...]


class ForkSessionResponse(AcpValue, frozen=True, kw_only=True):
    """Response from forking an existing session."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class ListSessionsRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for listing existing sessions."""

    cwd: str | None = None
    cursor: str | None = None
    archived: str | None = None
    """Unstable. Known: ``exclude``, ``include``, ``only``."""


class SessionInfo(AcpValue, frozen=True, kw_only=True):
    """Information about a session returned by session/list."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None
    """Unstable."""


class ListSessionsResponse(AcpValue, frozen=True, kw_only=True):
    """Response from listing sessions."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class LoadSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for loading an existing session."""

    mcp_servers: tuple[McpServer, ...]
    cwd: str
    session_id: str
    additional_directories: tuple[str, ...] = ()
    system_prompt: SystemPrompt | None = None
    """Unstable."""


class LoadSessionResponse(AcpValue, frozen=True, kw_only=True):
    """Response from loading an existing session."""

    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class NewSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for creating a new session."""

    cwd: str
    mcp_servers: tuple[McpServer, ...]
    additional_directories: tuple[str, ...] = ()
    system_prompt: SystemPrompt | None = None
    """Unstable."""


class NewSessionResponse(AcpValue, frozen=True, kw_only=True):
    """Response from creating a new session."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class PromptRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for sending a user prompt to the agent."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


class Usage(AcpValue, frozen=True, kw_only=True):
    """Token usage information for a prompt turn."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptResponse(AcpValue, frozen=True, kw_only=True):
    """Response from processing a user prompt."""

    stop_reason: str
    """Known: ``end_turn``, ``max_tokens``, ``max_turn_requests``, ``refusal``, ``cancelled``."""
    usage: Usage | None = None
    """Unstable."""


class RequestPermissionRequest(AcpValue, frozen=True, kw_only=True):
    """Request for user permission to execute a tool call."""

    session_id: str
    tool_call: ToolCallDetails
    options: tuple[PermissionOption, ...]


class RequestPermissionResponse(AcpValue, frozen=True, kw_only=True):
    """Response to a permission request."""

    outcome: PermissionOutcome


class ResumeSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for resuming an existing session."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    """Unstable."""


class ResumeSessionResponse(AcpValue, frozen=True, kw_only=True):
    """Response from resuming an existing session."""

    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class SetSessionConfigOptionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for setting a session configuration option."""

    session_id: str
    config_id: str
    value: bool | str
    type: str | None = None


class SetSessionConfigOptionResponse(AcpValue, frozen=True, kw_only=True):
    """Response to `session/set_config_option` method."""

    config_options: tuple[ConfigOption, ...]


class SetSessionModeRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for setting a session mode."""

    session_id: str
    mode_id: str


class SetSessionTitleRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for setting the title of a session."""

    session_id: str
    title: str


class SetSessionTitleResponse(AcpValue, frozen=True, kw_only=True):
    """Response from setting the title of a session."""

    title: str


class SessionStatusRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for checking the status of a session."""

    session_id: str


class SessionStatusResponse(AcpValue, frozen=True, kw_only=True):
    """Response from checking the status of a session."""

    status: str
    """Known: ``open``, ``saved``."""


class UnarchiveSessionRequest(AcpValue, frozen=True, kw_only=True):
    """Request parameters for unarchiving a session."""

    session_id: str


class SessionNotification(AcpValue, frozen=True, kw_only=True):
    """Notification containing a session update from the agent."""

    session_id: str
    update: SessionUpdate


class CreateTerminalRequest(AcpValue, frozen=True, kw_only=True):
    """Request to create a new terminal and execute a command."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[EnvVariable, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResponse(AcpValue, frozen=True, kw_only=True):
    """Response containing the ID of the created terminal."""

    terminal_id: str


class KillTerminalRequest(AcpValue, frozen=True, kw_only=True):
    """Request to kill a terminal without releasing it."""

    session_id: str
    terminal_id: str


class TerminalOutputRequest(AcpValue, frozen=True, kw_only=True):
    """Request to get the current output and status of a terminal."""

    session_id: str
    terminal_id: str


class TerminalExitStatus(AcpValue, frozen=True, kw_only=True):
    """Exit status of a terminal command."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(AcpValue, frozen=True, kw_only=True):
    """Response containing the terminal output and exit status."""

    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None


class ReleaseTerminalRequest(AcpValue, frozen=True, kw_only=True):
    """Request to release a terminal and free its resources."""

    session_id: str
    terminal_id: str


class WaitForTerminalExitRequest(AcpValue, frozen=True, kw_only=True):
    """Request to wait for a terminal command to exit."""

    session_id: str
    terminal_id: str


class WaitForTerminalExitResponse(AcpValue, frozen=True, kw_only=True):
    """Response containing the exit status of a terminal command."""

    exit_code: int | None = None
    signal: str | None = None


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | UnknownUpdate
)


CANCEL_REQUEST: Notification[CancelRequestNotification] = Notification(
    name="$/cancel_request",
    params=CancelRequestNotification,
    side="protocol",
)
AUTHENTICATE: Method[AuthenticateRequest, Empty] = Method(
    name="authenticate",
    params=AuthenticateRequest,
    result=Empty,
    side="agent",
)
ELICITATION_COMPLETE: Notification[CompleteElicitationNotification] = Notification(
    name="elicitation/complete",
    params=CompleteElicitationNotification,
    side="client",
)
ELICITATION_CREATE: Method[CreateElicitationRequest, CreateElicitationResponse] = Method(
    name="elicitation/create",
    params=CreateElicitationRequest,
    result=CreateElicitationResponse,
    side="client",
)
FS_READ_TEXT_FILE: Method[ReadTextFileRequest, ReadTextFileResponse] = Method(
    name="fs/read_text_file",
    params=ReadTextFileRequest,
    result=ReadTextFileResponse,
    side="client",
)
FS_WRITE_TEXT_FILE: Method[WriteTextFileRequest, Empty] = Method(
    name="fs/write_text_file",
    params=WriteTextFileRequest,
    result=Empty,
    side="client",
)
INITIALIZE: Method[InitializeRequest, InitializeResponse] = Method(
    name="initialize",
    params=InitializeRequest,
    result=InitializeResponse,
    side="agent",
)
LOGOUT: Method[Empty, Empty] = Method(
    name="logout",
    params=Empty,
    result=Empty,
    side="agent",
)
SESSION_ARCHIVE: Method[ArchiveSessionRequest, Empty] = Method(
    name="session/archive",
    params=ArchiveSessionRequest,
    result=Empty,
    side="agent",
    stable=False,
)
SESSION_CANCEL: Notification[CancelNotification] = Notification(
    name="session/cancel",
    params=CancelNotification,
    side="agent",
)
SESSION_CLOSE: Method[CloseSessionRequest, Empty] = Method(
    name="session/close",
    params=CloseSessionRequest,
    result=Empty,
    side="agent",
)
SESSION_DELETE: Method[DeleteSessionRequest, Empty] = Method(
    name="session/delete",
    params=DeleteSessionRequest,
    result=Empty,
    side="agent",
)
SESSION_FORK: Method[ForkSessionRequest, ForkSessionResponse] = Method(
    name="session/fork",
    params=ForkSessionRequest,
    result=ForkSessionResponse,
    side="agent",
    stable=False,
)
SESSION_LIST: Method[ListSessionsRequest, ListSessionsResponse] = Method(
    name="session/list",
    params=ListSessionsRequest,
    result=ListSessionsResponse,
    side="agent",
)
SESSION_LOAD: Method[LoadSessionRequest, LoadSessionResponse] = Method(
    name="session/load",
    params=LoadSessionRequest,
    result=LoadSessionResponse,
    side="agent",
)
SESSION_NEW: Method[NewSessionRequest, NewSessionResponse] = Method(
    name="session/new",
    params=NewSessionRequest,
    result=NewSessionResponse,
    side="agent",
)
SESSION_PROMPT: Method[PromptRequest, PromptResponse] = Method(
    name="session/prompt",
    params=PromptRequest,
    result=PromptResponse,
    side="agent",
)
SESSION_REQUEST_PERMISSION: Method[RequestPermissionRequest, RequestPermissionResponse] = Method(
    name="session/request_permission",
    params=RequestPermissionRequest,
    result=RequestPermissionResponse,
    side="client",
)
SESSION_RESUME: Method[ResumeSessionRequest, ResumeSessionResponse] = Method(
    name="session/resume",
    params=ResumeSessionRequest,
    result=ResumeSessionResponse,
    side="agent",
)
SESSION_SET_CONFIG_OPTION: Method[SetSessionConfigOptionRequest, SetSessionConfigOptionResponse] = Method(
    name="session/set_config_option",
    params=SetSessionConfigOptionRequest,
    result=SetSessionConfigOptionResponse,
    side="agent",
)
SESSION_SET_MODE: Method[SetSessionModeRequest, Empty] = Method(
    name="session/set_mode",
    params=SetSessionModeRequest,
    result=Empty,
    side="agent",
)
SESSION_SET_TITLE: Method[SetSessionTitleRequest, SetSessionTitleResponse] = Method(
    name="session/set_title",
    params=SetSessionTitleRequest,
    result=SetSessionTitleResponse,
    side="agent",
    stable=False,
)
SESSION_STATUS: Method[SessionStatusRequest, SessionStatusResponse] = Method(
    name="session/status",
    params=SessionStatusRequest,
    result=SessionStatusResponse,
    side="agent",
    stable=False,
)
SESSION_UNARCHIVE: Method[UnarchiveSessionRequest, Empty] = Method(
    name="session/unarchive",
    params=UnarchiveSessionRequest,
    result=Empty,
    side="agent",
    stable=False,
)
SESSION_UPDATE: Notification[SessionNotification] = Notification(
    name="session/update",
    params=SessionNotification,
    side="client",
)
TERMINAL_CREATE: Method[CreateTerminalRequest, CreateTerminalResponse] = Method(
    name="terminal/create",
    params=CreateTerminalRequest,
    result=CreateTerminalResponse,
    side="client",
)
TERMINAL_KILL: Method[KillTerminalRequest, Empty] = Method(
    name="terminal/kill",
    params=KillTerminalRequest,
    result=Empty,
    side="client",
)
TERMINAL_OUTPUT: Method[TerminalOutputRequest, TerminalOutputResponse] = Method(
    name="terminal/output",
    params=TerminalOutputRequest,
    result=TerminalOutputResponse,
    side="client",
)
TERMINAL_RELEASE: Method[ReleaseTerminalRequest, Empty] = Method(
    name="terminal/release",
    params=ReleaseTerminalRequest,
    result=Empty,
    side="client",
)
TERMINAL_WAIT_FOR_EXIT: Method[WaitForTerminalExitRequest, WaitForTerminalExitResponse] = Method(
    name="terminal/wait_for_exit",
    params=WaitForTerminalExitRequest,
    result=WaitForTerminalExitResponse,
    side="client",
)


AGENT_METHODS: dict[str, Method[Any, Any]] = {
    AUTHENTICATE.name: AUTHENTICATE,
    INITIALIZE.name: INITIALIZE,
    LOGOUT.name: LOGOUT,
    SESSION_ARCHIVE.name: SESSION_ARCHIVE,
    SESSION_CLOSE.name: SESSION_CLOSE,
    SESSION_DELETE.name: SESSION_DELETE,
    SESSION_FORK.name: SESSION_FORK,
    SESSION_LIST.name: SESSION_LIST,
    SESSION_LOAD.name: SESSION_LOAD,
    SESSION_NEW.name: SESSION_NEW,
    SESSION_PROMPT.name: SESSION_PROMPT,
    SESSION_RESUME.name: SESSION_RESUME,
    SESSION_SET_CONFIG_OPTION.name: SESSION_SET_CONFIG_OPTION,
    SESSION_SET_MODE.name: SESSION_SET_MODE,
    SESSION_SET_TITLE.name: SESSION_SET_TITLE,
    SESSION_STATUS.name: SESSION_STATUS,
    SESSION_UNARCHIVE.name: SESSION_UNARCHIVE,
}
AGENT_NOTIFICATIONS: dict[str, Notification[Any]] = {
    CANCEL_REQUEST.name: CANCEL_REQUEST,
    SESSION_CANCEL.name: SESSION_CANCEL,
}
CLIENT_METHODS: dict[str, Method[Any, Any]] = {
    ELICITATION_CREATE.name: ELICITATION_CREATE,
    FS_READ_TEXT_FILE.name: FS_READ_TEXT_FILE,
    FS_WRITE_TEXT_FILE.name: FS_WRITE_TEXT_FILE,
    SESSION_REQUEST_PERMISSION.name: SESSION_REQUEST_PERMISSION,
    TERMINAL_CREATE.name: TERMINAL_CREATE,
    TERMINAL_KILL.name: TERMINAL_KILL,
    TERMINAL_OUTPUT.name: TERMINAL_OUTPUT,
    TERMINAL_RELEASE.name: TERMINAL_RELEASE,
    TERMINAL_WAIT_FOR_EXIT.name: TERMINAL_WAIT_FOR_EXIT,
}
CLIENT_NOTIFICATIONS: dict[str, Notification[Any]] = {
    CANCEL_REQUEST.name: CANCEL_REQUEST,
    ELICITATION_COMPLETE.name: ELICITATION_COMPLETE,
    SESSION_UPDATE.name: SESSION_UPDATE,
}


def leniency() -> dict[type[Struct], dict[str, Leniency]]:
    """Return the schema's rules for wrong values, by type and name on the wire."""
    return {
        AcpValue: {
            "_meta": Leniency(on_error=True),
        },
        Annotations: {
            "audience": Leniency(on_error=True, skip_items=True),
            "lastModified": Leniency(on_error=True),
            "priority": Leniency(on_error=True),
        },
        AudioContent: {
            "annotations": Leniency(on_error=True),
        },
        Command: {
            "input": Leniency(on_error=True),
        },
        ResourceContents: {
            "mimeType": Leniency(on_error=True),
        },
        Diff: {
            "oldText": Leniency(on_error=True),
        },
        EmbeddedResource: {
            "annotations": Leniency(on_error=True),
        },
        ImageContent: {
            "annotations": Leniency(on_error=True),
            "uri": Leniency(on_error=True),
        },
        ResourceLink: {
            "annotations": Leniency(on_error=True),
            "description": Leniency(on_error=True),
            "mimeType": Leniency(on_error=True),
            "size": Leniency(on_error=True),
            "title": Leniency(on_error=True),
        },
        ConfigOption: {
            "description": Leniency(on_error=True),
            "category": Leniency(on_error=True),
        },
        ConfigChoice: {
            "options": Leniency(on_error=True, skip_items=True, empty="list"),
            "description": Leniency(on_error=True),
        },
        Mode: {
            "description": Leniency(on_error=True),
        },
        TextContent: {
            "annotations": Leniency(on_error=True),
        },
        ToolCallLocation: {
            "line": Leniency(on_error=True),
        },
        ContentChunk: {
            "messageId": Leniency(on_error=True),
        },
        ToolCall: {
            "name": Leniency(on_error=True),
            "kind": Leniency(on_error=True),
            "status": Leniency(on_error=True),
            "content": Leniency(on_error=True, skip_items=True, empty="list"),
            "locations": Leniency(on_error=True, skip_items=True, empty="list"),
            "rawInput": Leniency(on_error=True),
            "rawOutput": Leniency(on_error=True),
        },
        ToolCallDetails: {
            "kind": Leniency(on_error=True),
            "status": Leniency(on_error=True),
            "title": Leniency(on_error=True),
            "name": Leniency(on_error=True),
            "content": Leniency(on_error=True, skip_items=True),
            "locations": Leniency(on_error=True, skip_items=True),
            "rawInput": Leniency(on_error=True),
            "rawOutput": Leniency(on_error=True),
        },
        Plan: {
            "entries": Leniency(on_error=True, skip_items=True, empty="list"),
        },
        AvailableCommandsUpdate: {
            "availableCommands": Leniency(on_error=True, skip_items=True, empty="list"),
        },
        ConfigOptionUpdate: {
            "configOptions": Leniency(on_error=True, skip_items=True, empty="list"),
        },
        SessionInfoUpdate: {
            "title": Leniency(on_error=True),
            "updatedAt": Leniency(on_error=True),
        },
        UsageUpdate: {
            "cost": Leniency(on_error=True),
        },
        Notice: {
            "description": Leniency(on_error=True),
        },
        CompactionUpdate: {
            "summary": Leniency(on_error=True, skip_items=True),
            "error": Leniency(on_error=True),
        },
        EnumOption: {
            "description": Leniency(on_error=True),
        },
        ElicitationProperty: {
            "title": Leniency(on_error=True),
            "description": Leniency(on_error=True),
            "default": Leniency(on_error=True, skip_items=True),
        },
        ElicitationSchema: {
            "type": Leniency(on_error=True),
            "title": Leniency(on_error=True),
            "description": Leniency(on_error=True),
        },
        CreateElicitationRequest: {
            "toolCallId": Leniency(on_error=True),
        },
        FileSystemCapabilities: {
            "readTextFile": Leniency(on_error=True),
            "writeTextFile": Leniency(on_error=True),
        },
        SessionConfigOptionsCapabilities: {
            "boolean": Leniency(on_error=True),
        },
        ClientSessionCapabilities: {
            "compaction": Leniency(on_error=True),
            "configOptions": Leniency(on_error=True),
            "notices": Leniency(on_error=True),
        },
        AuthCapabilities: {
            "terminal": Leniency(on_error=True),
        },
        ElicitationCapabilities: {
            "form": Leniency(on_error=True),
            "url": Leniency(on_error=True),
        },
        ClientCapabilities: {
            "fs": Leniency(on_error=True),
            "terminal": Leniency(on_error=True),
            "session": Leniency(on_error=True),
            "subagents": Leniency(on_error=True),
            "auth": Leniency(on_error=True),
            "elicitation": Leniency(on_error=True),
        },
        Implementation: {
            "title": Leniency(on_error=True),
        },
        InitializeRequest: {
            "clientCapabilities": Leniency(on_error=True),
            "clientInfo": Leniency(on_error=True),
        },
        PromptCapabilities: {
            "image": Leniency(on_error=True),
            "audio": Leniency(on_error=True),
            "embeddedContext": Leniency(on_error=True),
        },
        McpCapabilities: {
            "http": Leniency(on_error=True),
            "sse": Leniency(on_error=True),
        },
        SessionSystemPromptModeCapabilities: {
            "override": Leniency(on_error=True),
        },
        SessionSystemPromptCapabilities: {
            "mode": Leniency(on_error=True),
        },
        SessionCapabilities: {
            "list": Leniency(on_error=True),
            "delete": Leniency(on_error=True),
            "additionalDirectories": Leniency(on_error=True),
            "systemPrompt": Leniency(on_error=True),
            "fork": Leniency(on_error=True),
            "archive": Leniency(on_error=True),
            "status": Leniency(on_error=True),
            "title": Leniency(on_error=True),
            "resume": Leniency(on_error=True),
            "close": Leniency(on_error=True),
        },
        AgentAuthCapabilities: {
            "logout": Leniency(on_error=True),
        },
        AgentCapabilities: {
            "loadSession": Leniency(on_error=True),
            "promptCapabilities": Leniency(on_error=True),
            "mcpCapabilities": Leniency(on_error=True),
            "sessionCapabilities": Leniency(on_error=True),
            "auth": Leniency(on_error=True),
        },
        AuthMethod: {
            "description": Leniency(on_error=True),
            "args": Leniency(on_null=True, empty="list"),
            "env": Leniency(on_null=True, empty="dict"),
        },
        InitializeResponse: {
            "agentCapabilities": Leniency(on_error=True),
            "authMethods": Leniency(on_error=True, skip_items=True, empty="list"),
            "agentInfo": Leniency(on_error=True),
        },
        McpServer: {
            "headers": Leniency(on_null=True, empty="list"),
            "args": Leniency(on_null=True, empty="list"),
            "env": Leniency(on_null=True, empty="list"),
        },
        ForkSessionRequest: {
            "additionalDirectories": Leniency(on_null=True, empty="list"),
            "mcpServers": Leniency(on_null=True, empty="list"),
        },
        SessionModeState: {
            "availableModes": Leniency(on_error=True, skip_items=True, empty="list"),
        },
        ForkSessionResponse: {
            "modes": Leniency(on_error=True),
            "configOptions": Leniency(on_error=True, skip_items=True),
        },
        SessionInfo: {
            "additionalDirectories": Leniency(on_error=True, skip_items=True, empty="list"),
            "title": Leniency(on_error=True),
            "updatedAt": Leniency(on_error=True),
            "archived": Leniency(on_error=True),
        },
        ListSessionsResponse: {
            "sessions": Leniency(on_error=True, skip_items=True, empty="list"),
            "nextCursor": Leniency(on_error=True),
        },
        LoadSessionRequest: {
            "mcpServers": Leniency(on_null=True, empty="list"),
            "additionalDirectories": Leniency(on_null=True, empty="list"),
        },
        LoadSessionResponse: {
            "modes": Leniency(on_error=True),
            "configOptions": Leniency(on_error=True, skip_items=True),
        },
        NewSessionRequest: {
            "additionalDirectories": Leniency(on_null=True, empty="list"),
            "mcpServers": Leniency(on_null=True, empty="list"),
        },
        NewSessionResponse: {
            "modes": Leniency(on_error=True),
            "configOptions": Leniency(on_error=True, skip_items=True),
        },
        Usage: {
            "thoughtTokens": Leniency(on_error=True),
            "cachedReadTokens": Leniency(on_error=True),
            "cachedWriteTokens": Leniency(on_error=True),
        },
        PromptResponse: {
            "usage": Leniency(on_error=True),
        },
        ResumeSessionRequest: {
            "additionalDirectories": Leniency(on_null=True, empty="list"),
            "mcpServers": Leniency(on_null=True, empty="list"),
        },
        ResumeSessionResponse: {
            "modes": Leniency(on_error=True),
            "configOptions": Leniency(on_error=True, skip_items=True),
        },
        SetSessionConfigOptionResponse: {
            "configOptions": Leniency(on_error=True, skip_items=True, empty="list"),
        },
        CreateTerminalRequest: {
            "args": Leniency(on_null=True, empty="list"),
            "env": Leniency(on_null=True, empty="list"),
        },
        TerminalExitStatus: {
            "exitCode": Leniency(on_error=True),
            "signal": Leniency(on_error=True),
        },
        TerminalOutputResponse: {
            "exitStatus": Leniency(on_error=True),
        },
        WaitForTerminalExitResponse: {
            "exitCode": Leniency(on_error=True),
            "signal": Leniency(on_error=True),
        },
    }
