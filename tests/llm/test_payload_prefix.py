"""What was sent stays as it was: a request begins with all of the one before it, byte for byte.

A prompt cache is paid for once and read many times, as long as nothing before the new part changes.
Only the markers of ``cache_control`` move, and only to the places that the dialect documents.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._anthropic_payload import anthropic_payload
from pi_rpc.llm.providers._completions_compat import compat_of
from pi_rpc.llm.providers._completions_payload import completions_payload

MakeModel = Callable[..., Model]
IMAGE = ImageBlock(data="AAAA", mime_type="image/png")
TOOLS = [
    ToolSpec(name=name, description=name, parameters={"type": "object", "properties": {}})
    for name in ("read", "write")
]
LIMITS = {"max_tokens", "max_completion_tokens"}
"""They follow the room that is left, and are no part of the prompt."""


def conversation(model: Model) -> Iterator[Context]:
    """The requests of a session that grows: thoughts, calls, images, errors and a hand-over."""
    messages: list[Message] = []

    def replied(*content: Any, **changes: Any) -> AssistantMessage:
        message = AssistantMessage(
            content=list(content),
            api=model.api,
            provider=model.provider,
            model=model.id,
            usage=Usage.ZERO,
            stop_reason="stop",
            timestamp=2,
        )
        return msgspec.structs.replace(message, **changes)

    def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=call_id,
            tool_name="read",
            content=list(content),
            is_error=is_error,
            timestamp=3,
        )

    def call(call_id: str) -> ToolCall:
        return ToolCall(id=call_id, name="read", arguments={"path": "a", "lines": [1, 2.5, None]})

    signature = "sig" if model.api == "anthropic-messages" else "reasoning_content"
    thought = ThinkingBlock(thinking="hmm", thinking_signature=signature)
    withheld = ThinkingBlock(thinking="", thinking_signature="blob", redacted=True)
    turns: list[list[Message]] = [
        [UserMessage(content="hi", timestamp=1)],
        [replied(thought, TextBlock(text="Looking."), call("a"), call("b")),
         result("a", TextBlock(text="one"), IMAGE), result("b", is_error=True)],
        [replied(thought, withheld, call("c")), result("c", IMAGE, TextBlock(text="two"))],
        [replied(TextBlock(text="Done.")),
         UserMessage(content=[TextBlock(text="see"), IMAGE], timestamp=4)],
        [replied(TextBlock(text="cut"), call("d"), stop_reason="error"),
         UserMessage(content=[IMAGE], timestamp=5)],
        [replied(thought, call("a")), UserMessage(content="stop that", timestamp=6)],
        [replied(thought, TextBlock(text="from another"), call("x|y"), model="another"),
         result("x|y", TextBlock(text="three")), UserMessage(content="and now?", timestamp=7)],
        [replied(call("e")), result("e", TextBlock(text="four"))],
        [replied(call("f"), call("g")), result("f"), result("g", TextBlock(text="five"))],
    ]  # fmt: skip
    for turn in turns:
        messages += turn
        yield Context(messages=list(messages), system_prompt="Be good.", tools=TOOLS)


COMPLETIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "openai": {"provider": "openai", "base_url": "https://api.openai.com/v1"},
    "deepseek": {"provider": "deepseek", "base_url": "https://api.deepseek.com"},
    "zai": {"provider": "zai", "base_url": "https://api.z.ai/api/paas/v4"},
    "openrouter": {"base_url": "https://openrouter.ai/api/v1", "id": "anthropic/claude-sonnet-5"},
    "bridged": {"compat": {"requiresAssistantAfterToolResult": True}},
    "as text": {"compat": {"requiresThinkingAsText": True}},
    "blind": {"input": ["text"]},
}
CLAUDES: dict[str, dict[str, Any]] = {
    "adaptive": {"id": "claude-sonnet-5"},
    "budget": {"id": "claude-haiku-4-5", "max_tokens": 64_000},
    "fireworks": {"base_url": "https://api.fireworks.ai/inference"},
    "blind": {"input": ["text"]},
}
SERVERS = [
    *((f"completions {name}", changes) for name, changes in COMPLETIONS.items()),
    *(
        (f"claude {name}", {"api": "anthropic-messages", "provider": "anthropic", **changes})
        for name, changes in CLAUDES.items()
    ),
]
servers = pytest.mark.parametrize("changes", [each for _, each in SERVERS], ids=dict(SERVERS))


def requests(model: Model, retention: Any) -> list[dict[str, Any]]:
    options = StreamOptions(cache_retention=retention, session_id="s", thinking_level="high")
    return [_request(model, context, options) for context in conversation(model)]


def _request(model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
    if model.api == "anthropic-messages":
        return anthropic_payload(model, context, options)[0]
    return completions_payload(model, context, options, compat_of(model))[0]


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return value


def markers(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every marker by where it is."""
    found: dict[tuple[Any, ...], Any] = {}
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, each in value.items() if isinstance(value, dict) else pairs:
        if key == "cache_control":
            found[path] = each
        else:
            found.update(markers(each, (*path, key)))
    return found


@servers
@pytest.mark.parametrize("retention", ["none", "short", "long"])
def test_a_request_begins_with_the_whole_one_before_it(
    make_model: MakeModel, changes: dict[str, Any], retention: Any
) -> None:
    made = requests(make_model(reasoning=True, **changes), retention)
    assert len(made) == 9
    for before, after in pairwise(made):
        old = msgspec.json.encode(unmarked(before["messages"]))
        new = msgspec.json.encode(unmarked(after["messages"]))
        assert len(new) > len(old)
        assert new.startswith(old[:-1])
        # Tools and instructions come first in the prompt: with their markers, they never change.
        head = {key: before[key] for key in before if key not in {"messages", *LIMITS}}
        assert msgspec.json.encode(head) == msgspec.json.encode(
            {key: after[key] for key in after if key not in {"messages", *LIMITS}}
        )


@servers
def test_without_a_cache_there_is_no_marker_and_no_key(
    make_model: MakeModel, changes: dict[str, Any]
) -> None:
    for body in requests(make_model(reasoning=True, **changes), "none"):
        assert markers(body) == {}
        assert not {key for key in body if "cache" in key}


@pytest.mark.parametrize("retention", ["short", "long"])
@pytest.mark.parametrize("name", ["adaptive", "budget", "fireworks"])
def test_claude_s_markers_are_on_the_system_prompt_the_last_tool_and_the_last_user_block(
    make_model: MakeModel, name: str, retention: Any
) -> None:
    model = make_model(reasoning=True, api="anthropic-messages", **CLAUDES[name])
    is_fireworks = name == "fireworks"
    expected = {"type": "ephemeral"}
    if retention == "long" and not is_fireworks:
        expected["ttl"] = "1h"
    for body in requests(model, retention):
        messages = body["messages"]
        assert messages[-1]["role"] == "user"
        last = ("messages", len(messages) - 1, "content", len(messages[-1]["content"]) - 1)
        places = {("system", 0), last} | (set() if is_fireworks else {("tools", 1)})
        assert markers(body) == dict.fromkeys(places, expected)


@pytest.mark.parametrize(("retention", "ttl"), [("short", {}), ("long", {"ttl": "1h"})])
def test_openrouter_s_markers_for_claude_are_at_the_same_places(
    make_model: MakeModel, retention: Any, ttl: dict[str, str]
) -> None:
    model = make_model(reasoning=True, **COMPLETIONS["openrouter"])
    for body in requests(model, retention):
        found = markers(body)
        assert all(each == {"type": "ephemeral", **ttl} for each in found.values())
        instructions, tool = ("messages", 0, "content", 0), ("tools", 1)
        (last,) = set(found) - {instructions, tool}
        assert {instructions, tool} < set(found)
        # The last message that has text: images of tools follow them with a text of ours.
        texts = [
            number
            for number, message in enumerate(body["messages"])
            if any(part["type"] == "text" for part in message["content"] or [])
        ]
        assert last[1] == texts[-1]


def test_openai_s_key_and_retention_follow_the_setting(make_model: MakeModel) -> None:
    model = make_model(reasoning=True, **COMPLETIONS["openai"])
    for body in requests(model, "short"):
        assert body["prompt_cache_key"] == "s"
        assert "prompt_cache_retention" not in body
    for body in requests(model, "long"):
        assert (body["prompt_cache_key"], body["prompt_cache_retention"]) == ("s", "24h")


def test_thinking_harder_changes_nothing_of_what_was_said(make_model: MakeModel) -> None:
    for _, changes in SERVERS:
        model = make_model(reasoning=True, **changes)
        *_, context = conversation(model)
        said = {
            msgspec.json.encode(
                _request(model, context, StreamOptions(thinking_level=level))["messages"]
            )
            for level in ("off", "low", "high")
        }
        assert len(said) == 1
