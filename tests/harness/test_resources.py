"""Resources: where things are looked for, who wins, what needs trust, what commands stand for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from pi_rpc.harness.resources import (
    Command,
    Expansion,
    ResourceError,
    Resources,
    load_resources,
)
from pi_rpc.harness.settings import ResourcePaths, Settings


class Tree:
    """A home with an agent directory, and a project in a repository below it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.agent = home / ".pi" / "agent"
        self.root = home / "code" / "app"
        self.cwd = self.root / "pkg"
        self.project = self.cwd / ".pi"
        self.agent.mkdir(parents=True)
        self.project.mkdir(parents=True)
        (self.root / ".git").mkdir()

    def load(self, settings: Settings | None = None, *, trusted: bool = True) -> Resources:
        return load_resources(self.cwd, self.agent, settings or Settings(), trusted, home=self.home)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def _skill(folder: Path, name: str, description: str = "d") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\nBody.")
    return path


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_where_nothing_exists_nothing_is_found_and_nothing_is_wrong(tree: Tree) -> None:
    assert tree.load() == Resources()


def test_where_nothing_exists_nothing_heavy_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from pi_rpc.harness.resources import load_resources; "
        "from pi_rpc.harness.settings import Settings; "
        "from pi_rpc.harness.trust import TrustStore, needed; "
        f"folder = Path({str(tmp_path)!r}); "
        "assert TrustStore(folder).trusted(folder) is None and needed(folder) == []; "
        "load_resources(folder, folder, Settings(), True, home=folder); "
        "sys.exit(bool({'pydantic', 'yaml', 'httpx', 'subprocess'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_skills_are_found_in_every_place_and_the_project_s_win(tree: Tree) -> None:
    named = tree.home / "named"
    folders = [
        tree.project / "more",
        tree.project / "skills",
        tree.cwd / ".agents" / "skills",
        tree.root / ".agents" / "skills",
        named,
        tree.agent / "skills",
        tree.home / ".agents" / "skills",
    ]
    for at, folder in enumerate(folders):
        _skill(folder, f"only-{at}")
        for other in range(at + 1):
            _skill(folder, f"from-{other}", f"by {at}")
    _skill(tree.home / "code" / ".agents" / "skills", "above-the-repository")
    settings = Settings(
        skills=ResourcePaths(entries=(str(named),), base=tree.agent),
        project_skills=ResourcePaths(entries=("more",), base=tree.project),
    )
    found = tree.load(settings)
    names = {skill.name: skill for skill in found.skills}
    assert len(names) == 14
    for at, folder in enumerate(folders):
        assert names[f"from-{at}"].description == f"by {at}"
        assert names[f"only-{at}"].path.is_relative_to(folder)
        assert names[f"only-{at}"].scope == ("project" if at < 4 else "user")
    assert len(found.diagnostics) == sum(range(7))
    assert all("is already in" in each for each in found.diagnostics)


def test_loose_files_are_skills_in_pi_s_folders_and_not_in_those_of_every_agent(
    tree: Tree,
) -> None:
    text = "---\ndescription: d\n---\n"
    _write(tree.agent / "skills" / "mine.md", text)
    _write(tree.project / "skills" / "ours.md", text)
    _write(tree.home / ".agents" / "skills" / "shared.md", text)
    _write(tree.root / ".agents" / "skills" / "team.md", text)
    assert [skill.name for skill in tree.load().skills] == ["ours", "mine"]


def test_templates_are_found_in_every_place_and_the_project_s_win(tree: Tree) -> None:
    for at, folder in enumerate(
        (
            tree.project / "more",
            tree.project / "prompts",
            tree.home / "named",
            tree.agent / "prompts",
        )
    ):
        for other in range(at + 1):
            _write(folder / f"from-{other}.md", f"by {at}")
    settings = Settings(
        prompts=ResourcePaths(entries=("../../named",), base=tree.agent),
        project_prompts=ResourcePaths(entries=("./more/",), base=tree.project),
    )
    templates = {each.name: each for each in tree.load(settings).prompt_templates}
    assert [templates[f"from-{at}"].body for at in range(4)] == [f"by {at}" for at in range(4)]
    assert [templates[f"from-{at}"].scope for at in range(4)] == ["project"] * 2 + ["user"] * 2


def test_a_home_and_an_absolute_path_may_be_named(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tree.home))
    _write(tree.home / "p" / "a.md", "a")
    path = _write(tree.home / "q" / "b.md", "b")
    settings = Settings(prompts=ResourcePaths(entries=("~/p", str(path)), base=tree.agent))
    assert [each.name for each in tree.load(settings).prompt_templates] == ["a", "b"]


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        (("!draft-*",), ["final"]),
        (("!skills/draft-*",), ["final"]),
        (("!**/draft-one/SKILL.md",), ["draft-two", "final"]),
        (("!draft-*", "+skills/draft-one"), ["draft-one", "final"]),
        (("!draft-*", "+skills/draft-one/SKILL.md"), ["draft-one", "final"]),
        (("+skills/draft-one", "-skills/draft-one"), ["draft-two", "final"]),
        (("-draft-one",), ["draft-one", "draft-two", "final"]),
        (("![z-a]", "!"), ["draft-one", "draft-two", "final"]),
    ],
)
def test_settings_leave_out_what_would_be_found(
    tree: Tree, entries: tuple[str, ...], kept: list[str]
) -> None:
    for name in ("draft-one", "draft-two", "final"):
        _skill(tree.agent / "skills", name)
    settings = Settings(skills=ResourcePaths(entries=entries, base=tree.agent))
    found = tree.load(settings)
    assert [skill.name for skill in found.skills] == kept
    assert found.diagnostics == ()


def test_what_one_scope_leaves_out_the_other_may_have(tree: Tree) -> None:
    _skill(tree.agent / "skills", "x")
    _skill(tree.project / "skills", "x")
    settings = Settings(project_skills=ResourcePaths(entries=("!x",), base=tree.project))
    (skill,) = tree.load(settings).skills
    assert skill.scope == "user"


def test_a_path_in_settings_that_leads_nowhere_is_named(tree: Tree) -> None:
    paths = ResourcePaths(entries=("gone", "~nobody-here/x"), base=tree.agent)
    found = tree.load(Settings(skills=paths, prompts=paths))
    assert [each.split(": ")[0] for each in found.diagnostics] == [
        str(tree.agent / "gone"),
        str(tree.agent / "~nobody-here/x"),
    ] * 2


def test_prompt_files_are_the_project_s_or_else_the_person_s(tree: Tree) -> None:
    for name in ("SYSTEM.md", "APPEND_SYSTEM.md"):
        _write(tree.agent / name, f"my {name}\n")
    found = tree.load()
    assert found.system_prompt == "my SYSTEM.md"
    assert found.append_system_prompt == "my APPEND_SYSTEM.md"
    for name in ("SYSTEM.md", "APPEND_SYSTEM.md"):
        _write(tree.project / name, f"our {name}\n")
    found = tree.load()
    assert found.system_prompt == "our SYSTEM.md"
    assert found.append_system_prompt == "our APPEND_SYSTEM.md"


def test_an_empty_prompt_file_means_none(tree: Tree) -> None:
    _write(tree.project / "SYSTEM.md", " \n")
    _write(tree.project / "APPEND_SYSTEM.md", "")
    _write(tree.agent / "SYSTEM.md", "mine")
    found = tree.load()
    assert (found.system_prompt, found.append_system_prompt) == (None, "")


def test_a_prompt_file_that_cannot_be_read_is_named_and_the_next_one_taken(tree: Tree) -> None:
    (tree.project / "SYSTEM.md").mkdir()
    _write(tree.project / "APPEND_SYSTEM.md", "x" * (1024 * 1024 + 1))
    _write(tree.agent / "SYSTEM.md", "mine")
    found = tree.load()
    assert found.system_prompt == "mine"
    assert found.append_system_prompt == ""
    assert [each.split(": ")[0] for each in found.diagnostics] == [
        str(tree.project / "SYSTEM.md"),
        str(tree.project / "APPEND_SYSTEM.md"),
    ]


def test_an_untrusted_project_gives_its_context_files_and_nothing_else(tree: Tree) -> None:
    _write(tree.cwd / "AGENTS.md", "context")
    _write(tree.project / "SYSTEM.md", "system")
    _write(tree.project / "APPEND_SYSTEM.md", "append")
    _write(tree.project / "prompts" / "p.md", "prompt")
    _write(tree.project / "more" / "q.md", "---\ndescription: d\n---\n")
    _skill(tree.project / "skills", "one")
    _skill(tree.cwd / ".agents" / "skills", "two")
    _skill(tree.root / ".agents" / "skills", "three")
    more = ResourcePaths(entries=("more",), base=tree.project)
    settings = Settings(project_skills=more, project_prompts=more)
    found = tree.load(settings, trusted=False)
    assert [file.text for file in found.context_files] == ["context"]
    assert replace(found, context_files=()) == Resources()
    trusted = tree.load(settings)
    assert {skill.name for skill in trusted.skills} == {"one", "two", "three", "q"}
    assert {each.name for each in trusted.prompt_templates} == {"p", "q"}
    assert (trusted.system_prompt, trusted.append_system_prompt) == ("system", "append")


def test_a_person_s_own_resources_need_no_trust(tree: Tree) -> None:
    _write(tree.agent / "SYSTEM.md", "system")
    _write(tree.agent / "prompts" / "p.md", "prompt")
    _skill(tree.agent / "skills", "s")
    _skill(tree.home / ".agents" / "skills", "t")
    assert tree.load(trusted=False) == tree.load(trusted=True)
    assert [skill.name for skill in tree.load(trusted=False).skills] == ["s", "t"]


@pytest.fixture
def loaded(tree: Tree) -> Resources:
    _write(tree.agent / "prompts" / "fix.md", "---\nargument-hint: <what>\n---\nFix ${1:-it}: $@")
    _skill(tree.agent / "skills", "pdf", "Reads.")
    return tree.load()


def test_commands_are_templates_and_skills(loaded: Resources, tree: Tree) -> None:
    template = Command(
        name="fix",
        description="Fix ${1:-it}: $@",
        argument_hint="<what>",
        source="prompt",
        path=tree.agent / "prompts" / "fix.md",
    )
    skill = Command(
        name="skill:pdf",
        description="Reads.",
        source="skill",
        path=tree.agent / "skills" / "pdf" / "SKILL.md",
    )
    assert loaded.commands() == [template, skill]
    hidden = tree.load(Settings(enable_skill_commands=False))
    assert hidden.commands() == [template]
    assert hidden.expand("/skill:pdf") == loaded.expand("/skill:pdf") is not None


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("/fix", "Fix it: "),
        ("/fix a 'b c'", "Fix a: a b c"),
        ("/fix\n a\nb", "Fix a: a b"),
        ("/fix /skill:pdf", "Fix /skill:pdf: /skill:pdf"),
    ],
)
def test_a_template_is_expanded(loaded: Resources, text: str, result: str) -> None:
    assert loaded.expand(text) == Expansion(text=result, name="fix", source="prompt")


@pytest.mark.parametrize(
    "text",
    ["fix", " /fix", "/fixed", "/", "", "/ fix", "/skill:none x", "/skill:", "/pdf", "say /fix"],
)
def test_anything_else_is_a_prompt_like_any_other(loaded: Resources, text: str) -> None:
    assert loaded.expand(text) is None


def test_a_skill_is_expanded_with_its_arguments(loaded: Resources) -> None:
    found = loaded.expand("/skill:pdf read\n$1 ")
    assert found is not None
    assert (found.name, found.source) == ("skill:pdf", "skill")
    assert found.text.startswith('<skill name="pdf" location="')
    assert found.text.endswith("\n\nBody.\n</skill>\n\nread\n$1")


def test_a_skill_that_is_gone_is_an_error_that_names_its_file(
    loaded: Resources, tree: Tree
) -> None:
    path = tree.agent / "skills" / "pdf" / "SKILL.md"
    path.unlink()
    with pytest.raises(ResourceError, match=r"SKILL\.md: cannot be read: No such file"):
        loaded.expand("/skill:pdf")
    _write(path, "x" * (1024 * 1024 + 1))
    with pytest.raises(ResourceError, match=r"SKILL\.md: larger than 1024 KiB"):
        loaded.expand("/skill:pdf")


def test_the_examples_of_the_documentation_are_good_ones(tree: Tree) -> None:
    page = Path(__file__).parents[2] / "docs" / "resources.md"
    skill, template = re.findall(r"```markdown\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    _write(tree.agent / "skills" / "pdf-tools" / "SKILL.md", skill)
    _write(tree.agent / "prompts" / "review.md", template)
    found = tree.load()
    assert found.diagnostics == ()
    assert [command.name for command in found.commands()] == ["review", "skill:pdf-tools"]
    expansion = found.expand("/review 'error handling' the tests")
    assert expansion is not None
    assert expansion.text.endswith("Look at error handling. Leave alone: the tests")
