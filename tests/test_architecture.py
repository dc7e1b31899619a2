"""Rules of the code base that no linter knows: sizes, docstrings, names, self-containment."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pi_rpc"
MODULE_LINES = 500
FUNCTION_LINES = 60
BANNED_WORDS = re.compile(
    r"(Manager|Helper|Util|Data(?!Block)|(?<!Client)(?<!Server)(?<!Session)Info)(?=[A-Z]|$)"
)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def definitions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_small_and_says_what_it_owns(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) < MODULE_LINES, "split it by concern"
    assert ast.get_docstring(parsed(path)), "say what the module owns and what it does not"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short_and_names_are_from_the_glossary(path: Path) -> None:
    for node in definitions(path):
        where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        if not isinstance(node, ast.ClassDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES, f"{where} is too long"
            assert not node.name.startswith("process_"), where
            if not any(path.is_relative_to(PACKAGE / door) for door in ("acp", "server")):
                assert not node.name.startswith("handle_"), where
        else:
            assert not BANNED_WORDS.search(node.name), f"{where} says nothing"


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if not path.name.startswith("_")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_what_is_public_is_documented(path: Path) -> None:
    tree = parsed(path)
    public = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
    }
    undocumented = [name for name, node in public.items() if not ast.get_docstring(node)]
    assert undocumented == []


def test_no_text_file_mentions_a_machine_or_a_registry() -> None:
    # Spelled in pieces so that this file does not find itself.
    words = [
        "/" + "work/",
        "/" + "tmp/v/",
        "shared" + "/design",
        "shared" + "/reference",
        "file://" + "/opt",
    ]
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]
    assert found == []
