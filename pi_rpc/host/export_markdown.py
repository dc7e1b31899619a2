"""A session as Markdown that a forge shows well.

Owns the markup. What people and models wrote stays Markdown, so that it reads as they meant it, but
cannot break out of its place: HTML is escaped, a fence that was left open is closed, and output
stands in fences longer than any in it. Images are named, not shown: a forge shows no inline ones.
"""

import re
from collections.abc import Iterator

from pi_rpc.host.export_items import Item, heading_of, items_of
from pi_rpc.session.storage import SessionStorage

__all__ = ["markdown_page"]

_NAMES = {"user": "You", "assistant": "Assistant", "tool": "Tool", "session": "Session"}
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_CODE = re.compile(r"(`+)(?!`)(?:.*?[^`])??\1(?!`)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_UNDERLINE = re.compile(r"^( {0,3})(=+|-+)([ \t]*)$")
_HEADING = re.compile(r"^( {0,3})(#{1,6})(?=[ \t]|$)")


def markdown_page(session: SessionStorage) -> Iterator[str]:
    """The page in pieces, the branch being read as they are asked for."""
    heading = heading_of(session)
    facts = "\n".join(f"- {name}: {_literal(value)}" for name, value in heading.facts)
    yield f"# {_literal(heading.title)}\n\n{facts}\n"
    who = ""
    for item in items_of(session):
        speaker = "assistant" if item.who == "tool" and who else item.who
        if speaker != who or (item.who == "user" and item.kind == "text"):
            who = speaker
            yield f"\n## {_NAMES[who]}\n"
        yield f"\n{_item(item)}\n"


def _item(item: Item) -> str:
    match item.kind:
        case "image":
            return f"*Image: {_literal(item.text)}*"
        case "text":
            return _contained(item.text)
        case "error" if not item.title:
            return f"**Error:** {_literal(item.text)}"
        case "note":
            return f"**{_literal(item.title)}**\n\n{_contained(item.text)}"
        case "thinking":
            return f"<details>\n<summary>Thinking</summary>\n\n{_fenced(item.text)}\n\n</details>"
    words = {"call": "Calls", "output": "Output of", "error": "Failure of"}[item.kind]
    summary = f"<summary>{words} <code>{_html(item.title)}</code></summary>"
    return f"<details>\n{summary}\n\n{_fenced(item.text)}\n\n</details>"


def _contained(text: str) -> str:
    """Markdown of somebody else's that stays where it is put."""
    lines, fence = [], ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
            lines.append(line)
        elif match and not ("`" in match[1] and "`" in match[2]):
            fence = match[1]
            lines.append(line.replace("<", "&lt;"))
        else:
            lines.append(_line(line))
    return "\n".join([*lines, fence] if fence else lines)


def _line(line: str) -> str:
    """A line outside of fences; its headings go below ours."""
    line = _HEADING.sub(lambda match: f"{match[1]}{'#' * min(6, len(match[2]) + 2)}", line)
    line = _UNDERLINE.sub(r"\1\\\2\3", line)
    pieces, end = [], 0
    for code in _CODE.finditer(line):
        pieces += [_tags(line[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, _tags(line[end:])])


def _tags(text: str) -> str:
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _literal(text: str) -> str:
    """On one line, meaning nothing."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _html(text: str) -> str:
    escaped = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return escaped.replace(">", "&gt;")
