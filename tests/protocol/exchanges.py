"""The exchanges that ``protocol.md`` shows: one conversation each, with a scripted model.

A conversation is the same in every run: a client writes only where the daemon waits for it, or
where the order of what follows does not depend on time.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pi_rpc.protocol.handshake import EVENT_NAMES
from tests.protocol.recorder import Conversation, Placeholders, Said, Step

HOLD = {"delayMs": 600_000}
"""The model falls silent until it is stopped."""
BRIEF = (
    *("message_start", "turn_start", "turn_end", "agent_end"),
    *("session_changed", "save_point", "entry_appended"),
)
"""What an exchange leaves out that is about something else."""


@dataclass(frozen=True)
class Exchange:
    """A conversation that is recorded."""

    hold: Callable[[Path], list[Said]]
    lists: Mapping[str, int] = field(default_factory=dict)
    """Fields whose lists are cut, and how many of their items stay."""
    texts: Mapping[str, int] = field(default_factory=dict)
    """Fields whose texts are cut, and how many of their characters stay."""

    def record(self, home: Path) -> list[Said]:
        """What is said, with placeholders."""
        said = self.hold(home)
        places = Placeholders(home, self.lists, self.texts)
        return [(sender, places.of(frame)) for sender, frame in said]


def say(text: str) -> list[Step]:
    """The model says something, in one delta."""
    return [{"usage": {"input": 31, "output": 3}}, {"text": text, "pieces": 1}]


def call(name: str, **arguments: Any) -> list[Step]:
    """The model calls a tool."""
    return [
        {"usage": {"input": 31, "output": 9}},
        {"toolCall": {"name": name, "arguments": arguments}},
    ]


def wishes(*opt_out: str, **session: Any) -> dict[str, Any]:
    """``initialize`` params: what not to be told, and what the default session is like."""
    return {
        "capabilities": {"events": {"optOut": list(opt_out), "minIntervalMs": 0}},
        "initializationOptions": {"session": session},
    }


def settle(home: Path, **settings: Any) -> None:
    """Write the person's settings."""
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(settings))


def first_prompt(home: Path) -> list[Said]:
    with Conversation(home, [say("Hello!")]) as client:
        client.request("initialize", {"cwd": str(client.project)})
        client.request("prompt", {"message": "Say hello."})
        client.request("shutdown")
        client.notify("exit")
        assert client.end() == 0
        return client.said


def language_client(home: Path) -> list[Said]:
    with Conversation(home) as client:
        root = client.project.as_uri()
        client.request("initialize", {"processId": None, "rootUri": root, "capabilities": {}})
        client.notify("initialized", {})
        client.request("session/open", {"sessionId": "gone"})
        client.request("shutdown")
        client.notify("exit")
        assert client.end() == 0
        return client.said


def beginning(home: Path) -> list[Said]:
    with Conversation(home, [say("Hello!")]) as client:
        client.request("session/state")
        client.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": "ada-edit", "version": "2.1"},
                "workspaceFolders": [{"uri": client.project.as_uri(), "name": "engine"}],
                "capabilities": {
                    "general": {"positionEncodings": ["utf-8", "utf-16"]},
                    "events": {"optOut": ["save_point"], "minIntervalMs": 50},
                },
                "initializationOptions": {"session": {"name": "Engine", "thinkingLevel": "low"}},
            },
        )
        client.notify("initialized", {})
        client.notify("$/setTrace", {"value": "off"})
        client.request("initialize")
        client.request("session/state")
        client.request("ping", {"anything": "goes"})
        client.request("no/such/method")
        return client.said


def tool_call(home: Path) -> list[Said]:
    with Conversation(home, [call("read", path="README.md"), say("A steam engine.")]) as client:
        (client.project / "README.md").write_text("# The engine\n\nIt runs on steam.\n")
        client.begin(wishes("session_changed", "save_point", "entry_appended"))
        client.request("prompt", {"message": "What is this?", "clientMessageId": "m-17"})
        return client.said


def attachments(home: Path) -> list[Said]:
    with Conversation(home, [say("It counts.")]) as client:
        uri = (client.project / "main.py").as_uri()
        span = {"start": {"line": 11, "character": 0}, "end": {"line": 12, "character": 14}}
        client.begin(wishes("message_update", "agent_end", "session_changed", "save_point"))
        client.request(
            "prompt",
            {
                "message": "What does this do?",
                "attachments": [
                    {"type": "file", "uri": uri},
                    {
                        "type": "selection",
                        "uri": uri,
                        "range": span,
                        "text": "for n in range(9):\n    print(n)",
                    },
                    {
                        "type": "diagnostics",
                        "uri": uri,
                        "diagnostics": [{"range": span, "severity": 2, "message": "unused: m"}],
                    },
                    {"type": "text", "name": "log", "text": "0 1 2"},
                ],
            },
        )
        return client.said


def queueing(home: Path) -> list[Said]:
    replies = [call("bash", command="sh check.sh"), say("They pass."), say("Done.")]
    with Conversation(home, replies) as client, client.gate() as open_gate:
        client.begin(wishes(*BRIEF, "message_update", permissionMode="full"))
        prompt = client.send("prompt", {"message": "Do the tests pass?"})
        client.until(lambda frame: "12 tests passed" in str(frame))
        client.request("followUp", {"message": "Then commit."})
        client.request("queue/clear")
        sent = client.request("followUp", {"message": "And push."})
        client.request("queue/remove", {"id": sent["result"]["queue"]["items"][0]["id"]})
        client.request("followUp", {"message": "Then say done."})
        client.request("steer", {"message": "In two words."})
        open_gate()
        client.answer(prompt)
        return client.said


def aborting(home: Path) -> list[Said]:
    held = [*say("Once upon a time"), HOLD]
    with Conversation(home, [held, say("Fine.")]) as client:
        client.begin(wishes(*BRIEF))
        client.request("abort")
        client.request("prompt", {"message": "Tell me a story.", "wait": "accepted"})
        client.event("message_update", assistantMessageEvent=_TEXT_END)
        client.request("followUp", {"message": "And another."})
        client.request("abort")
        return client.said


def cancelling(home: Path) -> list[Said]:
    held = [*say("Once upon a time"), HOLD]
    with Conversation(home, [held, say("The end.")]) as client:
        client.begin(wishes(*BRIEF))
        first = client.send("prompt", {"message": "Tell me a story."})
        client.event("message_update", assistantMessageEvent=_TEXT_END)
        waiting = {"message": "And another.", "streamingBehavior": "followUp"}
        second = client.send("prompt", waiting)
        client.event("queue_update")
        client.notify("$/cancel_request", {"requestId": second})
        client.answer(second)
        client.notify("$/cancelRequest", {"id": first})
        client.answer(first)
        client.request("continue")
        return client.said


def compacting(home: Path) -> list[Said]:
    summary = say("## Goal\nLearn of engines.")
    replies = [say("Steam."), say("In 1712."), summary, say("Newcomen."), [*summary, HOLD]]
    settle(home, compaction={"keepRecentTokens": 5})
    with Conversation(home, replies) as client:
        client.begin(wishes(*BRIEF, "message_update"))
        client.request("compact")
        client.request("prompt", {"message": "What drives it?"})
        client.request("prompt", {"message": "When was the first one built?"})
        client.request("compact", {"customInstructions": "Keep the years."})
        client.request("prompt", {"message": "And who was it that built it?"})
        second = client.send("compact")
        client.event("compaction_start")
        client.notify("$/cancelRequest", {"id": second})
        client.answer(second)
        return client.said


def branching(home: Path) -> list[Said]:
    replies = [say("Steam."), say("In 1712."), say("In Dudley."), say("## Goal\nA place.")]
    with Conversation(home, replies) as client:
        client.begin(wishes(*BRIEF, "message_update"))
        client.request("prompt", {"message": "What drives it?"})
        client.request("prompt", {"message": "When was the first one built?"})
        page = client.request("session/messages")["result"]
        client.request("branch", {"entryId": page["entryIds"][2]})
        client.request("prompt", {"message": "Where was the first one built?"})
        back = {"entryId": page["entryIds"][3], "summarize": True, "label": "dates"}
        client.request("branch", back)
        client.request("session/label", {"entryId": page["entryIds"][1], "label": "steam"})
        client.request("session/tree", {"query": "steam"})
        client.request("session/stats")
        client.request("branch", {"entryId": "root"})
        client.request("branch", {"entryId": "ffffffff"})
        return client.said


def restoring(home: Path) -> list[Said]:
    edit = {"oldText": "red", "newText": "green"}
    replies = [
        call("edit", path="valve.txt", edits=[edit]),
        call("write", path="docs/valve.md", content="It is green.\n"),
        call("bash", command="echo shut > state.txt"),
        say("Done."),
    ]
    with Conversation(home, replies) as client:
        (client.project / "valve.txt").write_text("The valve is red.\n")
        (client.project / "valve.txt").chmod(0o644)
        client.begin(wishes(*BRIEF, *_CALLS, permissionMode="full"))
        client.request("prompt", {"message": "Paint the valve green, and write that down."})
        found = client.request("checkpoint/list")["result"]["checkpoints"]
        newest = {"checkpointId": found[0]["checkpointId"]}
        client.request("checkpoint/diff", newest)
        client.write(client.project / "docs" / "valve.md", "It is green, or blue.\n")
        undo = client.request("checkpoint/restore", newest)["result"]["checkpointId"]
        client.request("checkpoint/restore", {"checkpointId": undo})
        client.request("checkpoint/diff", {"checkpointId": "cp_0"})
        return client.said


def forking(home: Path) -> list[Said]:
    with Conversation(home, [say("Steam."), say("In 1712.")]) as client:
        client.begin(wishes(*BRIEF, "message_update", "message_end", name="Engines"))
        client.request("prompt", {"message": "What drives it?"})
        client.request("prompt", {"message": "When was the first one built?"})
        page = client.request("session/messages")["result"]
        cut = client.request("session/fork", {"entryId": page["entryIds"][2]})["result"]
        client.request("session/fork", {"entryId": page["entryIds"][1], "position": "before"})
        clone = {"sessionId": client.request("session/fork")["result"]["sessionId"]}
        client.request("session/close", clone)
        client.request("session/configure", {**clone, "name": "Years"})
        client.request("session/label", {**clone, "entryId": page["entryIds"][3], "label": "1712"})
        client.request("session/configure", {**clone, "thinkingLevel": "high"})
        client.request("session/delete", clone)
        client.request("session/open", clone)
        client.request("session/delete", {"sessionId": cut["sessionId"]})
        return client.said


def exporting(home: Path) -> list[Said]:
    with Conversation(home, [say("Steam.")]) as client:
        client.begin(wishes(*BRIEF, "message_update", "message_end", name="Engines"))
        client.request("prompt", {"message": "What drives it?"})
        page = {"format": "html", "path": "engines.html"}
        client.request("session/export", page)
        client.request("session/export", page)
        client.request("session/export", {"format": "markdown"})
        return client.said


def observing(home: Path) -> list[Said]:
    with Conversation(home, [say("Steam.")]) as client:
        client.begin(wishes(*EVENT_NAMES, name="Engines"))
        client.notify("$/setTrace", {"value": "messages"})
        client.request("prompt", {"message": "What drives it?"})
        # Traces of an answer come behind it.
        client.until(lambda frame: frame.get("method") == "$/logTrace")
        client.notify("$/setTrace", {"value": "verbose"})
        client.request("session/state", {"sessionId": "gone"})
        client.until(lambda frame: frame.get("method") == "$/logTrace")
        client.notify("$/setTrace", {"value": "off"})
        client.request("server/stats")
        return client.said


def repeating(home: Path) -> list[Said]:
    story = [{"usage": {"input": 31, "output": 3}}, {"text": "Once upon a time", "pieces": 4}]
    with Conversation(home, [story]) as client:
        client.begin(wishes(*BRIEF))
        client.request("prompt", {"message": "Tell me a story."})
        client.request("session/events", {"sinceSeq": 4})
        client.request("session/events", {"sinceSeq": 4, "limit": 1})
        client.request("session/events", {"sinceSeq": 99})
        client.request("session/events", {"sinceSeq": 4, "epoch": "9f86d081884c7d65"})
        return client.said


DEPLOY = """
from pi_rpc.agent.ports import Choice

def setup(api):
    async def deploy(arguments):
        where = await api.ui.choose(
            "Deploy where?",
            [Choice("staging", "Staging"), Choice("live", "Live", "What everybody sees")],
        )
        api.ui.status("deploy", f"deploying to {where}")
        if await api.ui.confirm("Really?", f"It goes to {where}.", timeout_s=60):
            token = await api.ui.enter("Token?", secret=True)
            note = await api.ui.edit("What is new?", "Fixed:\\n")
            api.ui.notify(f"deployed, with a note of {len(note)} characters")
        api.ui.status("deploy", None)
        if not await api.ui.confirm("Deploy another one?", timeout_s=0.05):
            api.ui.notify("that was all", "warning")

    api.command("deploy", "Deploys the engine", deploy)
"""


def asking(home: Path) -> list[Said]:
    folder = home / ".pi" / "agent" / "extensions-py"
    folder.mkdir(parents=True)
    (folder / "deploy.py").write_text(DEPLOY)
    with Conversation(home, [say("Hello!")]) as client:
        client.begin({"capabilities": {"ui": True}})
        prompt = client.send("prompt", {"message": "/deploy"})
        client.reply(client.question("ui/select"), {"value": "live"})
        confirm = client.question("ui/confirm")
        client.request("session/state", {"include": ["live"]})
        client.reply(confirm, {"confirmed": True})
        client.reply(client.question("ui/input"), {"value": "hunter2"})
        client.reply(client.question("ui/editor"), {"value": "Fixed:\n- the valve\n"})
        client.question("ui/confirm")
        client.answer(prompt)
        return client.said


def permitting(home: Path) -> list[Said]:
    edit = {"oldText": "red", "newText": "green"}
    replies = [
        call("edit", path="valve.txt", edits=[edit]),
        call("bash", command="cat valve.txt"),
        call("bash", command="rm -r docs && make"),
        say("It is blue. I left the rest."),
    ]
    with Conversation(home, replies) as client:
        (client.project / "valve.txt").write_text("The valve is red.\n")
        (client.project / "valve.txt").chmod(0o644)
        wanted = wishes(
            *BRIEF, "message_update", "message_end", "files_changed", "tool_execution_update"
        )
        wanted["capabilities"]["permission"] = True
        client.begin(wanted)
        prompt = client.send("prompt", {"message": "Paint the valve green, and clean up."})
        question = client.question("permission/request")
        (proposed,) = question["params"]["edits"]
        blue = {"uri": proposed["uri"], "newText": "The valve is blue.\n"}
        client.reply(question, {"optionId": "allow", "edits": [blue]})
        question = client.question("permission/request")
        client.request("session/state", {"include": ["live"]})
        client.reply(question, {"optionId": "allow_always_2"})
        question = client.question("permission/request")
        client.reply(question, {"optionId": "reject", "feedback": "Keep the docs."})
        client.answer(prompt)
        (rule,) = client.request("permission/list")["result"]["rules"]
        client.request("permission/forget", {"id": rule["id"]})
        client.request("permission/forget", {"id": rule["id"]})
        return client.said


def permitting_by_message(home: Path) -> list[Said]:
    replies = [call("bash", command="make\t\u202etest"), call("bash", command="make"), say("Done.")]
    with Conversation(home, replies) as client:
        wanted = wishes(*BRIEF, *_CALLS, "agent_settled")
        wanted["capabilities"]["window"] = {"showMessage": {}}
        client.begin(wanted)
        prompt = client.send("prompt", {"message": "Test it."})
        client.reply(client.question("window/showMessageRequest"), None)
        question = client.question("window/showMessageRequest")
        client.reply(question, {"title": "Reject"})
        client.answer(prompt)
        return client.said


def errors(home: Path) -> list[Said]:
    failure = {"error": {"message": "The engine is on fire", "status": 400}}
    replies = [[{"usage": {"input": 31}}, failure], [*say("Well,"), HOLD]]
    with Conversation(home, replies) as client:
        client.begin(wishes(*BRIEF))
        client.request("continue")
        client.request("prompt", {"message": ["not a block"]})
        client.request("prompt", {"message": "Hello?"})
        client.request("continue", {"wait": "accepted"})
        client.event("message_update", assistantMessageEvent=_TEXT_END | {"content": "Well,"})
        client.request("prompt", {"message": "Are you there?"})
        client.request("session/configure", {"model": "nobody/nothing"})
        client.request("session/entry", {"entryId": "ffffffff"})
        client.request("session/messages", {"sessionId": "nowhere"})
        client.request("abort")
        return client.said


def several_sessions(home: Path) -> list[Said]:
    replies = [call("bash", command="sh check.sh"), say("That is all it says.")]
    docs = home / "docs"
    docs.mkdir(parents=True)
    (docs / "check.sh").write_text("echo 'no tests here'\n")
    with Conversation(home, replies) as client, client.gate() as open_gate:
        client.begin(
            wishes(*BRIEF, "message_update", "tool_execution_update", permissionMode="full")
        )
        slow = client.send("prompt", {"message": "Do the tests pass?"})
        client.event("tool_execution_start")
        made = client.request("session/new", {"cwd": str(docs), "permissionMode": "full"})
        other = made["result"]["sessionId"]
        client.request("prompt", {"sessionId": other, "message": "And here?"})
        client.request("session/close", {"sessionId": other})
        client.request("prompt", {"sessionId": other, "message": "Still there?"})
        open_gate()
        client.answer(slow)
        return client.said


def reopening(home: Path) -> list[Said]:
    replies = [say("Hello!"), say("Again!")]
    with Conversation(home, replies) as before:
        before.begin()
        before.request("prompt", {"message": "Say hello."})
    with Conversation(home, replies) as client:
        client.begin(wishes(*BRIEF))
        listed = client.request("session/list", {"cwd": str(client.project)})
        session = {"sessionId": listed["result"]["sessions"][0]["sessionId"]}
        client.request("session/open", session)
        page = client.request("session/messages", {**session, "limit": 1})["result"]
        older = {**session, "limit": 1, "beforeEntryId": page["entryIds"][0]}
        client.request("session/messages", older)
        client.request("session/entries", {**session, "limit": 2})
        client.request("session/entry", {**session, "entryId": page["entryIds"][0]})
        client.request("session/state", {**session, "include": ["live"]})
        return client.said


def settings(home: Path) -> list[Said]:
    (home / "engine").mkdir(parents=True)
    (home / "engine" / "a.txt").write_text("a\n")
    with Conversation(home, [call("read", path="a.txt"), say("Hello!")]) as client:
        client.begin(wishes("message_update", "message_start", "message_end", "turn_start"))
        client.request("model/list")
        client.request("tool/list")
        client.request(
            "session/configure",
            {"thinkingLevel": "high", "name": "Engine", "limits": {"turns": 1}},
        )
        client.request("prompt", {"message": "What is in a.txt?"})
        client.request("session/configure", {"permissionMode": "readonly", "limits": {}})
        return client.said


def running_commands(home: Path) -> list[Said]:
    replies = [call("bash", command="sh check.sh"), say("They pass."), say("Three.")]
    with Conversation(home, replies) as client, client.gate() as open_gate:
        client.begin(
            wishes("message_update", "turn_start", "turn_end", "agent_end", permissionMode="full")
        )
        client.request("bash", {"command": "echo one; exit 3", "token": "b-1"})
        client.request("bash", {"command": "echo two", "excludeFromContext": True})
        prompt = client.send("prompt", {"message": "Do the tests pass?"})
        client.until(lambda frame: "12 tests passed" in str(frame))
        client.request("bash", {"command": "echo three"})
        open_gate()
        client.answer(prompt)
        endless = client.send("bash", {"command": "echo four; sleep 600", "token": "b-4"})
        client.event("bash_output", token="b-4")
        client.notify("$/cancelRequest", {"id": endless})
        client.answer(endless)
        client.request("bash", {"command": "ls", "cwd": "nowhere"})
        client.request("session/configure", {"permissionMode": "readonly"})
        client.request("bash", {"command": "ls"})
        return client.said


def editing_documents(home: Path) -> list[Said]:
    path = home / "engine" / "a.txt"
    path.parent.mkdir(parents=True)
    path.write_text("one\ntwo\n")
    document = {"uri": path.as_uri(), "version": 7, "dirty": False}
    replies = [call("edit", path="a.txt", edits=[{"oldText": "two", "newText": "2"}]), say("Done.")]
    abilities = {"readDocument": True, "applyEdit": True, "saveDocument": True}
    wanted = wishes(*BRIEF, "message_update", "message_end", permissionMode="full")
    wanted["capabilities"]["editor"] = abilities
    with Conversation(home, replies) as client:
        client.begin(wanted)
        client.notify("editor/didChange", {"openDocuments": [document]})
        prompt = client.send("prompt", {"message": "Write digits."})
        shown, version = path.read_text(), 7
        while "method" in (asked := client.until(lambda frame: "id" in frame)):
            match asked["method"]:
                case "editor/readDocument":
                    client.reply(
                        asked, {"open": True, "text": shown, "version": version, "eol": "\n"}
                    )
                case "workspace/applyEdit":
                    shown, version = shown.replace("two", "2"), version + 1
                    client.reply(asked, {"applied": True})
                case "editor/saveDocument":
                    client.write(path, shown)
                    client.reply(asked, {"saved": True})
        assert asked["id"] == prompt
        return client.said


def listing_commands(home: Path) -> list[Said]:
    write(home / ".pi/agent/prompts/review.md", "Review", "argument-hint: <file>", "Review $1.")
    write(home / ".pi/agent/skills/brew/SKILL.md", "Makes tea", "name: brew", "Boil water.")
    extension = "def setup(api):\n    api.command('note', 'Keeps a note', lambda text: None)\n"
    (home / ".pi/agent/extensions-py").mkdir()
    (home / ".pi/agent/extensions-py/notes.py").write_text(extension)
    with Conversation(home, [say("It is fine.")]) as client:
        client.begin(wishes(*BRIEF, "message_update"))
        client.request("command/list")
        client.request("prompt", {"message": "/review main.py"})
        client.request("prompt", {"message": "/note milk"})
        return client.said


def looking_for_files(home: Path) -> list[Said]:
    with Conversation(home) as client:
        client.begin()
        for name in ("README.md", "src/boiler.py", "src/boiler_test.py", "build/boiler.o"):
            client.write(client.project / name, "")
        client.write(client.project / ".gitignore", "build/\n")
        client.request("file/search", {"query": "boi"})
        client.request("file/search", {"query": "src btest", "limit": 1})
        client.request("file/search", {"query": "", "limit": 2})
        client.request("file/search", {"query": "boi", "limit": 0})
        return client.said


def trusting(home: Path) -> list[Said]:
    write(home / "engine/.pi/prompts/oil.md", "Oil it", "argument-hint: <part>", "Oil $1.")
    with Conversation(home) as client:
        client.begin()
        client.request("trust/get")
        client.request("command/list")
        client.request("trust/set", {"trusted": True})
        client.request("command/list")
        client.request("trust/set")
        client.request("trust/get", {"cwd": "engine"})
        return client.said


def keys(home: Path) -> list[Said]:
    with Conversation(home) as client:
        client.begin(wishes(model="groq/openai/gpt-oss-120b"))
        client.request("auth/status", {"provider": "groq"})
        client.request("prompt", {"message": "Say hello."})
        client.request("auth/set", {"provider": "groq", "apiKey": "gsk-not-a-key-of-anybody"})
        client.request("model/list", {"provider": "groq", "authenticated": False})
        client.request("auth/set", {"provider": "groq", "apiKeyEnv": "KEY_FROM_WORK"})
        client.request("auth/set", {"provider": "grok", "apiKeyCommand": "pass show work/groq"})
        client.request("auth/remove", {"provider": "groq"})
        return client.said


def write(path: Path, description: str, matter: str, text: str) -> None:
    """A file with front matter."""
    path.parent.mkdir(parents=True)
    path.write_text(f"---\ndescription: {description}\n{matter}\n---\n{text}\n")


def ending(home: Path) -> list[Said]:
    with Conversation(home) as client:
        client.begin()
        client.send("ping")
        client.send("shutdown")
        client.send("ping")
        client.notify("exit")
        assert client.end() == 0
        return client.said


_CALLS = (
    *("agent_start", "message_end", "message_update"),
    *("tool_execution_start", "tool_execution_update", "tool_execution_end"),
)
_TEXT_END = {"type": "text_end", "contentIndex": 0, "content": "Once upon a time"}
_NAMES = {"methods": 2, "events": 2}

EXCHANGES: dict[str, Exchange] = {
    "lines": Exchange(first_prompt, lists=_NAMES),
    "headers": Exchange(language_client, lists=_NAMES),
    "initialize": Exchange(beginning),
    "tool": Exchange(tool_call),
    "attachments": Exchange(attachments),
    "queue": Exchange(queueing),
    "abort": Exchange(aborting),
    "cancel": Exchange(cancelling),
    "compact": Exchange(compacting),
    "branch": Exchange(branching),
    "events": Exchange(repeating),
    "questions": Exchange(asking),
    "permissions": Exchange(permitting),
    "messages": Exchange(permitting_by_message),
    "fork": Exchange(forking),
    "export": Exchange(exporting),
    "checkpoints": Exchange(restoring),
    "errors": Exchange(errors),
    "sessions": Exchange(several_sessions),
    "reopen": Exchange(reopening),
    "settings": Exchange(settings, lists={"models": 1}, texts={"description": 60}),
    "bash": Exchange(running_commands),
    "editor": Exchange(editing_documents),
    "commands": Exchange(listing_commands),
    "files": Exchange(looking_for_files),
    "trust": Exchange(trusting),
    "auth": Exchange(keys),
    "observe": Exchange(observing),
    "end": Exchange(ending),
}
"""By the names of their markers in ``protocol.md``."""
