"""Zones: where files really lie, with file systems as an attacker would arrange them."""

import os
import tempfile
import unicodedata
from pathlib import Path

import pytest

from pi_rpc.harness.permissions.paths import Zone, Zones


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def zones(root: Path) -> Zones:
    for folder in ("p/src", "p/.git", "q", "more", "skill", "agent/pi-rpc"):
        (root / folder).mkdir(parents=True)
    for file in ("p/src/a", "q/a", "skill/SKILL.md", "agent/auth.json", "agent/settings.json"):
        (root / file).write_text("x")
    return Zones(
        root / "p",
        agent_dir=root / "agent",
        additional=[root / "more"],
        readable=[root / "skill"],
    )


@pytest.mark.parametrize(
    ("path", "read", "edit"),
    [
        ("p", "inside", "inside"),
        ("p/src/a", "inside", "inside"),
        ("p/not/there", "inside", "inside"),
        ("p/../p/src/a", "inside", "inside"),
        ("more/x", "inside", "inside"),
        ("skill/SKILL.md", "inside", "outside"),
        ("skills/x", "outside", "outside"),
        ("q/a", "outside", "outside"),
        ("p/../q/a", "outside", "outside"),
        ("pp/a", "outside", "outside"),
        ("", "outside", "outside"),
        ("p/.git/config", "guarded", "guarded"),
        ("p/.git", "guarded", "guarded"),
        ("p/a/.GIT/x", "guarded", "guarded"),
        ("p/.pi/x", "guarded", "guarded"),
        ("p/.agents/x", "guarded", "guarded"),
        ("more/.git/x", "guarded", "guarded"),
        ("p/.gitignore", "inside", "inside"),
        ("p/.git.x", "inside", "inside"),
        ("agent/settings.json", "outside", "guarded"),
        ("agent/auth.json", "secret", "secret"),
        ("agent/Auth.JSON", "secret", "secret"),
        ("agent/models.json", "secret", "secret"),
        ("agent/pi-rpc", "secret", "secret"),
        ("agent/pi-rpc/x/y", "secret", "secret"),
        ("agent/pi-rpc-2", "outside", "guarded"),
    ],
)
def test_a_path_lies_where_its_name_says(
    zones: Zones, root: Path, path: str, read: Zone, edit: Zone
) -> None:
    assert zones.zone(root / path, "read") == read
    assert zones.zone(root / path, "edit") == edit


def test_links_are_followed_however_many(zones: Zones, root: Path) -> None:
    (root / "p/out").symlink_to(root / "q")
    (root / "p/out2").symlink_to("out")
    (root / "q/back").symlink_to(root / "p")
    (root / "p/auth").symlink_to("../agent/auth.json")
    (root / "p/git").symlink_to(".git")
    assert zones.zone(root / "p/out/a") == "outside"
    assert zones.zone(root / "p/out2/new") == "outside"
    assert zones.zone(root / "q/back/src/a") == "inside"
    assert zones.zone(root / "p/out2/back/git/hooks/x") == "guarded"
    assert zones.zone(root / "p/auth", "read") == "secret"


def test_a_link_that_is_swapped_is_seen_at_the_next_look(zones: Zones, root: Path) -> None:
    link = root / "p/link"
    link.symlink_to(root / "p/src/a")
    assert zones.zone(link) == "inside"
    link.unlink()
    link.symlink_to(root / "q/a")
    assert zones.zone(link) == "outside"
    link.unlink()
    link.symlink_to(root / "agent/auth.json")
    assert zones.zone(link) == "secret"


def test_another_name_of_a_secret_file_is_secret(zones: Zones, root: Path) -> None:
    os.link(root / "agent/auth.json", root / "p/src/innocent")
    assert zones.zone(root / "p/src/innocent", "read") == "secret"
    (root / "agent/auth.json").unlink()
    assert zones.zone(root / "p/src/innocent", "read") == "inside"


def test_a_project_reached_by_a_link_is_the_same_project(root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    zones = Zones(root / "link", agent_dir=root / "agent")
    assert zones.cwd == root / "real"
    assert zones.zone(root / "link/x") == zones.zone(root / "real/x") == "inside"


def test_an_agent_directory_in_the_project_is_guarded_and_its_secrets_stay_secret(
    root: Path,
) -> None:
    zones = Zones(root, agent_dir=root / "conf")
    assert zones.zone(root / "conf/settings.json") == "guarded"
    assert zones.zone(root / "CONF/auth.json", "read") == "secret"
    assert zones.zone(root / "conf/auth.json", "read") == "secret"


def test_another_spelling_is_inside_only_where_it_is_the_same_folder(root: Path) -> None:
    composed = unicodedata.normalize("NFC", "café")
    decomposed = unicodedata.normalize("NFD", "café")
    (root / composed).mkdir()
    zones = Zones(root / composed, agent_dir=root / "agent")
    (root / decomposed).mkdir(exist_ok=True)
    same = (root / composed).samefile(root / decomposed)
    assert zones.zone(root / decomposed / "x") == ("inside" if same else "outside")
    (root / composed.upper()).mkdir(exist_ok=True)
    same = (root / composed).samefile(root / composed.upper())
    assert zones.zone(root / composed.upper() / "x") == ("inside" if same else "outside")


@pytest.mark.parametrize(
    "name",
    [
        *(".GIT", ".Git", ".git.", ".git ", ".git. .", ".g\u200dit", ".git\ufeff", "git~1"),
        *("GIT~2", ".git:x", ".PI", ".Pi.", ".AGENTS"),
    ],
)
def test_names_that_some_system_takes_for_a_guarded_folder_are_guarded(
    zones: Zones, root: Path, name: str
) -> None:
    assert zones.zone(root / "p" / name / "x") == "guarded"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_proc_is_seen_through(zones: Zones, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getpid()
    for name in ("self/environ", "thread-self/environ", f"{pid}/task/{pid}/environ", "1/mem"):
        assert zones.zone(Path("/proc", name), "read") == "secret"
    assert zones.zone(Path(f"/proc/self/root{root}/agent/auth.json"), "read") == "secret"
    assert zones.zone(Path(f"/proc/{pid}/root{root}/q/a"), "read") == "outside"
    monkeypatch.chdir(root / "agent")
    assert zones.zone(Path("/proc/self/cwd/auth.json"), "read") == "secret"
    file = os.open(root / "agent/auth.json", os.O_RDONLY)
    try:
        assert zones.zone(Path(f"/proc/self/fd/{file}"), "read") == "secret"
    finally:
        os.close(file)


@pytest.mark.parametrize("opened", [".", ".."])
def test_hidden_files_of_a_home_that_is_inside_are_guarded_unless_the_project_is_among_them(
    zones: Zones, root: Path, monkeypatch: pytest.MonkeyPatch, opened: str
) -> None:
    home = root / "q"
    monkeypatch.setenv("HOME", str(home))
    around = Zones(home / opened, agent_dir=root / "agent")
    for name in (".bashrc", ".ssh/authorized_keys", ".config/git/config"):
        assert around.zone(home / name) == "guarded"
        assert around.zone(home / name, "read") == "inside"
    assert around.zone(home / "a" / ".env") == "inside"
    within = Zones(home / ".config" / "editor", agent_dir=root / "agent")
    assert within.zone(home / ".config" / "editor" / "init.lua") == "inside"


def test_kept_output_of_our_commands_is_read_freely_but_nothing_called_so(
    zones: Zones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept, link, other = (tmp_path / f"pi-bash-rpc-{name}" for name in ("1.log", "2.log", "3.sh"))
    for file in (kept, other):
        file.write_text("x")
    link.symlink_to("/etc/hostname")
    assert zones.zone(kept, "read") == "inside"
    assert zones.zone(kept, "edit") == "outside"
    assert zones.zone(link, "read") == "outside"
    assert zones.zone(other, "read") == "outside"
    assert zones.zone(tmp_path / "pi-bash-rpc-4.log", "read") == "outside"
    os.link(kept, tmp_path / "q" / "second name")
    assert zones.zone(kept, "read") == "outside"


def test_real_paths_are_absolute_and_know_the_home_directory(
    zones: Zones, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root / "q"))
    assert zones.real("~") == root / "q"
    assert zones.real("~/a") == root / "q/a"
    assert zones.real("src/../src/a") == root / "p/src/a"
    assert zones.real("a", root / "q") == root / "q/a"


def test_folders_above_secrets_hold_them(zones: Zones, root: Path) -> None:
    assert zones.holds_secrets(root / "agent")
    assert zones.holds_secrets(root)
    assert zones.holds_secrets(Path("/"))
    assert not zones.holds_secrets(root / "p")
    assert not zones.holds_secrets(root / "agent/auth.json")


def test_a_loop_of_links_and_a_name_too_long_are_no_secret(zones: Zones, root: Path) -> None:
    (root / "p/loop").symlink_to("loop")
    assert zones.zone(root / "p/loop/x") == "inside"
    assert zones.zone(root / "p" / ("x" * 5000)) == "inside"
