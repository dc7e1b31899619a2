"""The wheel, installed where nothing else is: what a person gets from the registry."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RETRY = ["sh", str(ROOT / "scripts" / "retry.sh")]
DATA_FILES = {
    "pi_rpc/py.typed",
    "pi_rpc/llm/catalogue.json",
    "pi_rpc/llm/local-requirements.txt",
    "pi_rpc/llm/smollm2_tool.jinja",
}

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(300)]


def run(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--outdir", str(folder), str(ROOT)),
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that has the wheel and what it depends on, no extras."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    binaries = folder / "bin"
    run(*RETRY, str(binaries / "python"), "-m", "pip", "install", "--quiet", str(wheel))
    return binaries


def test_the_wheel_holds_the_package_its_data_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= DATA_FILES
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pi_rpc").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    packaged = {name for name in names if name.endswith(".py")}
    assert packaged == sources
    assert not [name for name in names if not name.startswith(("pi_rpc/", "pi_rpc-"))]


def test_the_installed_daemon_answers_initialize_and_a_prompt(
    installed: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    steps = [{"toolCall": {"name": "read", "arguments": {"path": "script.json"}}}]
    script.write_text(json.dumps({"replies": [{"steps": steps}, {"steps": [{"text": "hello"}]}]}))
    frames = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "prompt", "params": {"message": "hi"}},
    ]
    output = run(
        *(str(installed / "pi-rpc"), "--stdio", "--drain"),
        input="".join(json.dumps(frame) + "\n" for frame in frames),
        cwd=tmp_path,
        env={
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(tmp_path),
            "PI_RPC_SCRIPT": str(script),
        },
    )
    answers = {
        frame["id"]: frame for frame in map(json.loads, output.splitlines()) if "id" in frame
    }
    version = run(str(installed / "pi-rpc"), "--version").split()[1]
    assert answers[0]["result"]["serverInfo"] == {"name": "pi-rpc", "version": version}
    assert answers[1]["result"]["text"] == "hello"


def test_the_installed_package_brings_nothing_that_only_developers_need(installed: Path) -> None:
    listing = run(str(installed / "python"), "-m", "pip", "list", "--format", "json")
    names = {each["name"].lower() for each in json.loads(listing)}
    assert names.isdisjoint({"pytest", "pygls", "lsprotocol", "mypy", "ruff", "hypothesis"})
