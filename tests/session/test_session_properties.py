"""Properties of sessions in files, whatever is appended and whatever stands between the lines."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from pi_rpc.agent.messages import BashExecutionMessage
from pi_rpc.llm.messages import ImageBlock, TextBlock, Usage, UserMessage
from pi_rpc.session import (
    EntryReader,
    JsonlSession,
    JsonlSessionRepo,
    MemorySession,
    MemorySessionRepo,
    SessionStorage,
    build_context,
    interrupted,
    transcript,
)
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    ContextReplacement,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from pi_rpc.session.naming import new_session_id, valid_session_id
from pi_rpc.session.stored import parse_header
from pi_rpc.session.tree import session_stats, tree_page
from tests.session.builders import (
    FIXTURE,
    assistant,
    custom_entry,
    leaf_entry,
    message_entry,
    model_entry,
    name_entry,
    place,
    user_entry,
)

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
any_text = st.text(st.characters(codec="utf-8"), max_size=30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("user"), any_text),
        st.tuples(st.just("name"), any_text),
        st.tuples(st.just("custom"), json_values),
        st.tuples(st.just("model"), st.none()),
        st.tuples(st.just("move"), st.integers(0, 1000)),
        st.tuples(st.just("root"), st.none()),
        st.tuples(st.just("leaf"), st.integers(0, 1000)),
        st.tuples(st.just("label"), st.tuples(st.integers(0, 1000), st.none() | any_text)),
        st.tuples(st.just("compact"), st.integers(0, 1000)),
        st.tuples(st.just("edit"), st.tuples(st.integers(0, 1000), st.none() | any_text)),
        st.tuples(st.just("reply"), any_text),
        st.tuples(st.just("failure"), any_text),
        st.tuples(st.just("call"), any_text),
        st.tuples(st.just("images"), any_text),
        st.tuples(st.just("bash"), st.booleans()),
        st.tuples(st.just("thinking"), st.sampled_from(["off", "low", "high"])),
        st.tuples(st.just("tools"), st.lists(st.sampled_from(["read", "bash"]), max_size=2)),
        st.tuples(st.just("usage"), st.integers(0, 2**40)),
        st.tuples(st.just("summary"), any_text),
        st.tuples(st.just("note"), any_text),
        st.tuples(st.just("several"), st.lists(any_text, min_size=1, max_size=4)),
        st.tuples(st.just("fork"), st.integers(0, 1000)),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("refresh"), st.none()),
    ),
    max_size=25,
)


def images(text: str) -> UserMessage:
    picture = ImageBlock(data="iVBORw0KGgo=", mime_type="image/png")
    return UserMessage(content=[TextBlock(text=text), picture], timestamp=1)


def bash(excluded: bool) -> BashExecutionMessage:
    return BashExecutionMessage(
        command="ls",
        output="out",
        cancelled=False,
        truncated=False,
        timestamp=1,
        exclude_from_context=excluded,
    )


def used(tokens: int) -> Usage:
    return msgspec.structs.replace(Usage.ZERO, input=tokens, total_tokens=tokens)


SAID: dict[str, Callable[[Any], Any]] = {
    "reply": assistant,
    "failure": lambda text: assistant(text, stop_reason="error"),
    "call": lambda text: assistant(text, "call_1", stop_reason="toolUse"),
    "images": images,
    "bash": bash,
}
KEPT: dict[str, Callable[[SessionStorage, Any], Entry]] = {
    "thinking": lambda session, level: ThinkingLevelChangeEntry(
        **place(session), thinking_level=level
    ),
    "tools": lambda session, names: ActiveToolsChangeEntry(
        **place(session), active_tool_names=names
    ),
    "usage": lambda session, tokens: UsageEntry(
        **place(session), kind="title", provider="acme", model="one", usage=used(tokens)
    ),
    "summary": lambda session, text: BranchSummaryEntry(
        **place(session), from_id="root", summary=text, usage=used(3)
    ),
    "note": lambda session, text: CustomMessageEntry(
        **place(session), custom_type="test", content=text, display=True
    ),
}


def entry_for(session: SessionStorage, step: tuple[str, Any]) -> Entry:
    kind, value = step
    if kind == "user":
        return user_entry(session, value)
    if kind == "name":
        return name_entry(session, value)
    if kind == "custom":
        return custom_entry(session, value)
    if kind == "move" and session.entries():
        entries = session.entries()
        return leaf_entry(session, entries[value % len(entries)].id)
    if kind == "root":
        return leaf_entry(session, None)
    if kind in SAID:
        return message_entry(session, SAID[kind](value))
    if kind in KEPT:
        return KEPT[kind](session, value)
    branch = session.branch()
    if kind == "label" and branch:
        label = UNSET if value[1] is None else value[1]
        target = branch[value[0] % len(branch)].id
        return LabelEntry(**place(session), target_id=target, label=label)
    if kind == "compact" and branch:
        kept = branch[value % len(branch)].id
        return CompactionEntry(
            **place(session), summary="s", first_kept_entry_id=kept, tokens_before=1
        )
    if kind == "edit" and branch:
        replacement = None if value[1] is None else ContextReplacement(content=value[1])
        target = branch[value[0] % len(branch)].id
        return ContextEditEntry(**place(session), target_id=target, replacement=replacement)
    return model_entry(session)


async def picture(session: SessionStorage) -> Any:
    return (
        await session_stats(session),
        (await tree_page(session)).nodes,
        session.leaf_id,
        [stored.raw for stored in session.branch()],
        [stored.raw for stored in session.entries()],
        [stored.entry for stored in session.entries()],
        build_context(session.branch()),
        [(item.entry_id, item.message) for item in transcript(session.branch())],
        interrupted(session.branch()),
        session.usage_totals(),
        dict(session.labels),
        session.name,
        session.message_count,
    )


async def forked(
    repo: JsonlSessionRepo, session: JsonlSession, shadow: MemorySession, number: int
) -> tuple[JsonlSession, MemorySession]:
    """Both forked at one entry, the copy in memory from the one in the file: labels get new ids."""
    target = session.entries()[number % len(session.entries())].id
    context = build_context(session.branch(target))
    fork = (await repo.fork(session, target)).session
    assert isinstance(fork, JsonlSession)
    assert build_context(fork.branch()) == context
    assert {label.text for label in fork.labels.values()} <= {
        label.text for label in shadow.labels.values()
    }
    copy = (await MemorySessionRepo().fork(shadow, target)).session
    assert build_context(copy.branch()) == context
    assert dict(copy.labels) == dict(fork.labels)
    await session.aclose()
    if not fork.entries():
        await fork.append(user_entry(fork))
    same = MemorySession("/w")
    same.restore([stored.raw for stored in fork.entries()])
    return fork, same


async def run_steps(folder: Path, todo: list[tuple[str, Any]]) -> None:
    repo = JsonlSessionRepo(folder)
    session = await repo.create("/w")
    shadow: MemorySession = MemorySession("/w")
    await session.append(user_entry(session))
    (first,) = session.entries()
    await shadow.append(first.entry)  # type: ignore[arg-type]
    for step in todo:
        if step[0] == "reopen":
            await session.aclose()
            session = await JsonlSession.open(session.path)
        elif step[0] == "refresh":
            assert await session.refresh() == "unchanged"
        elif step[0] == "leaf":
            target = session.entries()[step[1] % len(session.entries())].id
            moved = await session.set_leaf_id(target)
            assert (moved is None) == (target == shadow.leaf_id)
            if moved is not None:
                await shadow.append(moved.entry)  # type: ignore[arg-type]
        elif step[0] == "several":
            entries = [user_entry(session, text) for text in step[1]]
            await session.append_many(entries)
            await shadow.append_many(entries)
        elif step[0] == "fork":
            session, shadow = await forked(repo, session, shadow, step[1])
        else:
            entry = entry_for(session, step)
            await session.append(entry)
            await shadow.append(entry)
        assert await picture(session) == await picture(shadow)
    await session.aclose()
    again = await JsonlSession.open(session.path, read_only=True)
    assert await picture(again) == await picture(shadow)
    assert again.notes == ["The session is read-only: it was opened read-only."]
    await again.aclose()


@QUICK
@given(steps)
def test_a_session_in_a_file_is_at_any_time_what_one_in_memory_is(
    todo: list[tuple[str, Any]],
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        anyio.run(run_steps, folder, todo)
    finally:
        shutil.rmtree(folder)


garbage = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")).filter(
    lambda data: EntryReader().line(data) is None and parse_header(data) is None
) | st.sampled_from([b"", b"\r", b'{"type":"message"}', b"{", b'"x"', b'{"id":"q"', b"\xff" * 9])


async def open_with(lines: list[bytes], end: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        content = b"".join(line + b"\n" for line in lines) + end
        path.write_bytes(content)
        session = await JsonlSession.open(path)
        await session.append(user_entry(session))
        await session.aclose()
        assert path.read_bytes().startswith(content)
        again = await JsonlSession.open(path)
        assert again.leaf_id == session.leaf_id
        await again.aclose()
        context = build_context(session.branch()[:-1])
        return [stored.raw for stored in session.branch()[:-1]], context.messages, context.model


@QUICK
@given(st.dictionaries(st.integers(1, 30), st.lists(garbage, min_size=1, max_size=3)), garbage)
def test_garbage_between_lines_loses_nothing(places: dict[int, list[bytes]], end: bytes) -> None:
    original = FIXTURE.read_bytes().splitlines()
    spoilt: list[bytes] = []
    for number, text in enumerate(original):
        if number > 0:
            spoilt += places.get(number, [])
        spoilt.append(text)
    assert anyio.run(open_with, spoilt, end) == anyio.run(open_with, original, b"")


@QUICK
@given(st.binary(max_size=200))
def test_no_line_of_bytes_breaks_reading(line: bytes) -> None:
    stored = EntryReader().line(line)
    assert stored is None or stored.raw == line


def mutations(value: Any) -> st.SearchStrategy[Any]:
    """The fields of an entry with some replaced by any JSON."""
    return st.dictionaries(st.sampled_from(sorted(value)), json_values, max_size=3).map(
        lambda changes: {**value, **changes}
    )


@QUICK
@given(st.data())
def test_no_value_in_a_known_entry_breaks_reading(data: st.DataObject) -> None:
    lines = FIXTURE.read_bytes().splitlines()[1:]
    fields = json.loads(data.draw(st.sampled_from(lines)))
    if isinstance(fields.get("message"), dict):
        fields["message"] = data.draw(mutations(fields["message"]))
    changed = data.draw(mutations(fields))
    stored = EntryReader().line(json.dumps(changed).encode())
    if stored is not None:
        assert stored.entry.id == stored.id
        build_context([stored])


@QUICK
@given(st.integers(1, 50))
def test_new_session_ids_are_valid_and_differ(count: int) -> None:
    made = [new_session_id() for _ in range(count)]
    assert len(set(made)) == count
    assert all(valid_session_id(session_id) and session_id[14] == "7" for session_id in made)
