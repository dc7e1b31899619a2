"""pi and we read each other's branches alike, whoever went on last.

Runs where ``PI_BIN`` is the command that starts pi 1.6, for instance ``node …/pi``; its session
code is asked through ``pi_sessions.mjs``.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import JsonlSession, JsonlSessionRepo, build_context
from pi_rpc.session.entries import BranchSummaryEntry, LabelEntry
from pi_rpc.session.tree import tree_page
from tests.compat.test_pi_opens_ours import PI, plain, readable
from tests.deadlines import DEADLINE_S
from tests.session.builders import assistant, ids, message_entry, place, user_entry

SCRIPT = Path(__file__).parent / "pi_sessions.mjs"


def index_of_pi() -> Path | None:
    """pi's ``index.js``, found from its command."""
    for folder in Path(PI[-1]).resolve().parents if PI else ():
        if (folder / "dist" / "index.js").is_file():
            return folder / "dist" / "index.js"
    return None


INDEX = index_of_pi()

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(INDEX is None or len(PI) < 2, reason="PI_BIN is no command of node and pi"),
]


def pi_does(path: Path, *steps: dict[str, Any]) -> dict[str, Any]:
    """Let pi take ``steps`` in a session file; what it makes of it then."""
    done = subprocess.run(
        [PI[0], str(SCRIPT), str(INDEX), str(path), json.dumps(steps)],
        cwd=path.parent,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def told(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    return [readable(each) for each in answer["messages"] if each["role"] != "system"]


async def branched(folder: Path) -> JsonlSession:
    """A session of ours with three branches, two labels and a leaf that was moved last."""
    session = await JsonlSession.create(folder, folder)
    a = await session.append(user_entry(session, "a"))
    b = await session.append(message_entry(session, assistant("b")))
    c = await session.append(user_entry(session, "c"))
    await session.append(message_entry(session, assistant("d")))
    await session.set_leaf_id(b.id)
    await session.append(BranchSummaryEntry(**place(session), from_id=c.id, summary="left c"))
    await session.append(LabelEntry(**place(session), target_id=c.id, label="first try"))
    await session.append(user_entry(session, "e"))
    await session.set_leaf_id(None)
    await session.append(user_entry(session, "other root"))
    await session.append(LabelEntry(**place(session), target_id=a.id, label="start"))
    await session.set_leaf_id(c.id)
    return session


async def same_tree(session: JsonlSession, answer: dict[str, Any]) -> None:
    page = await tree_page(session, limit=10_000)
    assert sorted((node.entry_id, node.label) for node in page.nodes) == sorted(
        (entry_id, label) for entry_id, label in answer["nodes"]
    )


async def test_pi_goes_on_where_we_moved_to_and_we_where_it_went_on(tmp_path: Path) -> None:
    session = await branched(tmp_path)
    target = session.leaf_id
    await session.aclose()
    seen = pi_does(session.path)
    assert told(seen) == plain(session)
    assert seen["branch"][:-1] == ids(session)  # the last one is our leaf entry
    await same_tree(session, seen)
    answer = pi_does(session.path, {"answer": "by pi"}, {"say": "more"})
    again = await JsonlSession.open(session.path)
    assert (again.leaf_id, ids(again)) == (answer["leaf"], answer["branch"])
    assert target in ids(again)
    assert plain(again) == told(answer)
    await same_tree(again, answer)
    await again.append(message_entry(again, assistant("by us")))
    await again.set_leaf_id(None)
    await again.append(user_entry(again, "a third root"))
    await again.aclose()
    last = pi_does(session.path)
    assert told(last) == plain(again) == [("user", "a third root")]
    await same_tree(again, last)


async def test_we_go_on_in_a_branch_that_pi_made(tmp_path: Path) -> None:
    session = await branched(tmp_path)
    first, second = ids(session)[0], ids(session)[1]
    await session.aclose()
    answer = pi_does(
        session.path,
        {"branch": first, "say": "by pi"},
        {"answer": "yes"},
        {"summary": [second, "left for good"]},
        {"label": [second, "here"]},
        {"label": [first, None]},
    )
    again = await JsonlSession.open(session.path)
    assert (again.leaf_id, ids(again)) == (answer["leaf"], answer["branch"])
    assert plain(again) == told(answer)
    assert again.labels[second].text == "here"
    assert first not in again.labels
    await same_tree(again, answer)
    await again.set_leaf_id(first)
    await again.append(user_entry(again, "by us"))
    await again.aclose()
    assert told(pi_does(session.path)) == plain(again)


async def test_forks_of_pi_and_ours_say_the_same(tmp_path: Path) -> None:
    session = await branched(tmp_path)
    target = session.leaf_id
    assert target is not None
    ours = (await JsonlSessionRepo(tmp_path / "agent").fork(session, target)).session
    await session.aclose()
    theirs = pi_does(session.path, {"fork": target})
    assert ours.path is not None
    await ours.aclose()
    seen = pi_does(ours.path)
    assert told(seen) == told(theirs)
    assert [label for _, label in seen["nodes"]] == [label for _, label in theirs["nodes"]]
    opened = await JsonlSession.open(Path(theirs["file"]), read_only=True)
    assert build_context(opened.branch()).messages == build_context(ours.branch()).messages
    assert opened.header.parent_session == str(session.path)
    await opened.aclose()
