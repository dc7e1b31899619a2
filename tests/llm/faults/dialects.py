"""What a server says in each dialect: the parts of a reply, and its frames.

Owns the shapes of replies, one class for each dialect, after the vendors' documentation. The words
of vendors for what went wrong are ``words``; what can go wrong is ``faults``.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import msgspec

from tests.llm.bedrock_wire import CONTENT_TYPE, encoded, failure, frame

PIECES = ("Good ", "mörning", ", world")
TEXT = "".join(PIECES)
TOOL = "read"
ARGUMENTS = '{"path":"README.md"}'
DONE = msgspec.Raw(b"[DONE]")
CUT_ARGUMENTS = '{"path":"READ'


class Dialect(ABC):
    """One column of the table."""

    api: ClassVar[str]
    provider: ClassVar[str]
    kind: ClassVar[str] = "text/event-stream"
    """The content type of a stream."""
    base_path: ClassVar[str] = ""
    ended_early: ClassVar[str]
    """What we say about a stream without its end."""
    bodies_name_failures: ClassVar[bool] = True
    """A failure can be told from the body of an answer alone."""
    after_stop: ClassVar[int] = 0
    """How many events come after the one that says why a reply ended."""
    calls_are_whole: ClassVar[bool] = False
    """A tool call comes in one event, with its arguments decoded."""

    @abstractmethod
    def start(self) -> list[Any]:
        """What comes before the first piece of text."""

    @abstractmethod
    def piece(self, text: str) -> Any:
        """An event with a piece of text."""

    @abstractmethod
    def call(self, arguments: str) -> list[Any]:
        """A call of ``TOOL`` after the text, with these arguments, not ended."""

    @abstractmethod
    def end(self, *, after_call: bool = False) -> list[Any]:
        """The rest of a whole reply."""

    @abstractmethod
    def wrong_type(self) -> Any:
        """An event of a known type with a field of the wrong one."""

    @abstractmethod
    def unknown(self) -> Any:
        """An event of a type that did not exist when the dialect was written."""

    @abstractmethod
    def whole_json(self) -> Any:
        """What a server says that does not stream."""

    def frame(self, event: Any) -> bytes:
        """The bytes of an event."""
        return b"data: " + msgspec.json.encode(event) + b"\n\n"

    def frames(self, events: list[Any]) -> bytes:
        return b"".join(map(self.frame, events))

    def sign_of_life(self) -> bytes:
        """What a server sends while it has nothing to say; empty where it sends nothing."""
        return b": keep-alive\n\n"

    def garbage(self) -> bytes:
        """A whole frame whose content is not JSON."""
        return b'data: {"unfinished": [\n\n'

    def said(self, *pieces: str) -> list[Any]:
        """The beginning of a reply."""
        return [*self.start(), *map(self.piece, pieces)]

    def whole(self) -> bytes:
        """A reply that says ``TEXT``."""
        return self.frames([*self.said(*PIECES), *self.end()])


class Completions(Dialect):
    """``openai-completions``"""

    api = "openai-completions"
    provider = "openai"
    base_path = "/v1"
    ended_early = "ended without finish_reason"
    after_stop = 2

    @staticmethod
    def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]}

    def start(self) -> list[Any]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def piece(self, text: str) -> Any:
        return self._chunk({"content": text})

    def call(self, arguments: str) -> list[Any]:
        function = {"name": TOOL, "arguments": ""}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        more = {"index": 0, "function": {"arguments": arguments}}
        return [self._chunk({"tool_calls": [call]}), self._chunk({"tool_calls": [more]})]

    def end(self, *, after_call: bool = False) -> list[Any]:
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        reason = "tool_calls" if after_call else "stop"
        return [self._chunk({}, reason), {"id": "c1", "choices": [], "usage": usage}, DONE]

    def wrong_type(self) -> Any:
        return {"id": "c1", "choices": "many"}

    def unknown(self) -> Any:
        return {"object": "chat.completion.notice", "notice": {"level": 3}}

    def whole_json(self) -> Any:
        message = {"role": "assistant", "content": TEXT}
        return {"id": "c1", "choices": [{"message": message, "finish_reason": "stop"}]}


class Mistral(Completions):
    """``mistral-conversations``"""

    api = "mistral-conversations"
    provider = "mistral"
    base_path = ""


class Responses(Dialect):
    """``openai-responses``"""

    api = "openai-responses"
    provider = "openai"
    base_path = "/v1"
    ended_early = "ended before a terminal event"

    def frame(self, event: Any) -> bytes:
        return b"event: " + event["type"].encode() + b"\n" + super().frame(event)

    def start(self) -> list[Any]:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
        part = {"type": "output_text", "text": ""}
        place = {"item_id": "msg_1", "output_index": 0}
        return [
            {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.content_part.added", **place, "content_index": 0, "part": part},
        ]

    def piece(self, text: str) -> Any:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        return {"type": "response.output_text.delta", **place, "delta": text}

    @staticmethod
    def _item(arguments: str) -> dict[str, Any]:
        ids = {"id": "fc_1", "call_id": "call_1"}
        return {"type": "function_call", **ids, "name": TOOL, "arguments": arguments}

    def call(self, arguments: str) -> list[Any]:
        self._arguments = arguments
        kind = "response.function_call_arguments.delta"
        return [
            {"type": "response.output_item.added", "output_index": 1, "item": self._item("")},
            {"type": kind, "item_id": "fc_1", "output_index": 1, "delta": arguments},
        ]

    def end(self, *, after_call: bool = False) -> list[Any]:
        kind = "response.output_item.done"
        content = [{"type": "output_text", "text": TEXT}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        events = [{"type": kind, "output_index": 0, "item": message}]
        if after_call:
            events.append({"type": kind, "output_index": 1, "item": self._item(self._arguments)})
        usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        response = {"id": "r1", "status": "completed", "output": [], "usage": usage}
        return [*events, {"type": "response.completed", "response": response}]

    def wrong_type(self) -> Any:
        return {"type": "response.output_text.delta", "output_index": "first", "delta": "x"}

    def unknown(self) -> Any:
        return {"type": "response.mood.delta", "output_index": 7, "item_id": "x", "delta": "ha"}

    def whole_json(self) -> Any:
        return {"id": "r1", "object": "response", "status": "completed", "output": []}

    def garbage(self) -> bytes:
        return b'event: response.output_text.delta\ndata: {"unfinished": [\n\n'


class Azure(Responses):
    """``azure-openai-responses``"""

    api = "azure-openai-responses"
    provider = "azure-openai-responses"
    base_path = "/openai/v1"


class Anthropic(Dialect):
    """``anthropic-messages``"""

    api = "anthropic-messages"
    provider = "anthropic"
    ended_early = "ended before message_stop"
    after_stop = 1

    def frame(self, event: Any) -> bytes:
        return b"event: " + event["type"].encode() + b"\n" + super().frame(event)

    def start(self) -> list[Any]:
        usage = {"input_tokens": 9, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "usage": usage}
        block = {"type": "text", "text": ""}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "ping"},
        ]

    def piece(self, text: str) -> Any:
        delta = {"type": "text_delta", "text": text}
        return {"type": "content_block_delta", "index": 0, "delta": delta}

    def call(self, arguments: str) -> list[Any]:
        block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
        return [
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": block},
            {"type": "content_block_delta", "index": 1, "delta": delta},
        ]

    def end(self, *, after_call: bool = False) -> list[Any]:
        delta = {"stop_reason": "tool_use" if after_call else "end_turn"}
        return [
            {"type": "content_block_stop", "index": 1 if after_call else 0},
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}},
            {"type": "message_stop"},
        ]

    def wrong_type(self) -> Any:
        return {"type": "content_block_delta", "index": "first", "delta": {"type": "text_delta"}}

    def unknown(self) -> Any:
        return {"type": "content_block_mood", "index": 0, "mood": {"type": "glad"}}

    def whole_json(self) -> Any:
        content = [{"type": "text", "text": TEXT}]
        return {"id": "msg_1", "type": "message", "content": content, "stop_reason": "end_turn"}

    def sign_of_life(self) -> bytes:
        return self.frame({"type": "ping"})

    def garbage(self) -> bytes:
        return b'event: content_block_delta\ndata: {"unfinished": [\n\n'


class Google(Dialect):
    """``google-generative-ai``"""

    api = "google-generative-ai"
    provider = "google"
    base_path = "/v1beta"
    ended_early = "ended without finishReason"
    calls_are_whole = True

    def frame(self, event: Any) -> bytes:
        return super().frame(event).removesuffix(b"\n\n") + b"\r\n\r\n"

    @staticmethod
    def _chunk(*parts: Any, **more: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": list(parts)}
        counts = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
        candidate = {"content": content, "index": 0, **more}
        return {"candidates": [candidate], "usageMetadata": counts, "responseId": "r1"}

    def start(self) -> list[Any]:
        return []

    def piece(self, text: str) -> Any:
        return self._chunk({"text": text})

    def call(self, arguments: str) -> list[Any]:
        call = {"name": TOOL, "args": msgspec.Raw(arguments.encode())}
        return [self._chunk({"functionCall": call})]

    def end(self, *, after_call: bool = False) -> list[Any]:
        return [self._chunk({"text": ""}, finishReason="STOP")]

    def wrong_type(self) -> Any:
        return {"candidates": [{"content": {"parts": "many"}}]}

    def unknown(self) -> Any:
        return {"moodMetadata": {"mood": "GLAD"}}

    def whole_json(self) -> Any:
        return [self._chunk({"text": TEXT}, finishReason="STOP")]


class Bedrock(Dialect):
    """``bedrock-converse-stream``: an event is its name and its payload; ``!`` names a failure."""

    api = "bedrock-converse-stream"
    provider = "amazon-bedrock"
    kind = CONTENT_TYPE
    ended_early = "ended without"
    after_stop = 1
    bodies_name_failures = False

    def frame(self, event: Any) -> bytes:
        name, payload = event
        if name.startswith("!"):
            return failure(name[1:], **payload)
        return encoded((name, payload))

    def start(self) -> list[Any]:
        return [("messageStart", {"role": "assistant"})]

    def piece(self, text: str) -> Any:
        return "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}

    def call(self, arguments: str) -> list[Any]:
        call = {"toolUse": {"toolUseId": "tooluse_1", "name": TOOL}}
        delta = {"toolUse": {"input": arguments}}
        return [
            ("contentBlockStop", {"contentBlockIndex": 0}),
            ("contentBlockStart", {"contentBlockIndex": 1, "start": call}),
            ("contentBlockDelta", {"contentBlockIndex": 1, "delta": delta}),
        ]

    def end(self, *, after_call: bool = False) -> list[Any]:
        reason = "tool_use" if after_call else "end_turn"
        usage = {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12}
        return [
            ("contentBlockStop", {"contentBlockIndex": 1 if after_call else 0}),
            ("messageStop", {"stopReason": reason}),
            ("metadata", {"usage": usage, "metrics": {"latencyMs": 9}}),
        ]

    def wrong_type(self) -> Any:
        return "contentBlockDelta", {"contentBlockIndex": "first", "delta": {"text": "x"}}

    def unknown(self) -> Any:
        return "contentBlockMood", {"contentBlockIndex": 0, "mood": {"kind": "glad"}}

    def whole_json(self) -> Any:
        message = {"role": "assistant", "content": [{"text": TEXT}]}
        return {"output": {"message": message}, "stopReason": "end_turn"}

    def sign_of_life(self) -> bytes:
        return b""

    def garbage(self) -> bytes:
        headers = {":event-type": "contentBlockDelta", ":message-type": "event"}
        return frame(headers, b'{"unfinished": [')


DIALECTS: list[Dialect] = [
    Completions(),
    Responses(),
    Azure(),
    Anthropic(),
    Google(),
    Mistral(),
    Bedrock(),
]
