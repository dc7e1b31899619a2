"""Shapes of the Agent Client Protocol, stable version 1, as far as this door reads and writes them.

Owns what stands on the wire beside the handshake. Structs of our own, because the protocol's SDK
takes longer to import than the whole agent; tests hold every frame to the published schema.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType, field

from pi_rpc.acp.handshake import Meta
from pi_rpc.wire import Wire

__all__ = [
    "AgentChunk",
    "AudioBlock",
    "AuthenticateParams",
    "BranchParams",
    "CancelParams",
    "Choice",
    "Command",
    "CommandInput",
    "Commands",
    "CompactParams",
    "Compaction",
    "ConfigSelect",
    "ConfigUpdate",
    "Content",
    "ContentBlock",
    "Cost",
    "CurrentMode",
    "Diff",
    "ImageBlock",
    "ListParams",
    "McpServer",
    "Mode",
    "Modes",
    "NewParams",
    "NewToolCall",
    "Notice",
    "Plan",
    "PlanEntry",
    "PromptParams",
    "PromptResult",
    "Resource",
    "ResourceBlock",
    "ResourceLink",
    "ResumeParams",
    "SessionInfo",
    "SessionParams",
    "SessionState",
    "SessionUpdate",
    "SetConfigParams",
    "SetModeParams",
    "StopReason",
    "Terminal",
    "TextBlock",
    "ThoughtChunk",
    "ToolCallFields",
    "ToolCallUpdate",
    "ToolContent",
    "ToolKind",
    "ToolLocation",
    "ToolStatus",
    "Update",
    "UsageUpdate",
    "UserChunk",
]

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


# --- content -------------------------------------------------------------------------------------


class TextBlock(Wire, tag_field="type", tag="text", frozen=True, kw_only=True):
    """Text, Markdown where it is a model's."""

    text: str


class ImageBlock(Wire, tag_field="type", tag="image", frozen=True, kw_only=True):
    """An image, inline."""

    data: str
    mime_type: str


class AudioBlock(Wire, tag_field="type", tag="audio", frozen=True, kw_only=True):
    """Sound; no model of ours is given any."""


class ResourceLink(Wire, tag_field="type", tag="resource_link", frozen=True, kw_only=True):
    """Something that is named, not sent."""

    uri: str
    name: str = ""


class Resource(Wire, frozen=True, kw_only=True):
    """What is in a resource: text, or a blob in base64."""

    uri: str
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    mime_type: str = ""


class ResourceBlock(Wire, tag_field="type", tag="resource", frozen=True, kw_only=True):
    """Something that is sent along."""

    resource: Resource


ContentBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceLink | ResourceBlock


# --- requests of the client ----------------------------------------------------------------------


class SessionParams(Wire, frozen=True, kw_only=True):
    """Names a session."""

    session_id: str


class AuthenticateParams(Wire, frozen=True, kw_only=True):
    """``authenticate``."""

    method_id: str


class McpServer(Wire, frozen=True, kw_only=True):
    """A server of tools that the client would have us use."""

    name: str


class NewParams(Wire, frozen=True, kw_only=True):
    """``session/new``."""

    cwd: str
    mcp_servers: list[McpServer] = field(default_factory=list)
    additional_directories: list[str] = field(default_factory=list)


class ResumeParams(NewParams, frozen=True, kw_only=True):
    """``session/load`` and ``session/resume``."""

    session_id: str


class ListParams(Wire, frozen=True, kw_only=True):
    """``session/list``."""

    cwd: str = ""
    cursor: str = ""


class PromptParams(SessionParams, frozen=True, kw_only=True):
    """``session/prompt``, and what is said in other ways."""

    prompt: list[ContentBlock]


class SetModeParams(SessionParams, frozen=True, kw_only=True):
    """``session/set_mode``."""

    mode_id: str


class SetConfigParams(SessionParams, frozen=True, kw_only=True):
    """``session/set_config_option``."""

    config_id: str
    value: str | bool


class CancelParams(SessionParams, frozen=True, kw_only=True):
    """``session/cancel``."""


class CompactParams(SessionParams, frozen=True, kw_only=True):
    """``_pi/compact``."""

    instructions: str = ""


class BranchParams(SessionParams, frozen=True, kw_only=True):
    """``_pi/branch``."""

    entry_id: str | None
    """The entry to go on from; null: the root."""
    summarize: bool = False


# --- their results -------------------------------------------------------------------------------


class Mode(Wire, frozen=True, kw_only=True):
    """A mode that can be chosen."""

    id: str
    name: str
    description: str


class Modes(Wire, frozen=True, kw_only=True):
    """The modes there are."""

    current_mode_id: str
    available_modes: list[Mode]


class Choice(Wire, frozen=True, kw_only=True):
    """A value that can be chosen."""

    value: str
    name: str
    description: str | UnsetType = UNSET


class ConfigSelect(Wire, tag_field="type", tag="select", frozen=True, kw_only=True):
    """A choice of a session's."""

    id: str
    name: str
    category: str
    current_value: str
    options: list[Choice]


class SessionState(Wire, frozen=True, kw_only=True):
    """The result of ``session/new``, ``session/load`` and ``session/resume``."""

    modes: Modes
    config_options: list[ConfigSelect]
    session_id: str | UnsetType = UNSET


class PromptResult(Wire, frozen=True, kw_only=True):
    """The result of ``session/prompt``."""

    stop_reason: StopReason
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


# --- updates -------------------------------------------------------------------------------------


class UserChunk(
    Wire, tag_field="sessionUpdate", tag="user_message_chunk", frozen=True, kw_only=True
):
    """A piece of what a person said."""

    content: TextBlock | ImageBlock
    message_id: str | UnsetType = UNSET


class AgentChunk(
    Wire, tag_field="sessionUpdate", tag="agent_message_chunk", frozen=True, kw_only=True
):
    """A piece of a reply."""

    content: TextBlock | ImageBlock
    message_id: str | UnsetType = UNSET


class ThoughtChunk(
    Wire, tag_field="sessionUpdate", tag="agent_thought_chunk", frozen=True, kw_only=True
):
    """A piece of a model's thinking."""

    content: TextBlock
    message_id: str | UnsetType = UNSET


class Content(Wire, tag_field="type", tag="content", frozen=True, kw_only=True):
    """What a tool shows."""

    content: TextBlock | ImageBlock


class Diff(Wire, tag_field="type", tag="diff", frozen=True, kw_only=True):
    """What becomes of a file, or of a part of it."""

    path: str
    new_text: str
    old_text: str | UnsetType = UNSET
    """Absent: the file is new, or what it held is not known."""


class Terminal(Wire, tag_field="type", tag="terminal", frozen=True, kw_only=True):
    """A terminal of the client's that a command runs in."""

    terminal_id: str


ToolContent: TypeAlias = Content | Diff | Terminal


class ToolLocation(Wire, frozen=True, kw_only=True):
    """A place that a tool is about."""

    path: str
    line: int | UnsetType = UNSET
    """Counted from 1."""


class ToolCallFields(Wire, frozen=True, kw_only=True):
    """A tool call, or what has changed of it."""

    tool_call_id: str
    title: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: ToolStatus | UnsetType = UNSET
    content: list[ToolContent] | UnsetType = UNSET
    locations: list[ToolLocation] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class NewToolCall(
    ToolCallFields, tag_field="sessionUpdate", tag="tool_call", frozen=True, kw_only=True
):
    """A tool call begins."""


class ToolCallUpdate(
    ToolCallFields, tag_field="sessionUpdate", tag="tool_call_update", frozen=True, kw_only=True
):
    """Something of a tool call has changed."""


class PlanEntry(Wire, frozen=True, kw_only=True):
    """A step of a plan."""

    content: str
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Plan(Wire, tag_field="sessionUpdate", tag="plan", frozen=True, kw_only=True):
    """A plan; all of it."""

    entries: list[PlanEntry]


class CommandInput(Wire, frozen=True, kw_only=True):
    """What may follow on a command."""

    hint: str


class Command(Wire, frozen=True, kw_only=True):
    """What ``/name`` in a prompt calls up."""

    name: str
    description: str
    input: CommandInput | UnsetType = UNSET


class Commands(
    Wire, tag_field="sessionUpdate", tag="available_commands_update", frozen=True, kw_only=True
):
    """The commands there are."""

    available_commands: list[Command]


class CurrentMode(
    Wire, tag_field="sessionUpdate", tag="current_mode_update", frozen=True, kw_only=True
):
    """Another mode was chosen."""

    current_mode_id: str


class ConfigUpdate(
    Wire, tag_field="sessionUpdate", tag="config_option_update", frozen=True, kw_only=True
):
    """Something else was chosen; all choices as they are now."""

    config_options: list[ConfigSelect]


class SessionInfo(
    Wire, tag_field="sessionUpdate", tag="session_info_update", frozen=True, kw_only=True
):
    """What a list of sessions shows has changed; null clears it."""

    title: str | UnsetType | None = UNSET
    updated_at: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class Cost(Wire, frozen=True, kw_only=True):
    """What a session has cost so far."""

    amount: float
    currency: str = "USD"


class UsageUpdate(Wire, tag_field="sessionUpdate", tag="usage_update", frozen=True, kw_only=True):
    """How full the model's window is."""

    used: int
    size: int
    cost: Cost | UnsetType = UNSET


class Notice(Wire, tag_field="sessionUpdate", tag="notice", frozen=True, kw_only=True):
    """Something to be shown to the person; only for clients that offer ``session.notices``."""

    severity: Literal["info", "warning", "error"]
    title: str


class Compaction(
    Wire, tag_field="sessionUpdate", tag="compaction_update", frozen=True, kw_only=True
):
    """The conversation is shortened; only for clients that offer ``session.compaction``."""

    compaction_id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]
    summary: list[TextBlock] | UnsetType = UNSET
    error: str | UnsetType = UNSET


Update: TypeAlias = (
    UserChunk
    | AgentChunk
    | ThoughtChunk
    | NewToolCall
    | ToolCallUpdate
    | Plan
    | Commands
    | CurrentMode
    | ConfigUpdate
    | SessionInfo
    | UsageUpdate
    | Notice
    | Compaction
)


class SessionUpdate(Wire, frozen=True, kw_only=True):
    """The params of ``session/update``."""

    session_id: str
    update: Update
