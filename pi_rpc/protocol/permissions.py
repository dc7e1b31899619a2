"""Permission: what the client is asked before a tool runs, and what was decided for longer.

Owns the structs of ``permission/*`` and of LSP's ``window/showMessageRequest``, which takes the
place of ``permission/request`` with clients that know nothing else. Does not own what is asked
(``pi_rpc.harness.permissions``) nor how (``pi_rpc.server.permissions``)."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from pi_rpc.agent.tool import Location
from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.client_requests import Question, QuestionParams

__all__ = [
    "PERMISSION_REQUEST",
    "SHOW_MESSAGE_REQUEST",
    "MessageAction",
    "PermissionChoice",
    "PermissionEdit",
    "PermissionForgetParams",
    "PermissionListParams",
    "PermissionListResult",
    "PermissionRequestParams",
    "PermissionRequestResult",
    "PermissionRule",
    "ReviewedText",
    "ShowMessageRequestParams",
    "ShowMessageRequestResult",
]

ChoiceKind: TypeAlias = Literal[
    "allow_once", "allow_session", "allow_always", "reject_once", "reject_always"
]


class PermissionEdit(Wire, frozen=True, kw_only=True):
    """What would become of a file."""

    uri: str
    """The file."""
    new_text: str
    """What it would hold."""
    old_text: str | UnsetType = UNSET
    """What it holds now; absent: it does not exist, is no text or is too large to be shown."""
    version: int | UnsetType = UNSET
    """The client's version of the document that `oldText` is; absent: it is from the disk."""
    is_new: bool | UnsetType = UNSET
    """True: there is no such file yet."""


class PermissionChoice(Wire, frozen=True, kw_only=True):
    """An answer that can be given."""

    id: str
    """Names it in the answer."""
    name: str
    """What the person reads on it."""
    kind: ChoiceKind
    """Whether it allows, and for how long: this call, this session, this project. Ignore options of
    a kind you do not know."""
    rule: str | UnsetType = UNSET
    """In words, what would be remembered; absent: nothing."""


class PermissionRequestParams(QuestionParams, frozen=True, kw_only=True):
    """May this call run?"""

    tool_call_id: str
    """The call; its `tool_execution_start` was sent before."""
    tool_name: str
    """Its tool."""
    kind: Literal["read", "edit", "execute", "other"]
    """What it does."""
    title: str
    """The call in a line."""
    args: Any
    """Its arguments, as it will run with them."""
    locations: list[Location]
    """What it is about."""
    options: list[PermissionChoice]
    """What can be answered; at least one that allows and one that rejects."""
    edits: list[PermissionEdit] | UnsetType = UNSET
    """What it would write, for review."""
    reason: str | UnsetType = UNSET
    """Why it is asked, in a sentence for the person."""


class ReviewedText(Wire, frozen=True, kw_only=True):
    """What a file is to hold instead of what was proposed."""

    uri: str
    """The file, as the request has it."""
    new_text: str
    """Exactly this is written."""


class PermissionRequestResult(Wire, frozen=True, kw_only=True):
    """What the person chose. Without `optionId` it counts as cancelled."""

    option_id: str | UnsetType = UNSET
    """The `id` of one of the options."""
    feedback: str | UnsetType = UNSET
    """With a rejection: what the model reads of it."""
    edits: list[ReviewedText] | UnsetType = UNSET
    """What to write instead; files that are missing are written as proposed."""
    cancelled: bool | UnsetType = UNSET
    """True: the person dismissed the question; this one call is refused."""


PERMISSION_REQUEST = Question(
    "permission/request",
    PermissionRequestParams,
    PermissionRequestResult,
    lambda features: features.permission,
)


# --- LSP's ----------------------------------------------------------------------------------------


class MessageAction(Wire, frozen=True, kw_only=True):
    """A button, as LSP has it."""

    title: str
    """What the person reads on it, and what names it in the answer."""


class ShowMessageRequestParams(QuestionParams, frozen=True, kw_only=True):
    """A message with buttons, as LSP has it."""

    type: int
    """How much it matters: 2, a warning."""
    message: str
    """The question. Characters that do not print, or that change the direction of the text, are
    escaped."""
    actions: list[MessageAction]
    """The buttons."""


class ShowMessageRequestResult(Wire, frozen=True, kw_only=True):
    """The button that was pressed; `null` when the message was dismissed."""

    title: str | UnsetType = UNSET
    """What stands on it."""


SHOW_MESSAGE_REQUEST = Question(
    "window/showMessageRequest",
    ShowMessageRequestParams,
    ShowMessageRequestResult,
    # Only clients with LSP's capability are asked so at all.
    lambda _: True,
)


# --- what was decided for longer -----------------------------------------------------------------


class PermissionListParams(Wire, frozen=True, kw_only=True):
    """Of which project."""

    cwd: str | UnsetType = UNSET
    """A directory; absent: the one that the client works in."""


class PermissionRule(Wire, frozen=True, kw_only=True):
    """A rule that holds."""

    effect: Literal["allow", "ask", "deny"]
    """What becomes of calls that it fits."""
    rule: str
    """As it is written in settings, such as `bash(git status*)`."""
    words: str
    """What it means."""
    source: Literal["settings", "project", "remembered", "session"]
    """The person's settings; the project's own, which can only tighten; an answer that was to hold
    always; one that was to hold for a session."""
    id: str | UnsetType = UNSET
    """Names it in `permission/forget`; absent: it stands in a file of settings."""
    session_id: str | UnsetType = UNSET
    """The session that it holds in."""


class PermissionListResult(Wire, frozen=True, kw_only=True):
    """The rules of a project."""

    rules: list[PermissionRule]
    """Those of settings first, then what was remembered, then those of open sessions."""


class PermissionForgetParams(Wire, frozen=True, kw_only=True):
    """Which rule to forget."""

    id: str
    """Its `id` in `permission/list`."""
    cwd: str | UnsetType = UNSET
    """Accepted, as in `permission/list`; the `id` is enough."""
