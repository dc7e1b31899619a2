"""Messages that wait: order, modes, and when they count as delivered."""

import pytest

from pi_rpc.agent.queue import PendingMessageQueue
from tests.agent.stage import user


def test_one_at_a_time_takes_the_oldest_and_all_takes_every_one() -> None:
    first, second, third = user("1"), user("2"), user("3")
    queue = PendingMessageQueue()
    for message in (first, second, third):
        queue.push(message)
    assert queue.peek() == [first]
    assert queue.take() == [first]
    queue.mode = "all"
    assert queue.peek() == [second, third]
    assert queue.take() == [second, third]
    assert queue.take() == []


def test_what_was_taken_and_not_delivered_goes_back_to_the_head_in_its_order() -> None:
    queue = PendingMessageQueue("all")
    first, second = user("1"), user("2")
    queue.push(first)
    queue.push(second)
    queue.take()
    later = user("3")
    queue.push(later)
    assert (queue.in_flight, queue.waiting, len(queue)) == ([first, second], [later], 3)
    assert queue.delivered(first)
    assert queue.restore()
    assert queue.waiting == [second, later]
    assert not queue.restore()


def test_equal_messages_are_told_apart() -> None:
    queue = PendingMessageQueue("all")
    one, same = user("x"), user("x")
    queue.push(one)
    queue.push(same)
    queue.take()
    assert queue.delivered(same)
    assert not queue.delivered(same)
    assert queue.restore()
    assert queue.waiting[0] is one


def test_clearing_and_removing_touch_only_what_waits() -> None:
    queue = PendingMessageQueue()
    first, second, third = user("1"), user("2"), user("3")
    for message in (first, second, third):
        queue.push(message)
    queue.take()
    assert not queue.remove(first)
    assert queue.remove(third)
    assert queue.clear() == [second]
    assert queue.in_flight == [first]


@pytest.mark.parametrize("attribute", ["waiting", "in_flight"])
def test_what_a_queue_shows_is_a_copy(attribute: str) -> None:
    queue = PendingMessageQueue()
    queue.push(user("1"))
    if attribute == "in_flight":
        queue.take()
    getattr(queue, attribute).clear()
    assert len(queue) == 1
