"""What is kept of the events a client was sent, and what a client that missed some is given."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.agent.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    TurnStart,
)
from pi_rpc.agent.tool import ToolResult
from pi_rpc.host.history import EventHistory, Kept, MergedDelta
from pi_rpc.llm.events import TextDelta, TextEnd, TextStart, ThinkingDelta, ToolCallDelta

STREAM: Any = object()
"""Nothing here looks at it."""


class Sender:
    """Numbers events and remembers each as a frame that says what it was."""

    def __init__(self, **limits: int) -> None:
        self.history = EventHistory(**limits)
        self.sent: list[tuple[int, AgentEvent]] = []

    def send(self, *events: AgentEvent) -> None:
        first = len(self.sent) + 1
        numbered = list(enumerate(events, first))
        self.sent += numbered
        self.history.add(numbered, [frame_of(seq) for seq, _ in numbered])

    def since(self, seq: int) -> list[tuple[int, str]]:
        """Numbers, and texts of deltas or names of other events."""
        return [self.named(each) for each in self.history.since(seq)[0]]

    def reaches(self, seq: int) -> bool:
        return self.history.since(seq)[1]

    def named(self, kept: Kept) -> tuple[int, str]:
        seq, what = kept
        if isinstance(what, MergedDelta):
            return seq, what.delta
        assert what == frame_of(seq)
        return seq, name(self.sent[seq - 1][1])


def frame_of(seq: int) -> bytes:
    return b"frame %d" % seq


def name(event: AgentEvent) -> str:
    news = getattr(event, "assistant_message_event", event)
    return str(type(news).__struct_config__.tag)


def update(news: Any, message: str = "m1") -> MessageUpdate:
    return MessageUpdate(assistant_message_event=news, stream=STREAM, message_id=message)


def delta(text: str, block: int = 0, message: str = "m1") -> MessageUpdate:
    return update(TextDelta(content_index=block, delta=text), message)


def end(text: str, block: int = 0, message: str = "m1") -> MessageUpdate:
    return update(TextEnd(content_index=block, content=text), message)


def message_end(message: str = "m1") -> MessageEnd:
    return MessageEnd(message={}, message_id=message)


def tool_update(text: str, *, call: str = "c1", replaces: bool = False) -> ToolExecutionUpdate:
    partial = ToolResult.of_text(text)
    if not replaces:
        partial = ToolResult(content=[], delta=text)
    return ToolExecutionUpdate(tool_call_id=call, tool_name="t", args={}, partial_result=partial)


def tool_end(call: str = "c1") -> ToolExecutionEnd:
    result = ToolResult.of_text("done")
    return ToolExecutionEnd(tool_call_id=call, tool_name="t", result=result, is_error=False)


def test_nothing_was_sent_and_nothing_is_missing() -> None:
    it = Sender()
    assert it.history.since(0) == ([], True)
    assert not it.reaches(1)


def test_events_come_back_as_the_frames_that_were_sent() -> None:
    it = Sender()
    it.send(TurnStart(), MessageStart(message={}))
    it.send(TurnStart())
    assert it.since(0) == [(1, "turn_start"), (2, "message_start"), (3, "turn_start")]
    assert it.since(2) == [(3, "turn_start")]
    assert it.since(3) == []
    assert it.reaches(3)


def test_a_number_ahead_of_what_was_sent_is_of_another_epoch() -> None:
    it = Sender()
    it.send(TurnStart())
    assert it.reaches(1)
    assert not it.reaches(2)


def test_deltas_of_a_block_come_as_one_from_any_number_on() -> None:
    it = Sender()
    it.send(delta("a"), delta("bc"))
    it.send(delta("d"))
    assert it.since(0) == [(3, "abcd")]
    assert it.since(1) == [(3, "bcd")]
    assert it.since(2) == [(3, "d")]
    assert it.since(3) == []
    it.send(delta("e"))
    assert it.since(0) == [(4, "abcde")]
    assert it.since(3) == [(4, "e")]


def test_deltas_of_two_blocks_messages_and_kinds_stay_apart() -> None:
    it = Sender()
    it.send(delta("a"), delta("b", block=1), delta("c", message="m2", block=1))
    it.send(update(ThinkingDelta(content_index=1, delta="d"), "m2"))
    it.send(update(ToolCallDelta(content_index=1, delta="e"), "m2"))
    assert [text for _, text in it.since(0)] == ["a", "b", "c", "d", "e"]


def test_an_event_between_deltas_keeps_its_place() -> None:
    it = Sender()
    it.send(delta("a"), delta("b"), TurnStart(), delta("c"))
    assert it.since(0) == [(2, "ab"), (3, "turn_start"), (4, "c")]


def test_equal_message_ids_need_not_be_the_same_object() -> None:
    it = Sender()
    it.send(delta("a", message="m-1"), delta("b", message=f"m-{len(it.sent) + 1}"))
    assert it.since(0) == [(2, "ab")]


def test_a_finished_block_takes_the_place_of_its_deltas() -> None:
    it = Sender()
    it.send(update(TextStart(content_index=0)), delta("a"), TurnStart(), delta("b"), end("ab"))
    assert it.since(0) == [(1, "text_start"), (3, "turn_start"), (5, "text_end")]
    assert it.since(2) == [(3, "turn_start"), (5, "text_end")]
    assert it.since(4) == [(5, "text_end")]
    assert it.reaches(0)


def test_a_finished_block_leaves_the_deltas_of_others() -> None:
    it = Sender()
    it.send(delta("a"), delta("b", block=1), end("a"))
    assert it.since(0) == [(2, "b"), (3, "text_end")]


def test_a_finished_message_takes_the_place_of_blocks_that_never_finished() -> None:
    it = Sender()
    it.send(delta("a"), delta("b", block=1), delta("c", message="m2"), message_end())
    assert it.since(0) == [(3, "c"), (4, "message_end")]


def test_a_finished_call_takes_the_place_of_its_updates() -> None:
    it = Sender()
    it.send(tool_update("a"), tool_update("b", call="c2"), tool_update("c"), tool_end())
    assert it.since(0) == [(2, "tool_execution_update"), (4, "tool_execution_end")]


def test_output_that_replaces_takes_the_place_of_what_came_before_and_new_output_does_not() -> None:
    it = Sender()
    it.send(tool_update("a", replaces=True), tool_update("b", replaces=True))
    assert [seq for seq, _ in it.since(0)] == [2]
    it.send(tool_update("c"), tool_update("d"))
    assert [seq for seq, _ in it.since(0)] == [2, 3, 4]


def test_what_no_longer_fits_is_given_up_from_the_oldest_on() -> None:
    it = Sender(max_events=3)
    it.send(*[TurnStart() for _ in range(5)])
    assert [seq for seq, _ in it.since(0)] == [3, 4, 5]
    assert not it.reaches(1)
    assert it.reaches(2)


def test_bytes_are_limited_as_well_and_an_event_that_is_too_large_is_not_kept() -> None:
    history = EventHistory(max_bytes=100)
    for seq in range(1, 6):
        history.add([(seq, TurnStart())], [b"x" * 40])
    assert [seq for seq, _ in history.since(3)[0]] == [4, 5]
    assert history.since(3)[1]
    assert not history.since(2)[1]
    history.add([(6, TurnStart())], [b"x" * 101])
    assert history.since(5) == ([], False)
    assert history.since(6) == ([], True)


def test_a_block_longer_than_the_limit_keeps_its_end() -> None:
    it = Sender(max_bytes=64 * 1024)
    pieces = [f"{number:05}" * 10 for number in range(4000)]
    for piece in pieces:
        it.send(delta(piece))
    ((last, text),) = it.since(0)
    assert last == len(pieces)
    assert "".join(pieces).endswith(text)
    assert 32 * 1024 < len(text) <= 64 * 1024
    assert not it.reaches(0)
    lost = len(pieces) - len(text) // len(pieces[0])
    assert it.reaches(lost)
    assert not it.reaches(lost - 1)
    it.send(end("all of it"))
    assert it.since(lost) == [(len(pieces) + 1, "text_end")]


def test_nothing_of_what_was_replaced_or_given_up_is_held_on_to() -> None:
    it = Sender(max_events=8)
    for number in range(50):
        message = f"m{number}"
        it.send(delta("a", message=message), delta("b", 1, message), end("a", message=message))
        it.send(tool_update("x", call=message), message_end(message))
        if number % 2:
            it.send(tool_end(message))
    history = it.history
    assert len(history._kept) <= 8
    assert set(history._replaceable) <= {each.block for each in history._kept.values()}
    assert history._size == sum(each.size for each in history._kept.values())


# --- whatever happens and whenever a client lost touch -------------------------------------------


class Drawn:
    """What a client has drawn: by message and block, and by tool call."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[str, int], str] = {}
        self.finished: set[str] = set()
        self.output: dict[str, str] = {}

    def take(self, event: Any) -> None:
        match event:
            case MessageUpdate(message_id=str(message), assistant_message_event=news):
                place = (message, news.content_index)
                if isinstance(news, TextDelta):
                    self.blocks[place] = self.blocks.get(place, "") + news.delta
                elif isinstance(news, TextEnd):
                    self.blocks[place] = news.content
            case MessageEnd(message_id=str(message)):
                self.finished.add(message)
                self.blocks = {at: text for at, text in self.blocks.items() if at[0] != message}
            case ToolExecutionUpdate(tool_call_id=call, partial_result=partial):
                fresh = partial.delta
                self.output[call] = (
                    "replaced" if fresh is msgspec.UNSET else self.output.get(call, "") + fresh
                )
            case ToolExecutionEnd(tool_call_id=call):
                self.output[call] = "done"

    def take_kept(self, sender: Sender, kept: list[Kept]) -> None:
        for seq, what in kept:
            if isinstance(what, MergedDelta):
                first = what.update
                index = first.assistant_message_event.content_index
                self.take(delta(what.delta, index, str(first.message_id)))
            else:
                self.take(sender.sent[seq - 1][1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drawn) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Model:
    """A stream of events as a session could send it: deltas add up to what ends say."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, int], str] = {}
        self.message = 1

    def event(self, kind: str, block: int, text: str) -> AgentEvent:
        message = f"m{self.message}"
        match kind:
            case "delta":
                self.texts[message, block] = self.texts.get((message, block), "") + text
                return delta(text, block, message)
            case "end":
                return end(self.texts.get((message, block), ""), block, message)
            case "message_end":
                self.message += 1
                return message_end(message)
            case "output":
                return tool_update(text, call=f"c{block}")
            case "replace":
                return tool_update(text, call=f"c{block}", replaces=True)
            case "tool_end":
                return tool_end(f"c{block}")
        return TurnStart()


KINDS = ("delta", "delta", "delta", "end", "message_end", "output", "replace", "tool_end", "other")
STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.text(max_size=3)), max_size=4),
    max_size=30,
)


@given(STEPS, st.integers(0, 60), st.sampled_from((3, 8, 4096)), st.lists(st.integers(0, 120)))
def test_a_client_that_catches_up_has_drawn_what_one_that_missed_nothing_has(
    batches: list[list[tuple[str, int, str]]], missed_after: int, room: int, looks: list[int]
) -> None:
    it, model = Sender(max_events=room), Model()
    there, late = Drawn(), Drawn()
    for batch in batches:
        events = [model.event(*step) for step in batch]
        it.send(*events)
        if len(it.sent) in looks:
            it.history.since(0)
    for seq, event in it.sent:
        there.take(event)
        if seq <= missed_after:
            late.take(event)
    known = min(missed_after, len(it.sent))
    kept, complete = it.history.since(known)
    numbers = [seq for seq, _ in kept]
    assert numbers == sorted(set(numbers))
    assert all(seq > known for seq in numbers)
    assert complete or room < 4096
    assert not kept or numbers[-1] == len(it.sent)
    if complete:
        late.take_kept(it, kept)
        assert late == there
