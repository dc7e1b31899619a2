"""The front matter we read, as people write it.

Apart from ``skills`` and ``prompt_templates`` because it imports pydantic, which is only worth its
time where a file has front matter."""

from pydantic import BaseModel, ConfigDict

__all__ = ["SkillKeys", "TemplateKeys"]


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class _Keys(BaseModel):
    model_config = ConfigDict(alias_generator=_dashed, extra="ignore", strict=True, frozen=True)


class SkillKeys(_Keys):
    """Of ``SKILL.md``; the other keys of agentskills.io say nothing to us."""

    name: str | None = None
    description: str | None = None
    disable_model_invocation: bool = False


class TemplateKeys(_Keys):
    """Of a prompt template."""

    description: str | None = None
    argument_hint: str | None = None
