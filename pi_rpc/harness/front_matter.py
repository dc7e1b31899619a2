"""Front matter: the YAML between two ``---`` lines at the top of a Markdown file.

Owns telling it from the body and reading it safely. Does not know which keys mean what."""

from typing import Any

__all__ = ["FrontMatterError", "parse_front_matter", "split_front_matter"]

_FENCE = "---"
_MAX_LENGTH = 64 * 1024
"""Characters."""


class FrontMatterError(Exception):
    """The front matter is not YAML, no mapping of keys to values, or more than people write."""


def split_front_matter(text: str) -> tuple[str | None, str]:
    """The YAML at the top of ``text`` (None without one) and the body below it.

    It counts only when the first line is ``---`` and a later line is too; otherwise the whole text
    is the body. A body below front matter has no blank lines at its ends.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None, text
    for at, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:at]), "\n".join(lines[at + 1 :]).strip()
    return None, text


def parse_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The keys at the top of ``text`` and its body; no keys where there is no front matter.

    Raises ``FrontMatterError``, for aliases and anchors too, and where it is too long or too deep.
    """
    written, body = split_front_matter(text)
    if written is None or not written.strip():
        return {}, body
    if len(written) > _MAX_LENGTH:
        raise FrontMatterError(f"the front matter is longer than {_MAX_LENGTH} characters")
    import yaml

    from pi_rpc.harness import _plain_yaml

    try:
        keys = _plain_yaml.load(written)
    except yaml.MarkedYAMLError as error:
        # Counted from the top of the file: the first line is the fence.
        at = f" (line {error.problem_mark.line + 2})" if error.problem_mark is not None else ""
        refused = isinstance(error, _plain_yaml.RefusedError)
        what = "is not supported" if refused else "is not valid YAML"
        raise FrontMatterError(f"the front matter {what}{at}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date such as 2024-99-99 looks right and is none.
        raise FrontMatterError(f"the front matter is not valid YAML: {error}") from None
    except (LookupError, AttributeError, TypeError, OverflowError):
        # From the constructors of yaml: !!bool maybe, !!int "", a number in base 60 of many digits.
        raise FrontMatterError("the front matter holds a value that is none of its kind") from None
    if keys is None:
        return {}, body
    if not isinstance(keys, dict):
        raise FrontMatterError("the front matter must hold keys and values")
    return {key: value for key, value in keys.items() if isinstance(key, str)}, body
