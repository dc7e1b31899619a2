"""Project trust: whose decision counts, how it is kept, and what it is about."""

import json
import multiprocessing
from pathlib import Path

import pytest

from pi_rpc.harness.trust import GATED, RewriteError, TrustStore, needed
from tests.deadlines import DEADLINE_S


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return tmp_path / "agent"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "app"
    folder.mkdir(parents=True)
    return folder


def _kept(agent: Path) -> object:
    return json.loads((agent / "trust.json").read_text())


def test_without_a_file_nobody_has_decided_and_none_is_made(agent: Path, project: Path) -> None:
    store = TrustStore(agent)
    assert store.trusted(project) is None
    assert store.problems() == []
    store.set(project, None)
    assert not agent.exists()


@pytest.mark.parametrize("decision", [True, False])
def test_a_decision_is_kept_by_canonical_path(
    agent: Path, project: Path, tmp_path: Path, decision: bool
) -> None:
    (tmp_path / "link").symlink_to(project)
    TrustStore(agent).set(tmp_path / "link", decision)
    assert TrustStore(agent).trusted(project) is decision
    assert TrustStore(agent).trusted(tmp_path / "link") is decision
    assert _kept(agent) == {str(project.resolve()): decision}


def test_the_closest_folder_with_a_decision_counts(agent: Path, project: Path) -> None:
    store = TrustStore(agent)
    store.set(project.parent, True)
    assert store.trusted(project) is True
    assert store.trusted(project.parent.parent) is None
    store.set(project, False)
    assert store.trusted(project) is False
    assert store.trusted(project / "deeper" / "still") is False
    assert store.trusted(project.parent / "other") is True
    store.set(project, None)
    assert store.trusted(project) is True


def test_a_folder_whose_name_only_begins_alike_is_another(agent: Path, project: Path) -> None:
    store = TrustStore(agent)
    store.set(project, True)
    assert store.trusted(project.with_name("app-two")) is None


def test_null_is_no_decision(agent: Path, project: Path) -> None:
    agent.mkdir()
    written = {str(project): None, str(project.parent): True}
    (agent / "trust.json").write_text(json.dumps(written))
    assert TrustStore(agent).trusted(project) is True
    assert TrustStore(agent).problems() == []


@pytest.mark.parametrize("odd", ["true", 1, [], {}])
def test_a_decision_of_another_kind_trusts_nobody_and_is_named(
    agent: Path, project: Path, odd: object
) -> None:
    agent.mkdir()
    (agent / "trust.json").write_text(json.dumps({str(project): odd, str(project.parent): True}))
    store = TrustStore(agent)
    assert store.trusted(project) is False
    (problem,) = store.problems()
    assert problem.startswith(f"{store.path}: {project}: ")


@pytest.mark.parametrize("text", ["{", "[]", '"x"', ""])
def test_a_broken_file_trusts_nobody_is_named_and_is_left_as_it_is(
    agent: Path, project: Path, text: str
) -> None:
    agent.mkdir()
    store = TrustStore(agent)
    store.path.write_text(text)
    assert store.trusted(project) is False
    assert store.decide(project, "always") is False
    assert len(store.problems()) == 1
    with pytest.raises(RewriteError, match=r"trust\.json"):
        store.set(project, True)
    assert store.path.read_text() == text
    assert [each.name for each in agent.iterdir()] == ["trust.json"]


def test_other_entries_stay_when_one_changes(agent: Path, project: Path) -> None:
    agent.mkdir()
    (agent / "trust.json").write_text('{"/z": true, "/a": false, "/odd": "later", "/n": null}')
    TrustStore(agent).set(project, True)
    assert _kept(agent) == {
        "/z": True,
        "/a": False,
        "/odd": "later",
        "/n": None,
        str(project.resolve()): True,
    }
    assert [each.name for each in agent.iterdir()] == ["trust.json"]


@pytest.mark.parametrize(
    ("default", "undecided"), [("ask", False), ("never", False), ("always", True)]
)
def test_the_default_counts_only_where_nobody_has_decided(
    agent: Path, project: Path, default: str, undecided: bool
) -> None:
    store = TrustStore(agent)
    assert store.decide(project, default) is undecided  # type: ignore[arg-type]
    for decision in (True, False):
        store.set(project, decision)
        assert store.decide(project, default) is decision  # type: ignore[arg-type]


def _set_many(agent: Path, project: Path, first: int) -> None:
    for at in range(first, first + 10):
        TrustStore(agent).set(project / str(at), True)


def test_decisions_of_several_processes_at_once_are_all_kept(agent: Path, project: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_set_many, args=(agent, project, first)) for first in (0, 10, 20)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE_S)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    kept = _kept(agent)
    assert isinstance(kept, dict)
    assert len(kept) == 30


def test_nothing_needs_trust_in_an_ordinary_project(project: Path, tmp_path: Path) -> None:
    (project / "AGENTS.md").write_text("x")
    (project / ".pi").mkdir()
    assert needed(project, home=tmp_path) == []


@pytest.mark.parametrize("name", GATED)
def test_what_a_project_has_that_needs_trust_is_listed(
    project: Path, tmp_path: Path, name: str
) -> None:
    (project / ".pi" / name).mkdir(parents=True)
    assert needed(project, home=tmp_path) == [str(project / ".pi" / name)]


def test_skills_for_every_agent_need_trust_up_to_the_repository_s_root(
    project: Path, tmp_path: Path
) -> None:
    (project / "sub").mkdir()
    for folder in (project / "sub", project, tmp_path):
        (folder / ".agents" / "skills").mkdir(parents=True)
    inner, outer = (folder / ".agents" / "skills" for folder in (project / "sub", project))
    assert needed(project / "sub", home=Path("/nowhere")) == [str(inner)]
    (project / ".git").mkdir()
    assert needed(project / "sub", home=Path("/nowhere")) == [str(inner), str(outer)]


def test_a_person_s_own_skills_need_no_trust(tmp_path: Path) -> None:
    (tmp_path / ".agents" / "skills").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "app").mkdir()
    assert needed(tmp_path, home=tmp_path) == []
    assert needed(tmp_path / "app", home=tmp_path) == []
