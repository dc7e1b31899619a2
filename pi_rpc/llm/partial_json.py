"""Tolerant JSON for streamed tool arguments."""

import json
from typing import Any


def parse_partial(text: str) -> dict[str, Any]:
    """What can be read of an argument object that is still arriving."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The finished arguments, or ``{}`` and what was wrong with them."""
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        return {}, f"arguments are not valid JSON: {error}"
    if isinstance(value, dict):
        return value, None
    return {}, f"arguments are not a JSON object but {type(value).__name__}"
