"""What a daemon gets ready in the background, so that the first prompt need not wait for it."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pi_rpc._os.imports import one_at_a_time
from pi_rpc.harness.settings import load_settings
from tests.deadlines import DEADLINE_S

PROGRAM = """
import sys
from pathlib import Path
import anyio
from pi_rpc.host.services import Services
from pi_rpc.llm import http

async def main():
    services = Services(Path(sys.argv[1]))
    await services.warm_up(sys.argv[2] or None)
    wanted = ("pydantic", "httpcore", "jsonschema", "pi_rpc.llm.providers.openai_completions")
    print(*[name for name in wanted if name in sys.modules])
    print(*[scheme for scheme, _ in http._clients.get().by_kind])
    await http.aclose_clients()

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("model", "client"),
    [("near/small", "http"), ("far/large", "https"), ("", "http"), ("no/such-model", "https")],
)
def test_all_that_the_usual_model_takes_is_there_before_it_is_asked(
    tmp_path: Path, model: str, client: str
) -> None:
    def provider(address: str, name: str) -> dict[str, object]:
        models = [{"id": name, "name": name}]
        return {"baseUrl": address, "api": "openai-completions", "apiKey": "k", "models": models}

    providers = {
        "near": provider("http://127.0.0.1:1/v1", "small"),
        "far": provider("https://models.example/v1", "large"),
    }
    (tmp_path / "models.json").write_text(json.dumps({"providers": providers}))
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path), model]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    loaded, clients = done.stdout.splitlines()
    expected = {"pydantic", "httpcore", "jsonschema"}
    if model != "no/such-model":
        expected.add("pi_rpc.llm.providers.openai_completions")
    assert set(loaded.split()) == expected
    assert clients == client


WATCHING = """
import sys, threading
from pathlib import Path
import anyio
from pi_rpc.host.services import Services

loaded = {}

def watch(event, arguments):
    if event == "import":
        loaded.setdefault(arguments[0], threading.current_thread().name)

async def main():
    sys.addaudithook(watch)
    await Services(Path(sys.argv[1])).warm_up()
    print(loaded.get("importlib.metadata"), loaded.get("importlib.resources"))

anyio.run(main)
"""


def test_modules_that_import_each_other_are_loaded_before_a_second_thread_imports(
    tmp_path: Path,
) -> None:
    argv = [sys.executable, "-c", WATCHING, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert done.stdout.split() == ["MainThread", "MainThread"]


def test_two_threads_never_load_the_library_of_settings_at_once(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    with one_at_a_time:
        other = threading.Thread(target=load_settings, args=(tmp_path,), daemon=True)
        other.start()
        other.join(0.2)
        assert other.is_alive()
    other.join(DEADLINE_S)
    assert not other.is_alive()
