"""Front matter: the YAML between two ``---`` lines at the top of a Markdown file.

Owns telling it from the body and reading it safely. Does not know which keys mean what."""

from typing import Any

__all__ = ["FrontMatterError", "parse_front_matter", "split_front_matter"]

_FENCE = "---"


class FrontMatterError(Exception):
    """The front matter is not YAML, or no mapping of keys to values."""


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

    Raises ``FrontMatterError``.
    """
    written, body = split_front_matter(text)
    if written is None or not written.strip():
        return {}, body
    import yaml

    try:
        keys = yaml.safe_load(written)
    except yaml.MarkedYAMLError as error:
        # Counted from the top of the file: the first line is the fence.
        at = f" (line {error.problem_mark.line + 2})" if error.problem_mark is not None else ""
        raise FrontMatterError(f"the front matter is not valid YAML{at}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date such as 2024-99-99 looks right and is none.
        raise FrontMatterError(f"the front matter is not valid YAML: {error}") from None
    if keys is None:
        return {}, body
    if not isinstance(keys, dict):
        raise FrontMatterError("the front matter must hold keys and values")
    return {key: value for key, value in keys.items() if isinstance(key, str)}, body
