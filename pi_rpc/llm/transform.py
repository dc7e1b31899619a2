"""What a conversation looks like to the model that is asked next.

Owns the changes every provider needs before it words its own request: what another model left
behind is dropped or renamed, every call gets exactly one result, and nothing is left that cannot be
encoded. Deterministic from the first message on, so that prompt caches stay warm. Does not own a
dialect's wording.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from pi_rpc.llm.messages import (
    AssistantContent,
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.partial_json import without_lone_surrogates

__all__ = ["IMAGE_PLACEHOLDER", "NO_RESULT", "clean_json", "transform_messages"]

IMAGE_PLACEHOLDER = "(an image was here; this model cannot see images)"
NO_RESULT = "No result: this tool call was not run to its end."

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_ID_LENGTHS = {
    "anthropic-messages": 64,
    "azure-openai-responses": 64,
    "bedrock-converse-stream": 64,
    "google-generative-ai": 64,
    "openai-completions": 40,
    "openai-responses": 64,
}
_PAIRED_IDS = {"azure-openai-responses", "openai-responses"}
"""Dialects whose calls are named ``<call id>|<item id>``."""
_ITEM_ID = re.compile(r"fc_[a-zA-Z0-9_-]{1,61}")


def transform_messages(messages: Sequence[Message], model: Model) -> list[Message]:
    """``messages`` as ``model`` can be sent them; the input is not changed.

    - Failed and aborted replies are left out, and so are results that answer no call.
    - Thinking, signatures and name spaces stay only with the model that made them.
    - Images become a placeholder for a model that cannot see.
    - Tool call ids fit the dialect and are unique; results follow them.
    - A call without a result gets one that says so.
    - Halves of surrogate pairs are removed from all text.
    """
    return _Transformation(model).run(messages)


class _Transformation:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._sees = "image" in model.input
        self._out: list[Message] = []
        self._used_ids: set[str] = set()
        self._open: list[tuple[str, ToolCall]] = []
        """Calls of the latest reply that have no result yet, with their original ids."""
        self._asked_at = 0

    def run(self, messages: Sequence[Message]) -> list[Message]:
        for message in messages:
            if isinstance(message, ToolResultMessage):
                self._add_result(message)
                continue
            self._answer_open_calls()
            if isinstance(message, UserMessage):
                content = self._user_content(message.content)
                self._out.append(replace(message, content=content))
            elif message.stop_reason not in {"error", "aborted"}:
                self._add_reply(message)
        self._answer_open_calls()
        return self._out

    def _add_result(self, message: ToolResultMessage) -> None:
        ids = [original for original, _ in self._open]
        if message.tool_call_id not in ids:
            return
        _, call = self._open.pop(ids.index(message.tool_call_id))
        content = self._blocks(message.content)
        self._out.append(
            replace(message, content=content, tool_call_id=call.id, tool_name=call.name)
        )

    def _answer_open_calls(self) -> None:
        for _, call in self._open:
            self._out.append(
                ToolResultMessage(
                    tool_call_id=call.id,
                    tool_name=call.name,
                    content=[TextBlock(text=NO_RESULT)],
                    is_error=True,
                    timestamp=self._asked_at,
                )
            )
        self._open = []

    def _add_reply(self, message: AssistantMessage) -> None:
        own = (message.provider, message.api, message.model) == (
            self._model.provider,
            self._model.api,
            self._model.id,
        )
        self._asked_at = message.timestamp
        content: list[AssistantContent] = []
        for block in message.content:
            if isinstance(block, ToolCall):
                call = self._call(block, own=own)
                self._open.append((block.id, call))
                content.append(call)
            elif isinstance(block, TextBlock):
                text = without_lone_surrogates(block.text)
                signature = block.text_signature if own else UNSET
                content.append(TextBlock(text=text, text_signature=signature))
            elif own and (block.redacted or block.thinking_signature or block.thinking.strip()):
                content.append(_clean_thinking(block))
        if content:
            self._out.append(replace(message, content=content))

    def _call(self, call: ToolCall, *, own: bool) -> ToolCall:
        changed = replace(
            call,
            id=self._new_id(call.id, own=own),
            name=without_lone_surrogates(call.name),
            arguments=clean_json(call.arguments),
        )
        return changed if own else replace(changed, thought_signature=UNSET, namespace=UNSET)

    def _new_id(self, original: str, *, own: bool) -> str:
        if self._model.api not in _PAIRED_IDS:
            return self._unique_id(original)
        call_id, _, item_id = original.partition("|")
        unique = self._unique_id(call_id)
        # Another model's item would be looked for beside the reasoning that was dropped.
        return f"{unique}|{item_id}" if own and _ITEM_ID.fullmatch(item_id) else unique

    def _unique_id(self, original: str) -> str:
        limit = _ID_LENGTHS.get(self._model.api)
        fitting = original if limit is None else _fitting_id(original, limit)
        unique, count = fitting, 2
        while unique in self._used_ids:
            unique = f"{fitting}_{count}"
            if limit is not None and len(unique) > limit:
                unique = _shortened(unique, limit)
            count += 1
        self._used_ids.add(unique)
        return unique

    def _user_content(self, content: str | list[UserContent]) -> str | list[UserContent]:
        return (
            without_lone_surrogates(content) if isinstance(content, str) else self._blocks(content)
        )

    def _blocks(self, blocks: Sequence[UserContent]) -> list[UserContent]:
        out: list[UserContent] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                out.append(replace(block, text=without_lone_surrogates(block.text)))
            elif self._sees:
                out.append(block)
            elif not (out and isinstance(out[-1], TextBlock) and out[-1].text == IMAGE_PLACEHOLDER):
                out.append(TextBlock(text=IMAGE_PLACEHOLDER))
        return out


def _clean_thinking(block: ThinkingBlock) -> ThinkingBlock:
    return replace(block, thinking=without_lone_surrogates(block.thinking))


def _fitting_id(original: str, limit: int) -> str:
    fitting = _FORBIDDEN.sub("_", original) or "call"
    return fitting if len(fitting) <= limit else _shortened(fitting, limit)


def _shortened(text: str, limit: int) -> str:
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: limit - 9]}_{digest}"


def clean_json(value: Any) -> Any:
    """A JSON value whose strings can be encoded."""
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, list):
        return [clean_json(each) for each in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(key): clean_json(each) for key, each in value.items()}
    return value
