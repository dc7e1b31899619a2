"""Reading params tolerantly: what real clients send where the types say something stricter.

Owns ``decode_params``. Lua cannot tell ``[]`` from ``{}`` and writes ``3.0`` for 3; many clients
write ``null`` for what they leave out. Well-formed params take one pass of msgspec; only when that
fails are they read loosely, mended under the guidance of the type and decoded again.
"""

import types
from collections.abc import Hashable
from functools import lru_cache
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw, Struct, UnsetType

__all__ = ["decode_params"]

T = TypeVar("T")


def decode_params(type_: type[T], raw: Raw | bytes | None) -> T:
    """Decode a request's params.

    Absent, ``null``, ``[]`` and ``[null]`` mean ``{}``; ``null`` for an optional field means
    absent; an empty array stands for an empty object and the other way round; unknown fields are
    ignored. Raises ``msgspec.DecodeError`` for what is no JSON, and
    ``msgspec.ValidationError`` that says what was expected and where, as
    ``Expected `int`, got `str` - at `$.limit```."""
    try:
        return _decode(type_, raw)
    except RecursionError:
        raise msgspec.ValidationError("Expected less nesting - at `$`") from None


def _decode(type_: type[T], raw: Raw | bytes | None) -> T:
    decoder = _decoder(cast("Hashable", type_))
    if raw is None or not (text := memoryview(raw)).nbytes:
        text = memoryview(b"{}")
    try:
        return decoder.decode(text)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        pass
    value = msgspec.json.decode(text)
    if value is None or value == [None]:
        value = {}
    try:
        return decoder.decode(msgspec.json.encode(_mend(value, type_)))  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        message = str(error)
        if " - at `" not in message:
            message += " - at `$`"
        raise msgspec.ValidationError(message) from None


@lru_cache(maxsize=256)
def _decoder(type_: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast("Any", type_))


@lru_cache(maxsize=256)
def _fields(type_: type[Struct]) -> dict[str, tuple[Any, bool]]:
    """Of each field by wire name: its type, and whether it may be absent."""
    hints = get_type_hints(type_, include_extras=True)
    names = type_.__struct_fields__
    defaults = type_.__struct_defaults__
    required = len(names) - len(defaults)
    return {
        wire: (hints[name], index >= required and defaults[index - required] is not NODEFAULT)
        for index, (name, wire) in enumerate(
            zip(names, type_.__struct_encode_fields__, strict=True)
        )
    }


def _members(type_: Any) -> tuple[Any, ...]:
    """The alternatives of a type, annotations taken off."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _members(get_args(type_)[0])
    if origin in {Union, types.UnionType}:
        return tuple(
            member
            for each in get_args(type_)
            for member in _members(each)
            if member is not UnsetType
        )
    return (type_,)


def _mend(value: Any, type_: Any) -> Any:
    """``value`` with what the type allows to be mended mended; the rest is left to fail."""
    members = _members(type_)
    if value is None or Any in members or Raw in members:
        return value
    if isinstance(value, float):
        whole = int in members and float not in members and value.is_integer()
        return int(value) if whole else value
    if not isinstance(value, list | dict):
        return value
    lists = [member for member in members if get_origin(member) is list]
    maps = [member for member in members if get_origin(member) is dict]
    structs = [m for m in members if isinstance(m, type) and issubclass(m, Struct)]
    if not value:
        if lists and not (maps or structs):
            return []
        return {} if (maps or structs) and not lists else value
    if isinstance(value, list):
        if not lists:
            return value
        (item,) = get_args(lists[0])
        return [_mend(each, item) for each in value]
    if struct := _struct_for(value, structs):
        return _mend_fields(value, struct)
    if maps:
        item = get_args(maps[0])[1]
        return {key: _mend(each, item) for key, each in value.items()}
    return value


def _struct_for(value: dict[str, Any], structs: list[type[Struct]]) -> type[Struct] | None:
    """The struct of a union that ``value`` claims to be."""
    if len(structs) == 1:
        return structs[0]
    for struct in structs:
        config = struct.__struct_config__
        if config.tag_field is not None and value.get(config.tag_field) == config.tag:
            return struct
    return None


def _mend_fields(value: dict[str, Any], struct: type[Struct]) -> dict[str, Any]:
    fields = _fields(struct)
    mended = {}
    for key, each in value.items():
        if key not in fields:
            mended[key] = each
            continue
        type_, optional = fields[key]
        if each is None and optional and type(None) not in _members(type_):
            continue
        mended[key] = _mend(each, type_)
    return mended
