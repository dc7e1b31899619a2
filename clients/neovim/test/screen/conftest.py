"""A screen with the plugin, a project and a scripted model, for each test that asks for one."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from screen import Screen


class Stage:
    """Screens that show the plugin; ``open`` makes one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "engine"
        self.project.mkdir()
        self._screens: list[Screen] = []

    def write(self, path: str, text: str) -> Path:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def open(
        self,
        *replies: list[dict[str, Any]],
        width: int = 80,
        height: int = 24,
        background: str = "dark",
        **options: Any,
    ) -> Screen:
        """A Neovim in the project; each reply is a list of steps of the scripted model."""
        script = self.folder / "script.json"
        script.write_text(json.dumps({"replies": [{"steps": steps} for steps in replies]}))
        home = self.folder / "home"
        environment = {
            "PI_RPC_SCRIPT": str(script),
            "PI_CODING_AGENT_DIR": str(home / "agent"),
            "HOME": str(home),
        }
        screen = Screen(os.environ["NVIM_BIN"], width, height, background)
        self._screens.append(screen)
        screen.nvim.command(f"cd {self.project}")
        session = {"model": "scripted/scripted", "permissionMode": options.pop("mode", "full")}
        settings = {"command": [os.environ["PI_RPC"]], "env": environment, "session": session}
        screen.lua("require('pi').setup(...)", {**settings, **options})
        return screen

    def close(self) -> None:
        for screen in self._screens:
            screen.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()
