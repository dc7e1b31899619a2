"""``dataclass``, made when it is first used.

The standard library compiles six functions for every dataclass when its module is loaded, about a
millisecond each; a short run loads more than a hundred and uses a quarter of them. This one does
the same work, by the same code, when a class is first instantiated or looked into.

Owns when that happens, and slots, which a class must have from the beginning. What a dataclass is
stays the standard library's.
"""

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

__all__ = ["dataclass"]

_MADE = (
    *("__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"),
    *("__lt__", "__le__", "__gt__", "__ge__"),
    *("__dataclass_params__", "__match_args__", "__dataclass_fields__"),
    "__init__",  # last: whoever can make an object finds the rest in its place
)
_TOLD = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

_making = threading.RLock()
"""One class at a time, with the classes it is derived from: threads may need the same one."""


class _Later:
    """An attribute of a class that is there once the class has been made."""

    def __init__(self, name: str, make: Callable[[], None]) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: type) -> Any:
        self._make()
        return getattr(owner, self._name)


def _later(cls: Any, options: dict[str, Any]) -> Any:
    """``cls`` as a dataclass with slots that is made when it is needed."""
    final: Any = _slotted(cls, is_frozen=bool(options.get("frozen")))
    is_made = False

    def make() -> None:
        nonlocal is_made
        with _making:
            if is_made:
                return
            made = dataclasses.dataclass(**options)(cls).__dict__
            for name in _MADE:
                if name in made:
                    setattr(final, name, made[name])
            is_made = True

    def initialise(self: Any, *args: Any, **fields: Any) -> None:
        make()
        final.__init__(self, *args, **fields)

    for name in _TOLD:
        setattr(final, name, _Later(name, make))
    if "__init__" in cls.__dict__:
        make()  # Nobody would tell when its first object is made.
    else:
        final.__init__ = initialise
    return final


def _slotted(cls: type, *, is_frozen: bool) -> type:
    """``cls`` with slots for its fields, which no class can be given later."""
    namespace = dict(cls.__dict__)
    names = [
        name
        for name, kind in namespace.get("__annotations__", {}).items()
        if not (kind is ClassVar or get_origin(kind) is ClassVar or "ClassVar" in str(kind)[:40])
    ]
    inherited: set[str] = set()
    for base in cls.__mro__[1:-1]:
        slots = base.__dict__.get("__slots__", ())
        inherited.update([slots] if isinstance(slots, str) else slots)
    for name in (*names, "__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace["__slots__"] = tuple(name for name in names if name not in inherited)
    if is_frozen:
        namespace |= _copied_by(names)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _copied_by(names: list[str]) -> dict[str, Any]:
    """What copying a frozen object with slots takes."""

    def state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def set_state(self: Any, values: list[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": state, "__setstate__": set_state}


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, *, slots: bool = False, **options: Any) -> Any:
        """As ``dataclasses.dataclass``; without ``slots`` it is made at once."""
        if cls is None:
            return lambda each: dataclass(each, slots=slots, **options)
        return _later(cls, options) if slots else dataclasses.dataclass(**options)(cls)
