"""What the daemon asks the client, and tells it about that.

Owns the structs of requests and notifications that go that way, and ``Question``, which says of a
request what its params and result are and which clients may be sent it. Does not own sending nor
waiting (``pi_rpc.server.questions``)."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.handshake import ClientFeatures

__all__ = [
    "UI_CONFIRM",
    "UI_EDITOR",
    "UI_INPUT",
    "UI_SELECT",
    "LiveRequest",
    "Question",
    "QuestionParams",
    "RequestResolvedParams",
    "ResolvedReason",
    "UiConfirmParams",
    "UiConfirmResult",
    "UiEditorParams",
    "UiInputParams",
    "UiNotifyParams",
    "UiOption",
    "UiSelectParams",
    "UiStatusParams",
    "UiTextResult",
]


class QuestionParams(Wire, frozen=True, kw_only=True):
    """What every request to the client says."""

    request_id: str
    """Names the question, as `request/resolved` does."""
    session_id: str | UnsetType = UNSET
    """The session that asks; absent: the daemon."""
    timeout_ms: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    """Milliseconds until it is answered as `cancelled`; absent: it waits."""


P = TypeVar("P", bound=QuestionParams)
R = TypeVar("R", bound=Wire)


class Question(Struct, Generic[P, R], frozen=True):
    """A request that the daemon may send."""

    method: str
    params: type[P]
    result: type[R]
    is_answered_by: Callable[[ClientFeatures], bool]
    """The client has declared that it answers this."""
    is_for_person: bool = True
    """A person answers it; otherwise the client does by itself."""


# --- dialogs ------------------------------------------------------------------------------------


class UiOption(Wire, frozen=True, kw_only=True):
    """Something that can be chosen."""

    value: str
    """What is answered when it is."""
    label: str
    """What the person reads."""
    description: str | UnsetType = UNSET
    """More about it."""


class UiSelectParams(QuestionParams, frozen=True, kw_only=True):
    """A choice."""

    title: str
    """What is asked, in a line."""
    options: list[UiOption]
    """What there is to choose from; at least one."""
    message: str | UnsetType = UNSET
    """More about the question."""


class UiConfirmParams(QuestionParams, frozen=True, kw_only=True):
    """Yes or no."""

    title: str
    """What is asked, in a line."""
    message: str | UnsetType = UNSET
    """More about the question."""


class UiInputParams(QuestionParams, frozen=True, kw_only=True):
    """A line of text."""

    title: str
    """What is asked, in a line."""
    message: str | UnsetType = UNSET
    """More about the question."""
    placeholder: str | UnsetType = UNSET
    """Shown while nothing has been written."""
    prefill: str | UnsetType = UNSET
    """What is there to begin with."""
    secret: bool | UnsetType = UNSET
    """True: not to be shown while it is written, nor kept."""


class UiEditorParams(QuestionParams, frozen=True, kw_only=True):
    """A text of any length."""

    title: str
    """What is asked, in a line."""
    message: str | UnsetType = UNSET
    """More about the question."""
    prefill: str | UnsetType = UNSET
    """What is there to begin with."""


class UiTextResult(Wire, frozen=True, kw_only=True):
    """What was chosen or written. An answer with neither field counts as cancelled."""

    value: str | UnsetType = UNSET
    """The text; of `ui/select` the `value` of an option."""
    cancelled: bool | UnsetType = UNSET
    """True: the person dismissed the question."""


class UiConfirmResult(Wire, frozen=True, kw_only=True):
    """Yes or no. An answer with neither field counts as cancelled."""

    confirmed: bool | UnsetType = UNSET
    """True: yes."""
    cancelled: bool | UnsetType = UNSET
    """True: the person dismissed the question; taken as no."""


def _has_ui(features: ClientFeatures) -> bool:
    return features.ui


UI_SELECT = Question("ui/select", UiSelectParams, UiTextResult, _has_ui)
UI_CONFIRM = Question("ui/confirm", UiConfirmParams, UiConfirmResult, _has_ui)
UI_INPUT = Question("ui/input", UiInputParams, UiTextResult, _has_ui)
UI_EDITOR = Question("ui/editor", UiEditorParams, UiTextResult, _has_ui)


# --- notifications ------------------------------------------------------------------------------


class UiNotifyParams(Wire, frozen=True, kw_only=True):
    """Something the person should read once."""

    level: Literal["info", "warning", "error"]
    """How much it matters."""
    message: str
    """The text."""
    session_id: str | UnsetType = UNSET
    """The session it comes from."""


class UiStatusParams(Wire, frozen=True, kw_only=True):
    """Something the person may see for as long as it holds."""

    key: str
    """Names it within the session: a later text takes the place of an earlier one."""
    session_id: str | UnsetType = UNSET
    """The session it comes from."""
    text: str | UnsetType = UNSET
    """The text; absent: there is no such status any more."""


ResolvedReason: TypeAlias = Literal["answered", "aborted", "timed_out"]


class RequestResolvedParams(Wire, frozen=True, kw_only=True):
    """A question to the client is moot: take it off the screen."""

    request_id: str
    """The question's `requestId`."""
    reason: ResolvedReason
    """`answered` elsewhere; `aborted`: what asked has ended; `timed_out`: its time is over. Ignore
    words you do not know."""
    session_id: str | UnsetType = UNSET
    """The session that asked."""


class LiveRequest(Wire, frozen=True, kw_only=True):
    """A question to the client that waits for its answer."""

    request_id: str
    """The question's `requestId`."""
    method: str
    """The method of the request."""
    params: Any
    """Its params."""
