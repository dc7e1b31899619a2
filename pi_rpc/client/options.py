"""What a client may say beside what it must, as keywords of its methods.

Each is the rest of a params struct of ``pi_rpc.protocol``, whose fields say what they mean and what
holds when they are absent; a test holds the two together."""

from typing import Literal, TypedDict

from pi_rpc.llm.messages import ImageBlock, ThinkingLevel
from pi_rpc.protocol.attachments import Attachment
from pi_rpc.protocol.base import Limits, ModelName, PermissionMode, QueueMode

__all__ = [
    "AuthOptions",
    "BashOptions",
    "BranchOptions",
    "Configuration",
    "ForkOptions",
    "MessageOptions",
    "MessagesOptions",
    "ModelListOptions",
    "NewSessionOptions",
    "OpenSessionOptions",
    "PageOptions",
    "PromptOptions",
    "SessionListOptions",
]


class MessageOptions(TypedDict, total=False):
    """Of ``steer`` and ``followUp``."""

    images: list[ImageBlock]
    attachments: list[Attachment]
    client_message_id: str


class PromptOptions(MessageOptions, total=False):
    """Of ``prompt``."""

    streaming_behavior: Literal["steer", "followUp"]
    wait: Literal["settled", "accepted"]


class BranchOptions(TypedDict, total=False):
    """Of ``branch``."""

    summarize: bool
    custom_instructions: str
    replace_instructions: bool
    label: str


class BashOptions(TypedDict, total=False):
    """Of ``bash``."""

    cwd: str
    exclude_from_context: bool
    token: str | int


class NewSessionOptions(TypedDict, total=False):
    """Of ``session/new``."""

    cwd: str
    additional_directories: list[str]
    name: str
    model: ModelName
    thinking_level: ThinkingLevel
    permission_mode: PermissionMode
    tools: list[str]
    system_prompt: str
    append_system_prompt: str
    ephemeral: bool
    parent_session: str
    limits: Limits


class OpenSessionOptions(TypedDict, total=False):
    """Of ``session/open``."""

    session_id: str
    path: str
    cwd: str
    read_only: bool


class Configuration(TypedDict, total=False):
    """Of ``session/configure``."""

    model: ModelName
    thinking_level: ThinkingLevel
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    auto_compaction: bool
    auto_retry: bool
    permission_mode: PermissionMode
    active_tools: list[str]
    name: str
    additional_directories: list[str]
    limits: Limits


class MessagesOptions(TypedDict, total=False):
    """Of ``session/messages``."""

    limit: int
    before_entry_id: str
    max_bytes_per_message: int


class ForkOptions(TypedDict, total=False):
    """Of ``session/fork``."""

    entry_id: str
    position: Literal["before", "at"]


class PageOptions(TypedDict, total=False):
    """Of ``session/tree``, and of other lists that come in pages."""

    query: str
    limit: int
    cursor: str


class SessionListOptions(PageOptions, total=False):
    """Of ``session/list``."""

    cwd: str


class ModelListOptions(PageOptions, total=False):
    """Of ``model/list``."""

    provider: str
    authenticated: bool


class AuthOptions(TypedDict, total=False):
    """Of ``auth/set``: exactly one."""

    api_key: str
    api_key_env: str
    api_key_command: str
