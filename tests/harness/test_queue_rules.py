"""Which message waits, is taken, is put back or is gone."""

from typing import Any

import pytest
from msgspec import UNSET

from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.queue import MessageQueue, QueuedMessage, QueueKind
from pi_rpc.llm.messages import ImageBlock

IMAGE = ImageBlock(data="AA==", mime_type="image/png")


def add(queue: MessageQueue, kind: QueueKind, text: str) -> QueuedMessage:
    return queue.add(kind, PromptInput(text))


def waiting(queue: MessageQueue) -> tuple[list[str], list[str]]:
    now = queue.snapshot()
    assert [each.text for each in now.items] == [*now.steering, *now.follow_up]
    return now.steering, now.follow_up


def texts(messages: list[QueuedMessage]) -> list[str]:
    return [each.item.text for each in messages]


@pytest.fixture
def queue() -> MessageQueue:
    made = MessageQueue()
    for kind, text in (("followUp", "f1"), ("steer", "s1"), ("steer", "s2"), ("followUp", "f2")):
        add(made, kind, text)  # type: ignore[arg-type]
    return made


def test_one_is_taken_at_a_time_the_oldest_of_its_line(queue: MessageQueue) -> None:
    assert texts(queue.take("steer")) == ["s1"]
    assert texts(queue.take("followUp")) == ["f1"]
    assert texts(queue.take("steer")) == ["s2"]
    assert queue.take("steer") == []


def test_the_mode_all_empties_a_line_and_leaves_the_other(queue: MessageQueue) -> None:
    queue.modes["steer"] = "all"
    assert texts(queue.take("steer")) == ["s1", "s2"]
    assert texts(queue.take("followUp")) == ["f1"]


def test_what_was_taken_still_waits_until_it_is_delivered(queue: MessageQueue) -> None:
    (taken,) = queue.take("steer")
    assert waiting(queue) == (["s1", "s2"], ["f1", "f2"])
    assert len(queue) == 4
    assert queue.started(taken.message) is taken
    assert queue.delivered(taken.message) is taken
    assert waiting(queue) == (["s2"], ["f1", "f2"])
    assert len(queue) == 3
    assert queue.started(taken.message) is None
    assert queue.delivered(taken.message) is None


def test_a_picture_can_leave_out_the_one_that_is_being_delivered(queue: MessageQueue) -> None:
    queue.modes["steer"] = "all"
    first, second = queue.take("steer")
    assert queue.snapshot(without=first).steering == ["s2"]
    assert queue.snapshot(without=second).steering == ["s1"]
    assert queue.snapshot(without=None).steering == ["s1", "s2"]


def test_what_was_not_delivered_goes_back_to_the_head_in_its_order(queue: MessageQueue) -> None:
    queue.modes["steer"] = "all"
    first, *_ = queue.take("steer")
    queue.take("followUp")
    add(queue, "steer", "s3")
    queue.delivered(first.message)
    assert queue.put_back() is True
    assert waiting(queue) == (["s2", "s3"], ["f1", "f2"])
    assert queue.put_back() is False
    assert texts(queue.take("steer")) == ["s2", "s3"]
    assert texts(queue.take("followUp")) == ["f1"]


def test_a_message_of_somebody_else_was_never_queued(queue: MessageQueue) -> None:
    queue.take("steer")
    stranger = PromptInput("s1").message()
    assert queue.started(stranger) is None
    assert queue.delivered(stranger) is None
    assert len(queue) == 4


def test_clearing_tells_those_who_wait_and_leaves_what_was_taken(queue: MessageQueue) -> None:
    (taken,) = queue.take("steer")
    removed = queue.clear()
    assert texts(removed) == ["s2", "f1", "f2"]
    assert all(each.removed and each.resolved.is_set() for each in removed)
    assert not taken.removed
    assert not taken.resolved.is_set()
    assert waiting(queue) == (["s1"], [])
    queue.put_back()
    assert texts(queue.clear()) == ["s1"]
    assert len(queue) == 0
    assert queue.clear() == []


def test_one_message_is_removed_by_its_id(queue: MessageQueue) -> None:
    wanted = queue.snapshot().items[2]
    assert wanted.text == "f1"
    removed = queue.remove(wanted.id)
    assert removed is not None
    assert removed.removed
    assert removed.resolved.is_set()
    assert waiting(queue) == (["s1", "s2"], ["f2"])
    assert queue.remove(wanted.id) is None


def test_what_a_run_has_taken_can_no_longer_be_removed(queue: MessageQueue) -> None:
    (taken,) = queue.take("steer")
    assert queue.remove(taken.item.id) is None
    assert not taken.removed


def test_ids_are_never_used_again(queue: MessageQueue) -> None:
    seen = {each.id for each in queue.snapshot().items}
    queue.clear()
    seen |= {add(queue, "steer", "x").item.id for _ in range(3)}
    assert len(seen) == 7


def test_an_item_holds_what_a_client_needs_to_restore_it() -> None:
    queue = MessageQueue()
    note: dict[str, Any] = {"type": "text", "text": "by the way"}
    prompt = PromptInput("look", [IMAGE], [note], "c1")
    item = queue.add("followUp", prompt).item
    assert (item.kind, item.text, item.client_message_id) == ("followUp", "look", "c1")
    assert item.images == [IMAGE]
    assert item.attachments == [note]
    plain = add(queue, "steer", "plain").item
    assert plain.images is plain.attachments is plain.client_message_id is UNSET
