"""Sessions as files: nothing overwritten, nothing left half done, nothing that breaks out."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.export import export_session
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UsageCost,
    UserMessage,
)
from pi_rpc.session.entries import MessageEntry, SessionInfoEntry, iso_now
from pi_rpc.session.repo import JsonlSessionRepo
from pi_rpc.session.storage import SessionStorage

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
NO_USAGE = Usage(
    input=0,
    output=0,
    cache_read=0,
    cache_write=0,
    total_tokens=0,
    cost=UsageCost(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0, total=0.0),
)


def said(*blocks: Any) -> AssistantMessage:
    return AssistantMessage(
        content=list(blocks),
        api="scripted",
        provider="scripted",
        model="scripted",
        usage=NO_USAGE,
        stop_reason="stop",
        timestamp=1_767_225_600_000,
    )


def asked(*content: Any) -> UserMessage:
    return UserMessage(content=list(content), timestamp=1_767_225_600_000)


def result(*content: Any, name: str = "bash", is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id="c1",
        tool_name=name,
        content=list(content),
        is_error=is_error,
        timestamp=1_767_225_600_000,
    )


async def session_of(folder: Path, *messages: Any, name: str | None = None) -> SessionStorage:
    session = await JsonlSessionRepo(folder / "agent").create(folder)
    for message in messages:
        await session.append(
            MessageEntry(id=session.new_id(), parent_id=None, timestamp=iso_now(), message=message)
        )
    if name is not None:
        await session.append(
            SessionInfoEntry(id=session.new_id(), parent_id=None, timestamp=iso_now(), name=name)
        )
    return session


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>"
    "</pre></details></section><!-- \u202egnp.exe\u2066 \x00\x1b[31m ]]> `````"
)


class Elements(HTMLParser):
    """What a browser would make elements of."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.comments: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    elements.close()
    return elements


async def test_a_page_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    session = await session_of(
        tmp_path,
        asked(TextBlock(text="What is this?"), ImageBlock(data=PNG, mime_type="image/png")),
        said(
            ThinkingBlock(thinking="Hm."),
            TextBlock(text="A valve."),
            ToolCall(id="c1", name="bash", arguments={"command": "ls"}),
        ),
        result(TextBlock(text="valve.txt")),
        name="Engines",
    )
    path = await export_session(session, "html", None, tmp_path)
    assert path == tmp_path / f"pi-session-{session.session_id}.html"
    assert path.stat().st_mode & 0o777 == 0o600
    page = path.read_text()
    elements = parsed(page)
    assert elements.open == []
    for text in ("Engines", "What is this?", "A valve.", "Hm.", '"command": "ls"', "valve.txt"):
        assert text in elements.text
    assert ("src", f"data:image/png;base64,{PNG}") in elements.attributes
    assert "prefers-color-scheme: dark" in page
    assert "default-src 'none'" in page
    names = [name for name, _ in elements.attributes]
    assert not {"href", "link", "base"} & {*names, *elements.tags}
    assert not re.search(r"url\(|@import|https?:", page)
    await session.aclose()


async def test_nothing_that_a_session_holds_becomes_markup(tmp_path: Path) -> None:
    session = await session_of(
        tmp_path,
        asked(TextBlock(text=HOSTILE)),
        said(
            ThinkingBlock(thinking=HOSTILE),
            TextBlock(text=HOSTILE),
            ToolCall(id="c1", name=HOSTILE, arguments={HOSTILE: HOSTILE}),
        ),
        result(TextBlock(text=HOSTILE), name=HOSTILE, is_error=True),
        result(
            ImageBlock(data="PHN2Zz4=", mime_type="image/svg+xml"),
            ImageBlock(data='"><script>', mime_type="image/png"),
            ImageBlock(data=PNG, mime_type='image/png" onload="x'),
        ),
        name=HOSTILE,
    )
    page = (await export_session(session, "html", None, tmp_path)).read_text()
    elements = parsed(page)
    assert elements.open == []
    assert elements.comments == []
    assert not {"script", "img", "iframe"} & set(elements.tags)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", page)
    assert elements.text.count("<script>alert(1)</script>") >= 6
    await session.aclose()


async def test_markdown_keeps_what_was_written_in_its_place(tmp_path: Path) -> None:
    session = await session_of(
        tmp_path,
        asked(TextBlock(text="# Big\n\nUse `<b>` in\n```html\n<p>never closed")),
        said(
            TextBlock(text=f"Title\n=====\n{HOSTILE}"),
            ToolCall(id="c1", name="bash", arguments={"command": "ls"}),
        ),
        result(TextBlock(text="```\n</details>\n`````\n# not a heading")),
        name=HOSTILE,
    )
    page = (await export_session(session, "markdown", None, tmp_path)).read_text()
    headings = [line for line in page.splitlines() if re.match("#{1,2} ", line)]
    assert headings[0].startswith("# ")
    # The one of the output is in a fence.
    assert headings[1:] == ["## You", "## Assistant", "# not a heading"]
    assert "### Big" in page
    assert "Use `<b>` in" in page
    assert "<p>never closed\n```\n" in page
    assert "\\=====" in page
    assert "<script>" not in page
    assert "<!--" not in page
    assert "``````\n```\n</details>\n`````\n# not a heading\n``````" in page
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", page)
    await session.aclose()


async def test_lines_are_the_header_and_the_active_branch_and_can_be_opened(
    tmp_path: Path,
) -> None:
    session = await session_of(tmp_path, asked(TextBlock(text="one")), asked(TextBlock(text="two")))
    first = session.branch()[0].id
    await session.set_leaf_id(first)
    await session.append(
        MessageEntry(
            id=session.new_id(),
            parent_id=None,
            timestamp=iso_now(),
            message=asked(TextBlock(text="three")),
        )
    )
    path = await export_session(session, "jsonl", Path("copy.jsonl"), tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == json.loads(session.path.read_text().splitlines()[0])  # type: ignore[union-attr]
    assert [line["id"] for line in lines[1:]] == [each.id for each in session.branch()]
    assert "two" not in path.read_text()
    copy = await JsonlSessionRepo(tmp_path / "agent").open(path)
    assert [each.id for each in copy.branch()] == [each.id for each in session.branch()]
    await copy.aclose()
    await session.aclose()


async def test_a_file_that_exists_stays_unless_it_may_be_replaced(tmp_path: Path) -> None:
    session = await session_of(tmp_path, asked(TextBlock(text="hello")))
    there = tmp_path / "page.html"
    there.write_text("mine")

    async def refused(path: Path, *, overwrite: bool = False) -> HarnessError:
        with pytest.raises(HarnessError) as caught:
            await export_session(session, "html", path, tmp_path, overwrite=overwrite)
        assert there.read_text() == "mine"
        return caught.value

    error = await refused(there)
    assert (error.kind, error.fields) == ("invalidParams", {"path": "path"})
    assert "overwrite" in error.message
    assert "folder" in (await refused(Path("nowhere/page.html"))).message
    assert "expected a file" in (await refused(tmp_path, overwrite=True)).message
    before = session.path.read_bytes()  # type: ignore[union-attr]
    assert "own file" in (await refused(session.path, overwrite=True)).message  # type: ignore[arg-type]
    assert session.path.read_bytes() == before  # type: ignore[union-attr]
    assert "can exist" in (await refused(Path("a\0b"))).message

    assert await export_session(session, "html", there, tmp_path, overwrite=True) == there
    assert "hello" in there.read_text()
    # Without a name each gets one of its own.
    names = [(await export_session(session, "html", None, tmp_path)).name for _ in range(3)]
    stem = f"pi-session-{session.session_id}"
    assert names == [f"{stem}.html", f"{stem}-2.html", f"{stem}-3.html"]
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".pi-rpc")]
    await session.aclose()


async def test_a_failed_export_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await session_of(tmp_path, asked(TextBlock(text="hello")))
    before = sorted(tmp_path.iterdir())

    def full(*arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pi_rpc.host.export._place", full)
    with pytest.raises(HarnessError, match="No space left") as caught:
        await export_session(session, "html", None, tmp_path)
    assert caught.value.kind == "storage"
    assert sorted(tmp_path.iterdir()) == before
    await session.aclose()


async def test_what_is_huge_is_written_whole(tmp_path: Path) -> None:
    session = await session_of(
        tmp_path,
        asked(TextBlock(text="<" * 3_000_000)),
        said(TextBlock(text="x\n" * 500_000)),
    )
    page = (await export_session(session, "html", None, tmp_path)).read_text()
    assert page.count("&lt;") == 3_000_000
    assert page.endswith("</html>\n")
    await session.aclose()
