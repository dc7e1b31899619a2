"""Answers that were to hold always: kept, found, forgotten, and never at the cost of others."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.harness.permissions.remembered import RememberedAnswers, RewriteError
from pi_rpc.harness.permissions.rules import Rule, parse_rule
from tests.deadlines import DEADLINE_S

STATUS = parse_rule("bash(git status *)", "allow")
SRC = parse_rule("edit(src/**)", "deny")


def written(answers: RememberedAnswers) -> Any:
    return json.loads(answers.path.read_text())


def rules(answers: RememberedAnswers, project: Path) -> list[Rule]:
    return [each.rule for each in answers.of(project)]


def test_an_answer_holds_in_its_project_alone_for_everybody_who_looks(tmp_path: Path) -> None:
    answers = RememberedAnswers(tmp_path / "agent")
    one, other = tmp_path / "one", tmp_path / "other"
    assert rules(answers, one) == []
    answers.add(one, STATUS)
    answers.add(one, SRC)
    for reader in (answers, RememberedAnswers(tmp_path / "agent")):
        assert rules(reader, one) == [STATUS, SRC]
        assert rules(reader, other) == []
        assert reader.problems() == []


def test_a_project_is_known_by_its_real_path(tmp_path: Path) -> None:
    answers = RememberedAnswers(tmp_path / "agent")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    answers.add(tmp_path / "link", STATUS)
    assert rules(answers, tmp_path / "x" / ".." / "real") == [STATUS]
    assert list(written(answers)) == [str(tmp_path / "real")]


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    answers = RememberedAnswers(tmp_path / "agent")
    answers.add(tmp_path, STATUS)
    assert stat.S_IMODE(answers.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(answers.path.parent.stat().st_mode) == 0o700


def test_the_same_answer_is_kept_once(tmp_path: Path) -> None:
    answers = RememberedAnswers(tmp_path)
    first, second = answers.add(tmp_path, STATUS), answers.add(tmp_path, STATUS)
    assert first == second
    assert answers.of(tmp_path) == [first]


def test_what_is_forgotten_is_gone_and_the_rest_stays(tmp_path: Path) -> None:
    answers = RememberedAnswers(tmp_path)
    kept, gone = answers.add(tmp_path, STATUS), answers.add(tmp_path, SRC)
    assert answers.forget(gone.id)
    assert not answers.forget(gone.id)
    assert answers.of(tmp_path) == [kept]
    assert answers.forget(kept.id)
    assert written(answers) == {}


def test_nothing_is_made_by_forgetting_where_nothing_is(tmp_path: Path) -> None:
    assert not RememberedAnswers(tmp_path / "agent").forget("rule_1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", '{"a": 1'])
def test_a_broken_file_is_told_about_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    answers = RememberedAnswers(tmp_path)
    answers.path.parent.mkdir()
    answers.path.write_text(text)
    assert rules(answers, tmp_path) == []
    (problem,) = answers.problems()
    assert str(answers.path) in problem
    with pytest.raises(RewriteError):
        answers.add(tmp_path, STATUS)
    with pytest.raises(RewriteError):
        answers.forget("rule_1")
    assert answers.path.read_text() == text


@pytest.mark.parametrize(
    "entry",
    [
        1,
        None,
        {},
        {"id": "a", "effect": "allow"},
        {"id": 1, "effect": "allow", "rule": "bash"},
        {"id": "a", "effect": "ask", "rule": "bash"},
        {"id": "a", "effect": "allow", "rule": "bash("},
        {"id": "a", "effect": "allow", "rule": "*(x)"},
    ],
)
def test_an_entry_that_is_none_is_told_about_and_stays_beside_those_that_are(
    tmp_path: Path, entry: Any
) -> None:
    answers = RememberedAnswers(tmp_path)
    answers.path.parent.mkdir()
    good = {"id": "b", "effect": "allow", "rule": "bash(git status *)", "later": True}
    content = {str(tmp_path): [entry, good], "elsewhere": "?"}
    answers.path.write_text(json.dumps(content))
    assert rules(answers, tmp_path) == [STATUS]
    assert len(answers.problems()) == 2
    added = answers.add(tmp_path, SRC)
    assert written(answers) == {
        "elsewhere": "?",
        str(tmp_path): [entry, good, {"id": added.id, "effect": "deny", "rule": SRC.text}],
    }
    assert answers.forget(added.id)
    assert written(answers) == content


ADDS = """
import sys
from pathlib import Path
from pi_rpc.harness.permissions.remembered import RememberedAnswers
from pi_rpc.harness.permissions.rules import parse_rule

answers = RememberedAnswers(Path(sys.argv[1]))
for number in range(15):
    answers.add(Path(sys.argv[1]), parse_rule(f"bash({sys.argv[2]} {number})", "allow"))
"""


def test_two_processes_that_remember_at_once_lose_nothing(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", ADDS, str(tmp_path), name], env=os.environ)
        for name in ("one", "two")
    ]
    assert [process.wait(DEADLINE_S) for process in processes] == [0, 0]
    answers = RememberedAnswers(tmp_path)
    wanted = {f"bash({name} {number})" for name in ("one", "two") for number in range(15)}
    assert {each.text for each in rules(answers, tmp_path)} == wanted
    assert len({each.id for each in answers.of(tmp_path)}) == 30
