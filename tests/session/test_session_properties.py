"""Properties of sessions in files, whatever is appended and whatever stands between the lines."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

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
    CompactionEntry,
    ContextEditEntry,
    ContextReplacement,
    Entry,
    LabelEntry,
)
from pi_rpc.session.naming import new_session_id, valid_session_id
from pi_rpc.session.stored import parse_header
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
        st.tuples(st.just("fork"), st.integers(0, 1000)),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("refresh"), st.none()),
    ),
    max_size=25,
)


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
    if kind == "reply":
        return message_entry(session, assistant(value))
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


def picture(session: SessionStorage) -> Any:
    return (
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
        elif step[0] == "fork":
            session, shadow = await forked(repo, session, shadow, step[1])
        else:
            entry = entry_for(session, step)
            await session.append(entry)
            await shadow.append(entry)
        assert picture(session) == picture(shadow)
    await session.aclose()
    again = await JsonlSession.open(session.path, read_only=True)
    assert picture(again) == picture(shadow)
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
