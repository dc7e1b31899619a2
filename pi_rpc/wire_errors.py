"""What would have fitted where a JSON value did not: words, and names of fields.

Owns naming the alternatives in msgspec's messages, which say only what is wrong. Does not own how a
message reaches anyone.
"""

import re
import types
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType

__all__ = ["members", "struct_for", "structs_of", "with_alternatives"]


def with_alternatives(message: str, value: Any, type_: Any) -> str:
    """``message`` of a ``ValidationError``, which also says what is allowed where it is about a
    word or a field that is not. ``value``: what was to be of ``type_``, as plain JSON."""
    what, marker, place = message.rpartition(" - at `$")
    if not marker:
        what, place = message, ""
    wrong = re.fullmatch(r"Invalid (?:enum )?value (.*)", what, re.DOTALL)
    if not wrong and not what.startswith("Object contains unknown field "):
        return message
    there = _type_at(place, value, type_)
    if wrong:
        words = [
            repr(word)
            for each in members(there)
            if get_origin(each) is Literal
            for word in get_args(each)
        ]
        said = f"Expected {_one_of(words)}, got {wrong[1]}"
    else:
        words = [
            f"`{name}`" for each in structs_of(there) for name in each.__struct_encode_fields__
        ]
        said = f"{what}, expected {_one_of(words)}"
    return f"{said}{marker}{place}" if words else message


def members(type_: Any) -> tuple[Any, ...]:
    """The alternatives of a type, annotations taken off."""
    origin = get_origin(type_)
    if origin is Annotated:
        return members(get_args(type_)[0])
    if origin in {Union, types.UnionType}:
        return tuple(
            member
            for each in get_args(type_)
            for member in members(each)
            if member is not UnsetType
        )
    return (type_,)


def structs_of(type_: Any) -> list[type[Struct]]:
    """The structs among the alternatives of a type."""
    return [each for each in members(type_) if isinstance(each, type) and issubclass(each, Struct)]


def struct_for(value: dict[str, Any], structs: list[type[Struct]]) -> type[Struct] | None:
    """The struct of a union that ``value`` claims to be."""
    if len(structs) == 1:
        return structs[0]
    for struct in structs:
        config = struct.__struct_config__
        if config.tag_field is not None and value.get(config.tag_field) == config.tag:
            return struct
    return None


def _type_at(place: str, value: Any, type_: Any) -> Any:
    """The type of what is at ``place``, as msgspec writes it: ``.steps[0].text``."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", place):
        if name:
            type_ = _type_of_field(name, value, structs_of(type_))
            value = value.get(name) if isinstance(value, dict) else None
            continue
        container = dict if index == "..." else list
        items = [get_args(each)[-1] for each in members(type_) if get_origin(each) is container]
        type_ = _any_of(items)
        # Of an object, which of its values it was is not told.
        value = value[int(index)] if isinstance(value, list) and index != "..." else None
    return type_


def _type_of_field(name: str, value: Any, structs: list[type[Struct]]) -> Any:
    claimed = struct_for(value, structs) if isinstance(value, dict) else None
    found, tags = [], []
    for struct in [claimed] if claimed else structs:
        fields = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
        if name in fields:
            found.append(get_type_hints(struct, include_extras=True)[fields[name]])
        elif struct.__struct_config__.tag_field == name:
            tags.append(struct.__struct_config__.tag)
    if tags:
        found.append(Literal[tuple(tags)])
    return _any_of(found)


def _any_of(found: list[Any]) -> Any:
    return reduce(or_, found) if found else Any


def _one_of(words: list[str]) -> str:
    return f"one of {', '.join(words)}" if len(words) > 1 else "".join(words)
