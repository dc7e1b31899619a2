"""Our model layer, driven: for each line of JSON with ``api`` and ``baseUrl``, one reply is read.

Answers with a line: the CPU seconds of the process meanwhile, how many deltas and how many batches
of events came, the stop reason, and how many characters of arguments.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any

from pi_rpc.llm.events import TextDelta, ThinkingDelta, ToolCallDelta
from pi_rpc.llm.messages import ToolCall, UserMessage
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple


def model_of(api: str, base_url: str) -> Model:
    return Model(
        id="benchmark",
        name="benchmark",
        api=api,
        provider="bench",
        base_url=base_url,
        reasoning=False,
        input=["text"],
        cost=ModelCost(input=1, output=2, cache_read=0.1, cache_write=1.25),
        context_window=1_000_000,
        max_tokens=100_000,
    )


async def read(asked: dict[str, str]) -> dict[str, Any]:
    context = Context(messages=[UserMessage(content="go", timestamp=1)])
    batches = 0
    kinds: Counter[type] = Counter()
    before = time.process_time()
    model = model_of(asked["api"], asked["baseUrl"])
    # The pause is the daemon's for a client that has no wishes.
    options = StreamOptions(api_key="none", read_pause_s=0.008)
    stream = stream_simple(model, context, options)
    while (batch := await stream.next_batch()) is not None:
        batches += 1
        kinds.update(map(type, batch))
    message = await stream.result()
    used = time.process_time() - before
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    return {
        "cpu": used,
        "deltas": sum(kinds[kind] for kind in (TextDelta, ThinkingDelta, ToolCallDelta)),
        "batches": batches,
        "stopReason": message.stop_reason,
        "error": message.error_message or None,
        "argument": len(calls[0].arguments["content"]) if calls else 0,
    }


def main() -> None:
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            print(json.dumps(runner.run(read(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
