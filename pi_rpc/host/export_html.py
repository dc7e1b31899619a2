"""A session as one page of HTML that needs nothing else.

Owns the markup. Every text of a session is escaped; the page has no script and its policy allows
none, loads nothing, and is light or dark as the reader's system is.
"""

import html
from collections.abc import Iterator

from pi_rpc.host.export_items import Item, heading_of, items_of
from pi_rpc.session.storage import SessionStorage

__all__ = ["html_page"]

_OPEN_LINES = 12
"""Output that is longer is folded at first."""

_NAMES = {"user": "You", "assistant": "Assistant", "tool": "Tool", "session": "Session"}

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="pi-rpc">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark;
  --page: #fff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0; --box: #f6f8fa;
  --user: #0969da; --assistant: #1a7f37; --error: #cf222e; }}
@media (prefers-color-scheme: dark) {{ :root {{
  --page: #0d1117; --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --box: #151b23;
  --user: #4493f8; --assistant: #3fb950; --error: #f85149; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 56rem; background: var(--page);
  color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }}
h1 {{ font-size: 1.5rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0 0 2rem;
  color: var(--faint); font-size: .875rem; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
section {{ border-top: 1px solid var(--line); padding: .75rem 0; }}
h2 {{ font-size: .875rem; margin: 0 0 .25rem; color: var(--faint); }}
h2 time {{ font-weight: normal; float: right; }}
.user h2 {{ color: var(--user); }} .assistant h2 {{ color: var(--assistant); }}
.text, pre {{ white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; margin: 0; }}
pre {{ font: .8125rem/1.45 ui-monospace, monospace; background: var(--box); padding: .75rem;
  border: 1px solid var(--line); border-radius: 6px; overflow: auto; max-height: 40rem; }}
details {{ margin: .5rem 0; }} summary {{ cursor: pointer; color: var(--faint); }}
summary bdi {{ font-family: ui-monospace, monospace; overflow-wrap: anywhere; }}
.error {{ color: var(--error); }}
img {{ max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; }}
@media print {{ pre {{ max-height: none; }} }}
</style>
</head>
<body>
<header>
<h1 dir="auto">{title}</h1>
<dl>
{facts}
</dl>
</header>
<main>
"""

_FOOT = "</main>\n</body>\n</html>\n"


def html_page(session: SessionStorage) -> Iterator[str]:
    """The page in pieces, the branch being read as they are asked for."""
    heading = heading_of(session)
    facts = "\n".join(
        f'<dt>{_escaped(name)}</dt><dd dir="auto">{_escaped(value)}</dd>'
        for name, value in heading.facts
    )
    yield _HEAD.format(title=_escaped(heading.title), facts=facts)
    who = ""
    for item in items_of(session):
        # What a tool said belongs to the reply that called it.
        speaker = "assistant" if item.who == "tool" and who else item.who
        if speaker != who or (item.who == "user" and item.kind == "text"):
            if who:
                yield "</section>\n"
            who = speaker
            time = f'<time datetime="{_escaped(item.time)}">{_escaped(_minute(item.time))}</time>'
            yield f'<section class="{who}">\n<h2>{time}{_NAMES[who]}</h2>\n'
        yield _item(item)
    if who:
        yield "</section>\n"
    yield _FOOT


def _item(item: Item) -> str:
    text = _escaped(item.text)
    match item.kind:
        case "image" if item.picture is not None:
            source = f"data:{item.picture.mime_type};base64,{item.picture.data}"
            return f'<p><img alt="Image, {text}" src="{source}"></p>\n'
        case "image":
            return f"<p><em>An image that is not shown: <bdi>{text}</bdi></em></p>\n"
        case "text":
            return f'<div class="text" dir="auto">{text}</div>\n'
        case "error" if not item.title:
            return f'<div class="text error" dir="auto">{text}</div>\n'
    is_long = item.kind != "note" and item.text.count("\n") >= _OPEN_LINES
    opened = "" if is_long or item.kind in ("thinking", "call") else " open"
    style = ' class="error"' if item.kind == "error" else ""
    words = {"call": "Calls ", "output": "Output of ", "error": "Failure of "}.get(item.kind, "")
    summary = f"<summary{style}>{words}<bdi>{_escaped(item.title)}</bdi></summary>"
    return f'<details{opened}>{summary}<pre dir="auto">{text}</pre></details>\n'


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
