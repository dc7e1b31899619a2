"""Reading params tolerantly: what real clients send where the types say something stricter.

Owns ``decode_params``. Lua cannot tell ``[]`` from ``{}`` and writes ``3.0`` for 3; many clients
write ``null`` for what they leave out. Well-formed params take one pass of msgspec; only when that
fails are they read loosely, mended under the guidance of the type and decoded again.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw, Struct

from pi_rpc.wire_errors import members, struct_for, structs_of, with_alternatives

__all__ = ["decode_params"]

T = TypeVar("T")


def decode_params(type_: type[T], raw: Raw | bytes | None) -> T:
    """Decode a request's params.

    Absent, ``null``, ``[]`` and ``[null]`` mean ``{}``; ``null`` for an optional field means
    absent; an empty array stands for an empty object and the other way round; unknown fields are
    ignored. Raises ``msgspec.DecodeError`` for what is no JSON, and
    ``msgspec.ValidationError`` that says what was expected and where, as
    ``Expected `int`, got `str` - at `$.limit```, or which words are allowed."""
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
    value = _mend(value, type_)
    try:
        return decoder.decode(msgspec.json.encode(value))  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        message = with_alternatives(str(error), value, type_)
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


def _mend(value: Any, type_: Any) -> Any:
    """``value`` with what the type allows to be mended mended; the rest is left to fail."""
    allowed = members(type_)
    if value is None or Any in allowed or Raw in allowed:
        return value
    if isinstance(value, float):
        whole = int in allowed and float not in allowed and value.is_integer()
        return int(value) if whole else value
    if not isinstance(value, list | dict):
        return value
    lists = [member for member in allowed if get_origin(member) is list]
    maps = [member for member in allowed if get_origin(member) is dict]
    structs = structs_of(type_)
    if not value:
        if lists and not (maps or structs):
            return []
        return {} if (maps or structs) and not lists else value
    if isinstance(value, list):
        if not lists:
            return value
        (item,) = get_args(lists[0])
        return [_mend(each, item) for each in value]
    if struct := struct_for(value, structs):
        return _mend_fields(value, struct)
    if maps:
        item = get_args(maps[0])[1]
        return {key: _mend(each, item) for key, each in value.items()}
    return value


def _mend_fields(value: dict[str, Any], struct: type[Struct]) -> dict[str, Any]:
    fields = _fields(struct)
    mended = {}
    for key, each in value.items():
        if key not in fields:
            mended[key] = each
            continue
        type_, optional = fields[key]
        if each is None and optional and type(None) not in members(type_):
            continue
        mended[key] = _mend(each, type_)
    return mended
