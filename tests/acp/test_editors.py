"""What the client's editor does for us: buffers, terminals, questions; what prompts may hold."""

import base64
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from pi_rpc.acp import questions as q
from pi_rpc.acp.blocks import prompt_of
from pi_rpc.acp.editor import ClientEditor, _edited
from pi_rpc.acp.shapes import ContentBlock, Resource, ResourceBlock, ResourceLink, TextBlock
from pi_rpc.acp.terminal import _patience
from pi_rpc.acp.tool_calls import result_content
from pi_rpc.host.text_edits import text_edits
from pi_rpc.jsonrpc.errors import RpcError
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools._diff import diff_of_texts
from tests.acp.client import DEADLINE_S, FULL, Client, acp, call, said, say, text

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Buffers:
    """Buffers of an editor, and what it was asked for."""

    def __init__(self, client: Client) -> None:
        self.texts: dict[str, str] = {}
        self.written: list[str] = []
        client.answers["fs/read_text_file"] = self.read
        client.answers["fs/write_text_file"] = self.write

    def read(self, params: dict[str, Any]) -> Any:
        path = params["path"]
        if path in self.texts:
            return {"content": self.texts[path]}
        file = Path(path)
        return {"content": file.read_text()} if file.is_file() else None

    def write(self, params: dict[str, Any]) -> Any:
        self.written.append(params["path"])
        self.texts.pop(params["path"], None)
        Path(params["path"]).write_text(params["content"])
        return {}


def test_a_model_reads_and_edits_what_the_editor_shows(tmp_path: Path) -> None:
    replies = [
        [call("read", path="a.txt")],
        [call("edit", path="a.txt", edits=[{"oldText": "unsaved", "newText": "edited"}])],
        [say("done")],
    ]
    with acp(tmp_path, replies, *FULL, capabilities=FILES) as client:
        file = client.project / "a.txt"
        file.write_text("saved\n")
        buffers = Buffers(client)
        buffers.texts[str(file)] = "saved\nunsaved\n"
        session = client.new()
        assert client.prompt(session, "go") == "end_turn"
        read, edited = [
            each for each in client.updates(session) if each.get("status") == "completed"
        ]
        assert "unsaved" in read["content"][0]["content"]["text"]
        assert edited["content"][0]["type"] == "diff"
        assert buffers.written == [str(file)]
        assert file.read_text() == "saved\nedited\n"


def test_a_saved_document_is_changed_in_the_editor_too(tmp_path: Path) -> None:
    replies = [
        [call("edit", path="a.txt", edits=[{"oldText": "1", "newText": "2"}])],
        [call("write", path="new.txt", content="new\n")],
        [say("done")],
    ]
    with acp(tmp_path, replies, *FULL, capabilities=FILES) as client:
        file = client.project / "a.txt"
        file.write_text("1\n")
        buffers = Buffers(client)
        buffers.read = lambda params: None  # type: ignore[method-assign]
        client.answers["fs/read_text_file"] = lambda params: (
            {"content": Path(params["path"]).read_text()}
            if Path(params["path"]).exists()
            else NotImplementedError
        )
        session = client.new()
        client.prompt(session, "go")
        assert file.read_text() == "2\n"
        assert (client.project / "new.txt").read_text() == "new\n"
        assert buffers.written == [str(file)]


def test_line_ends_that_the_client_does_not_keep_are_kept(tmp_path: Path) -> None:
    replies = [[call("edit", path="a.txt", edits=[{"oldText": "1", "newText": "2"}])], [say("ok")]]
    with acp(tmp_path, replies, *FULL, capabilities=FILES) as client:
        file = client.project / "a.txt"
        file.write_bytes(b"1\r\nx\r\n")
        buffers = Buffers(client)
        buffers.texts[str(file)] = "1\nx\n"
        client.prompt(client.new(), "go")
        assert file.read_bytes() == b"2\r\nx\r\n"
        assert buffers.written == []


def test_a_client_that_will_not_read_is_done_without(tmp_path: Path) -> None:
    replies = [
        [call("read", path="a.txt")],
        [call("write", path="b.txt", content="b")],
        [say("ok")],
    ]
    with acp(tmp_path, replies, *FULL, capabilities=FILES) as client:
        (client.project / "a.txt").write_text("from the disk\n")
        session = client.new()
        client.prompt(session, "go")
        (read, _) = [each for each in client.updates(session) if each.get("status") == "completed"]
        assert "from the disk" in read["content"][0]["content"]["text"]
        assert (client.project / "b.txt").read_text() == "b"
        assert [method for method, _ in client.asked] == ["fs/read_text_file"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one\ntwo\n", "one\nzwei\n"),
        ("", "new"),
        ("gone\n", ""),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("😀 x\nlast", "😀 y\nlast\nmore"),
    ],
)
def test_edits_make_the_text_that_was_wanted(old: str, new: str) -> None:
    assert _edited(old, text_edits(old, new, "utf-32")) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a", "b"),
        ("a\n", "a\nb"),
        ("x\x0by\n", "x\x0bz\n"),
        ("-\n", "+\n"),
    ],
)
def test_a_patch_is_drawn_as_the_texts_it_is_of(old: str, new: str) -> None:
    details = diff_of_texts(old, new, "f").details()
    (diff,) = result_content([], details, "edit", "/f", is_error=False)
    assert (diff.old_text, diff.new_text) == (old, new)  # type: ignore[union-attr]


class Asked:
    """A client that shows and writes files without a wire."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.before_writing: Callable[[], Awaitable[None]] | None = None

    def can_ask(self, method: str) -> bool:
        return True

    async def ask(self, method: str, params: Any, result: Any, *, timeout_s: float | None) -> Any:
        if isinstance(params, q.WriteFileParams):
            if self.before_writing is not None:
                await self.before_writing()
            self.texts[params.path] = params.content
            return q.Nothing()
        return q.ReadFileResult(content=self.texts[params.path])


def editor_of(client: Asked) -> ClientEditor:
    hosted: Any = SimpleNamespace(id="s")
    asking: Any = client
    return ClientEditor(hosted, asking, can_edit=True, timeout_s=None)


@pytest.mark.anyio
async def test_texts_that_were_looked_at_are_not_kept(tmp_path: Path) -> None:
    client = Asked()
    editor = editor_of(client)
    tracemalloc.start()
    try:
        for number in range(20):
            file = tmp_path / str(number)
            file.write_bytes(b"x" * 1_000_000)
            client.texts = {str(file): "x" * 1_000_000}
            await editor.look(file)
            shown = await editor.read(file.as_uri())
            assert shown is not None
            assert shown.version == 1
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.anyio
async def test_what_an_editor_showed_before_it_was_changed_is_not_taken_for_what_it_shows(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a"
    file.write_text("old")
    client = Asked()
    client.texts[str(file)] = "old"
    editor = editor_of(client)
    client.before_writing = lambda: editor.look(file)
    await editor.look(file)
    before = await editor.read(file.as_uri())
    assert before is not None
    edits = text_edits("old", "new", "utf-32")
    assert (await editor.edit(file.as_uri(), before.version, edits)).applied
    after = await editor.read(file.as_uri())
    assert after is not None
    assert (after.text, after.version) == ("new", before.version + 1)


class Terminals:
    """Terminals of a client, which run nothing."""

    def __init__(self, client: Client, *, waits: bool = False) -> None:
        self.said: list[str] = []
        for step, answer in {
            "create": {"terminalId": "t1"},
            "wait_for_exit": None if waits else {"exitCode": 3},
            "kill": {},
            "output": {"output": "from the terminal\n", "truncated": False},
            "release": {},
        }.items():
            client.answers[f"terminal/{step}"] = self.step(step, answer)

    def step(self, name: str, answer: Any) -> Any:
        def answered(params: dict[str, Any]) -> Any:
            self.said.append(name)
            return answer

        return answered


def test_a_command_runs_in_a_terminal_of_the_client(tmp_path: Path) -> None:
    replies = [[call("bash", command="make")], [say("done")]]
    environ = {"ANTHROPIC_API_KEY": "sk-secret", "CI": ""}
    with acp(tmp_path, replies, *FULL, capabilities={"terminal": True}, environ=environ) as client:
        terminals = Terminals(client)
        session = client.new()
        assert client.prompt(session, "go") == "end_turn"
        assert terminals.said == ["create", "wait_for_exit", "output", "release"]
        created = client.asked[0][1]
        assert created["args"][-1].endswith("make")
        assert created["cwd"] == str(client.project)
        variables = {each["name"]: each["value"] for each in created["env"]}
        assert variables["ANTHROPIC_API_KEY"] == ""  # It would be the client's own.
        assert variables["PI_SESSION_ID"] == session
        calls = [
            each for each in client.updates(session) if "content" in each and "toolCallId" in each
        ]
        assert {"type": "terminal", "terminalId": "t1"} in calls[1]["content"]
        assert calls[-1]["status"] == "failed"
        assert "from the terminal" in calls[-1]["content"][1]["content"]["text"]
        assert "code 3" in calls[-1]["content"][1]["content"]["text"]


def test_a_terminal_gets_the_shell_that_commands_have_otherwise(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"shellPath": "~/my shell"}')
    replies = [[call("bash", command="make")], [say("done")]]
    with acp(tmp_path, replies, *FULL, capabilities={"terminal": True}) as client:
        Terminals(client)
        client.prompt(client.new(), "go")
        assert client.asked[0][1]["command"] == str(Path("~/my shell").expanduser())


def test_cancelling_kills_the_command_in_the_terminal_and_lets_go_of_it(tmp_path: Path) -> None:
    with acp(
        tmp_path, [[call("bash", command="make")]], *FULL, capabilities={"terminal": True}
    ) as client:
        terminals = Terminals(client, waits=True)
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        client.until_asked("terminal/wait_for_exit")
        client.tell("session/cancel", sessionId=session)
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        assert terminals.said == ["create", "wait_for_exit", "kill", "output", "release"]


@pytest.mark.parametrize(
    ("silent", "said"),
    [("create", ["create"]), ("output", ["create", "wait_for_exit", "output", "release"])],
)
def test_cancelling_does_not_wait_for_a_client_that_says_nothing_of_a_terminal(
    silent: str, said: list[str], tmp_path: Path
) -> None:
    replies = [[call("bash", command="touch made")]]
    with acp(tmp_path, replies, *FULL, capabilities={"terminal": True}) as client:
        terminals = Terminals(client)
        client.answers[f"terminal/{silent}"] = terminals.step(silent, None)
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        asked = client.until_asked(f"terminal/{silent}")
        client.tell("session/cancel", sessionId=session)
        while (frame := client.read()).get("method") != "$/cancel_request":
            assert frame.get("id") != number, "the tool was given up on before the client was"
        assert frame["params"]["requestId"] == asked["id"]
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        assert terminals.said == said
        assert not (client.project / "made").exists()  # Nor was it run here.
        last = [each for each in client.updates(session) if "toolCallId" in each][-1]
        assert "Operation aborted" not in str(last)  # The command ended by itself, in order.


@pytest.mark.anyio
async def test_patience_for_a_client_that_says_nothing_ends_soon_after_the_abort() -> None:
    stop = AbortController()
    with anyio.fail_after(DEADLINE_S), _patience(None, stop.signal) as asked:
        stop.abort()
        await anyio.sleep_forever()
    assert asked.cancelled_caught


def test_a_terminal_that_comes_after_the_cancellation_is_ended(tmp_path: Path) -> None:
    replies = [[call("bash", command="make")]]
    with acp(tmp_path, replies, *FULL, capabilities={"terminal": True}) as client:
        terminals = Terminals(client, waits=True)
        client.answers["terminal/create"] = terminals.step("create", None)
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        asked = client.until_asked("terminal/create")
        client.tell("session/cancel", sessionId=session)
        client.send(id=asked["id"], result={"terminalId": "t1"})
        assert client.answer(number)["result"] == {"stopReason": "cancelled"}
        assert [each for each in terminals.said if each != "wait_for_exit"] == [
            *("create", "kill", "output", "release")
        ]


def test_the_same_command_twice_is_shown_in_a_terminal_of_each_call(tmp_path: Path) -> None:
    replies = [[call("bash", command="make"), call("bash", command="make")], [say("done")]]
    with acp(tmp_path, replies, *FULL, capabilities={"terminal": True}) as client:
        terminals = Terminals(client)
        client.answers["terminal/create"] = terminals.step("create", None)
        session = client.new()
        number = client.begin("session/prompt", sessionId=session, prompt=text("go"))
        asked = [client.until_asked("terminal/create") for _ in range(2)]
        for each, terminal in zip(asked, ("t1", "t2"), strict=True):
            client.send(id=each["id"], result={"terminalId": terminal})
        assert client.answer(number)["result"] == {"stopReason": "end_turn"}
        shown = {
            (each["toolCallId"], content["terminalId"])
            for each in client.updates(session)
            for content in each.get("content", ())
            if "toolCallId" in each and content["type"] == "terminal"
        }
        assert len(shown) == 2
        assert len({call_id for call_id, _ in shown}) == 2


def test_without_terminals_after_all_the_command_runs_here(tmp_path: Path) -> None:
    replies = [[call("bash", command="echo here")], [say("done")]]
    with acp(tmp_path, replies, *FULL, capabilities={"terminal": True}) as client:
        session = client.new()
        client.prompt(session, "go")
        last = [each for each in client.updates(session) if "toolCallId" in each][-1]
        assert "here" in last["content"][0]["content"]["text"]


def test_an_extension_asks_its_person_with_a_form(tmp_path: Path) -> None:
    extension = tmp_path / "agent" / "extensions-py" / "asking.py"
    extension.parent.mkdir(parents=True)
    extension.write_text(
        "def setup(api):\n"
        "    async def ask(arguments):\n"
        "        sure = await api.ui.confirm('Really?')\n"
        "        colour = await api.ui.choose('Colour?', ['red', 'blue'])\n"
        "        name = await api.ui.enter('Name?')\n"
        "        api.ui.notify(f'{sure} {colour} {name}')\n"
        "    api.command('ask', 'Asks', ask)\n"
    )
    capabilities = {"elicitation": {"form": {}}, "session": {"notices": {}}}
    with acp(tmp_path, capabilities=capabilities) as client:
        answers = iter([True, "blue", "Ada"])
        client.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": {"answer": next(answers)},
        }
        session = client.new()
        commands = client.until("available_commands_update")["availableCommands"]
        assert [each["name"] for each in commands] == ["ask", "compact"]
        assert client.prompt(session, "/ask") == "end_turn"
        (notice,) = [each for each in client.updates() if each["sessionUpdate"] == "notice"]
        assert notice["title"] == "True blue Ada"


# --- what prompts may hold -----------------------------------------------------------------------


def test_everything_that_is_sent_along_reaches_the_model(tmp_path: Path) -> None:
    with acp(tmp_path, [[say("seen")]]) as client:
        session = client.new()
        resource = {"uri": "file:///p/b.py", "text": "print(1)", "mimeType": None}
        blob = {"uri": "file:///p/c.png", "blob": PNG, "mimeType": "image/png"}
        prompt = [
            *text("See "),
            {"type": "resource_link", "uri": "file:///p/a.py#L3:5", "name": "a.py", "size": 9},
            {"type": "resource", "resource": resource, "annotations": None},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": blob},
        ]
        assert client.ask("session/prompt", sessionId=session, prompt=prompt) == {
            "stopReason": "end_turn"
        }
        client.ask("session/close", sessionId=session)
        begun = len(client.frames)
        client.ask("session/load", sessionId=session, cwd=str(client.project), mcpServers=[])
        chunks = [
            each["content"]
            for each in client.updates(session, begun)
            if each["sessionUpdate"] == "user_message_chunk"
        ]
        assert [each["type"] for each in chunks] == ["text", "image", "image"]
        assert chunks[0]["text"] == "See @a.py@b.py"
    (file,) = (tmp_path / "agent" / "sessions").rglob("*.jsonl")
    stored = file.read_text()
    assert "/p/a.py:3-5" in stored
    assert "print(1)" in stored


def test_a_link_reads_as_a_mention_and_a_page_by_its_address() -> None:
    blocks: list[ContentBlock] = [
        TextBlock(text="Like "),
        ResourceLink(uri="https://example.org/x", name="X"),
        ResourceLink(uri="file:///p/a%20b.txt"),
    ]
    prompt = prompt_of(blocks, "acp-1")
    assert prompt.text == "Like @X@a b.txt"
    assert [each["type"] for each in prompt.attachments] == ["text", "file"]


def test_an_image_that_models_cannot_see_is_named() -> None:
    drawing = Resource(uri="file:///a/b.svg", blob="AAAA", mime_type="image/svg+xml")
    prompt = prompt_of([ResourceBlock(resource=drawing)], "acp-1")
    assert (prompt.text, list(prompt.images)) == ("@b.svg", [])
    assert [each["uri"] for each in prompt.attachments] == ["file:///a/b.svg"]


@pytest.mark.parametrize(
    ("fragment", "lines"),
    [
        ("L10", (9, 9)),
        ("L10:20", (9, 19)),
        ("L10-L20", (9, 19)),
        ("L0", (0, 0)),
        ("L" + "9" * 5000, None),
        ("L\u0661", None),
        ("10", None),
        ("L10:", None),
    ],
)
def test_lines_are_read_from_a_link_where_they_can_be(
    fragment: str, lines: tuple[int, int] | None
) -> None:
    prompt = prompt_of([ResourceLink(uri=f"file:///a#{fragment}", name="a")], "acp-1")
    found = prompt.attachments[0].get("range")
    got = None if found is None else (found["start"]["line"], found["end"]["line"])
    assert got == lines


def test_what_cannot_be_said_is_refused(tmp_path: Path) -> None:
    prompts: list[Any] = [
        [],
        text("  "),
        [{"type": "audio", "data": PNG, "mimeType": "audio/wav"}],
        [{"type": "image", "data": "!", "mimeType": "image/png"}],
        [{"type": "image", "data": PNG, "mimeType": "text/html"}],
        [{"type": "image", "data": "AAAA" * (8 * 2**20 + 1), "mimeType": "image/png"}],
        text("x" * (4 * 2**20 + 1)),
        [{"type": "resource", "resource": {"uri": "file:///x", "text": "x" * 300_000}}],
        [{"type": "smell"}],
        "words",
    ]
    with acp(tmp_path, [[say("hi")]]) as client:
        session = client.new()
        for prompt in prompts:
            error = client.refused("session/prompt", sessionId=session, prompt=prompt)
            assert error["code"] == -32602, str(prompt)[:80]
            assert error["data"]["path"].startswith("prompt"), str(prompt)[:80]
        assert said(client.updates()) == ""
        picture = [{"type": "image", "data": PNG, "mimeType": "image/png"}]
        client.ask("session/prompt", sessionId=session, prompt=picture)  # It needs no words.
        assert said(client.updates()) == "hi"


def test_blocks_of_the_wrong_kind_raise_what_the_client_is_told() -> None:
    with pytest.raises(RpcError, match="expected something to say"):
        prompt_of([], "acp-1")
