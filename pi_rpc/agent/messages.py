"""AgentMessage: everything a transcript can hold, and how each of it reads to a model.

Owns the roles that a model does not know (shell commands a person ran, notes of applications,
summaries), the registry that adds more, and decoding, encoding and conversion of any message. Does
not own the conversation types themselves (``pi_rpc.llm.messages``) nor the lines of a session file
(``pi_rpc.session``).

A role is a struct whose tag field is ``role``. A message of a role that nobody registered is kept
as the bytes it came in.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pi_rpc.llm.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserContent,
    UserMessage,
    Wire,
)

__all__ = [
    "AgentMessage",
    "BashExecutionMessage",
    "BranchSummaryMessage",
    "CompactionSummaryMessage",
    "CustomMessage",
    "MessageDecodeError",
    "MessageRole",
    "MessageRoles",
    "OpaqueMessage",
    "ReadsAs",
    "convert_to_llm",
    "decode_message",
    "default_roles",
    "encode_hook",
    "encode_json",
    "encode_message",
    "role_of",
]


class BashExecutionMessage(Wire, tag_field="role", tag="bashExecution", frozen=True, kw_only=True):
    """A shell command that the person ran beside the conversation."""

    command: str
    """The command line."""
    output: str
    """What it printed, possibly cut."""
    cancelled: bool
    """It was stopped before it ended."""
    truncated: bool
    """``output`` is not all of it."""
    timestamp: int
    """Unix milliseconds."""
    exit_code: int | UnsetType | None = UNSET
    """Its exit code; absent when it did not end by itself."""
    full_output_path: str | UnsetType | None = UNSET
    """File with all of the output, when it was cut."""
    exclude_from_context: bool | UnsetType = UNSET
    """The model is not told of it."""


class CustomMessage(Wire, tag_field="role", tag="custom", frozen=True, kw_only=True):
    """A message that an extension or application put into the transcript."""

    custom_type: str
    """Whose message it is; chosen by its author."""
    content: str | list[UserContent]
    """What the model reads, as if a user had written it."""
    display: bool
    """Clients show it."""
    timestamp: int
    """Unix milliseconds."""
    details: Any | UnsetType = UNSET
    """For its author and for clients; never sent to the model."""


class BranchSummaryMessage(Wire, tag_field="role", tag="branchSummary", frozen=True, kw_only=True):
    """What happened on a branch that was left."""

    summary: str
    """The summary."""
    from_id: str | None
    """The entry at which the other branch ended; null at the root."""
    timestamp: int
    """Unix milliseconds."""


class CompactionSummaryMessage(
    Wire, tag_field="role", tag="compactionSummary", frozen=True, kw_only=True
):
    """What the conversation before this point said, in short."""

    summary: str
    """The summary."""
    tokens_before: int
    """Tokens of the context that it replaces."""
    timestamp: int
    """Unix milliseconds."""


class OpaqueMessage:
    """A message of a role that is not registered: its bytes, unharmed.

    Encode structs that may contain one with ``enc_hook=encode_hook``.
    """

    __slots__ = ("raw", "role")

    def __init__(self, role: str, raw: bytes) -> None:
        self.role = role
        self.raw = raw
        """The JSON text of the message."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueMessage) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"OpaqueMessage({self.role!r}, {len(self.raw)} bytes)"


AgentMessage: TypeAlias = (
    Message
    | SystemMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
    | OpaqueMessage
    | Struct
)
"""A message of any role; the last alternative stands for roles an application registers."""

ReadsAs: TypeAlias = Callable[[Any], list[Message]]
"""How a message of one role reads to a model."""


class MessageDecodeError(ValueError):
    """The bytes are no message, or not the shape that their role has."""


class MessageRole(Struct, frozen=True):
    """A role: its struct, and how it reads to a model (None: the model never sees it)."""

    role: str
    type: type[Struct]
    reads_as: ReadsAs | None


class _Tag(Struct):
    role: str


_decode_tag = msgspec.json.Decoder(_Tag).decode


class MessageRoles:
    """The roles that messages can have. Start from ``default_roles()`` and ``register`` your own.

    ::

        class Note(Wire, tag_field="role", tag="note", frozen=True, kw_only=True):
            text: str

        roles = default_roles()
        roles.register(Note, lambda note: [UserMessage(content=note.text, timestamp=0)])
    """

    def __init__(self) -> None:
        self._roles: dict[str, MessageRole] = {}
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}

    def register(self, struct: type[Struct], reads_as: ReadsAs | None = None) -> None:
        """Add a role, or replace the one of the same name. Its name is the struct's tag.

        Raises ``ValueError`` for a struct that is not tagged by ``role``.
        """
        config = struct.__struct_config__
        if config.tag_field != "role" or not isinstance(config.tag, str):
            raise ValueError(f"{struct.__name__} needs tag_field='role' and a text as its tag")
        self._roles[config.tag] = MessageRole(config.tag, struct, reads_as)
        self._decoders[config.tag] = msgspec.json.Decoder(struct)

    def remove(self, role: str) -> None:
        """Take a role out; its messages are opaque from then on."""
        self._roles.pop(role, None)
        self._decoders.pop(role, None)

    def get(self, role: str) -> MessageRole | None:
        """The role of that name, if it is registered."""
        return self._roles.get(role)

    def __contains__(self, role: object) -> bool:
        return role in self._roles

    def __iter__(self) -> Iterator[MessageRole]:
        return iter(self._roles.values())

    def decode(self, raw: bytes | msgspec.Raw) -> AgentMessage:
        """The message that a JSON text holds. See ``decode_message``."""
        try:
            role = _decode_tag(raw).role
            decoder = self._decoders.get(role)
            if decoder is None:
                return OpaqueMessage(role, bytes(raw))
            return cast(AgentMessage, decoder.decode(raw))
        except msgspec.MsgspecError as error:
            raise MessageDecodeError(str(error)) from error


def default_roles() -> MessageRoles:
    """A new registry with every role that this project knows."""
    roles = MessageRoles()
    roles.register(SystemMessage, None)
    roles.register(UserMessage, _as_it_is)
    roles.register(AssistantMessage, _as_it_is)
    roles.register(ToolResultMessage, _as_it_is)
    roles.register(BashExecutionMessage, _read_bash_execution)
    roles.register(CustomMessage, _read_custom)
    roles.register(BranchSummaryMessage, _read_branch_summary)
    roles.register(CompactionSummaryMessage, _read_compaction_summary)
    return roles


def decode_message(raw: bytes | msgspec.Raw, roles: MessageRoles) -> AgentMessage:
    """Decode one message from its JSON text.

    A role that is not registered gives an ``OpaqueMessage``. Raises ``MessageDecodeError`` when the
    text is not JSON, has no ``role``, or does not have the shape of its role.
    """
    return roles.decode(raw)


def encode_hook(value: Any) -> msgspec.Raw:
    """An ``enc_hook`` for ``msgspec.json`` that writes ``OpaqueMessage`` inside other structs."""
    if isinstance(value, OpaqueMessage):
        return msgspec.Raw(value.raw)
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


def encode_json(value: Any) -> bytes:
    """JSON of anything, messages of any role inside included.

    Half a surrogate pair, as in file names that are not UTF-8, has no form there and becomes
    U+FFFD. Raises ``TypeError``, ``NotImplementedError``, ``ValueError`` or ``RecursionError`` for
    what is no JSON value.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_with_whole_pairs(msgspec.to_builtins(value, enc_hook=_plain)))


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value if isinstance(value, msgspec.Raw) else encode_hook(value))


def _with_whole_pairs(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list | tuple):
        return [_with_whole_pairs(each) for each in value]
    if isinstance(value, dict):
        return {_with_whole_pairs(key): _with_whole_pairs(each) for key, each in value.items()}
    return value


def encode_message(message: AgentMessage) -> bytes:
    """The JSON text of a message; an ``OpaqueMessage`` gives the bytes it came from."""
    return encode_json(message)


def role_of(message: AgentMessage) -> str:
    """The role of a message, as it is written."""
    if isinstance(message, OpaqueMessage):
        return message.role
    return str(message.__struct_config__.tag)


def convert_to_llm(messages: Iterable[AgentMessage], roles: MessageRoles) -> list[Message]:
    """What a model is sent of a transcript: each message as its role reads, others dropped.

    A message that was read before its role was registered is decoded now, and dropped if it does
    not have the role's shape.
    """
    converted: list[Message] = []
    for message in messages:
        role = roles.get(role_of(message))
        if role is None or role.reads_as is None:
            continue
        known = message
        if isinstance(message, OpaqueMessage):
            try:
                known = roles.decode(message.raw)
            except MessageDecodeError:
                continue
        converted.extend(role.reads_as(known))
    return converted


# --- how the roles read -------------------------------------------------------------------------


def _as_it_is(message: Any) -> list[Message]:
    return [message]


def _read_bash_execution(message: BashExecutionMessage) -> list[Message]:
    if message.exclude_from_context is True:
        return []
    lines = [f"Ran `{message.command}`"]
    output = message.output.rstrip("\n")
    if output.strip():
        fence = _fence_for(output)
        lines += [fence, output, fence]
    else:
        lines.append("(no output)")
    if message.cancelled:
        lines.append("(the command was cancelled)")
    elif message.exit_code:
        lines.append(f"Exit code: {message.exit_code}")
    if message.truncated and message.full_output_path:
        lines.append(f"The output was cut. Full output: {message.full_output_path}")
    return [UserMessage(content="\n".join(lines), timestamp=message.timestamp)]


def _fence_for(text: str) -> str:
    """A backtick fence that nothing in ``text`` closes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)


def _read_custom(message: CustomMessage) -> list[Message]:
    return [UserMessage(content=message.content, timestamp=message.timestamp)]


def _read_branch_summary(message: BranchSummaryMessage) -> list[Message]:
    intro = "Before coming here, work was done on another branch of this conversation. In short:"
    return [_summary(intro, message.summary, message.timestamp)]


def _read_compaction_summary(message: CompactionSummaryMessage) -> list[Message]:
    intro = "The earlier part of this conversation was replaced by this summary of it:"
    return [_summary(intro, message.summary, message.timestamp)]


def _summary(intro: str, summary: str, timestamp: int) -> UserMessage:
    text = f"{intro}\n\n<summary>\n{summary.strip()}\n</summary>"
    return UserMessage(content=text, timestamp=timestamp)
