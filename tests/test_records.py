"""Dataclasses that are made late are what they would be if they were made at once."""

import copy
import dataclasses
import pickle
import threading
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from pi_rpc.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Frozen:
    """A pair."""

    one: int
    two: str = "two"
    kind: ClassVar[str] = "pair"

    @property
    def both(self) -> str:
        return f"{self.one}{self.two}"


@dataclass(slots=True)
class Open:
    items: list[int] = dataclasses.field(default_factory=list)


@dataclass(slots=True)
class Wider(Open):
    more: int = 1

    def __post_init__(self) -> None:
        self.more += 1


@dataclass(eq=False, slots=True)
class Itself:
    a: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    a: int
    b: int = 2


@dataclass
class Loose:
    a: int = 1


@dataclass(frozen=True, slots=True)
class Box(Generic[T]):
    inside: T


class Base(ABC):
    @abstractmethod
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Concrete(Base):
    a: int

    def name(self) -> str:
        return f"concrete {self.a}"


def test_fields_defaults_and_words_are_as_they_are_written() -> None:
    made = Frozen(1)
    assert (made.one, made.two, made.both, Frozen.kind) == (1, "two", "1two", "pair")
    assert repr(made) == "Frozen(one=1, two='two')"
    assert made == Frozen(1, "two") != Frozen(2)
    assert len({made, Frozen(1)}) == 1
    assert Frozen.__doc__ == "A pair."
    assert Box([1]) == Box([1])
    assert Concrete(3).name() == "concrete 3"
    assert Named(a=1) == Named(a=1, b=2)
    assert (Loose().a, Loose(2) == Loose(2)) == (1, True)
    with pytest.raises(TypeError):
        Named(1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Frozen()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        hash(Open())


def test_what_is_frozen_cannot_be_changed_and_what_has_slots_has_no_more() -> None:
    made = Frozen(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.one = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.one
    assert not hasattr(made, "__dict__")
    with pytest.raises(AttributeError):
        Open().other = 1  # type: ignore[attr-defined]


def test_objects_have_their_own_lists_and_subclasses_all_fields() -> None:
    one, two = Open(), Open()
    one.items.append(1)
    assert two.items == []
    wide = Wider([1], 5)
    assert (wide.items, wide.more) == ([1], 6)
    assert [each.name for each in dataclasses.fields(Wider)] == ["items", "more"]
    assert Itself() != Itself()
    assert hash(Itself())


@pytest.mark.parametrize("value", [Frozen(1), Wider([1], 2), Box("x"), Named(a=1)])
def test_objects_are_copied_replaced_and_taken_apart(value: Any) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.is_dataclass(value)
    assert dataclasses.asdict(value).keys() == {each.name for each in dataclasses.fields(value)}


def test_threads_that_need_the_same_class_at_once_all_get_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Wanted:
        a: int

    together = threading.Barrier(8)
    made: list[int] = []

    def want(number: int) -> None:
        together.wait(10)
        made.append(Wanted(number).a)

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(made) == list(range(8))


def test_a_class_can_be_looked_into_before_there_is_an_object() -> None:
    @dataclass(frozen=True, slots=True)
    class Unused:
        a: int
        b: int = 2

    assert [each.name for each in dataclasses.fields(Unused)] == ["a", "b"]
    assert Unused.__match_args__ == ("a", "b")
    assert dataclasses.replace(Unused(1), b=3) == Unused(1, 3)
    match Unused(1):
        case Unused(one, two):
            assert (one, two) == (1, 2)
