"""Writes ``pi_rpc/llm/catalogue.json`` from the data files of a pinned package.

The facts (ids, limits, prices, how servers differ) are those of the MIT-licensed data files of
``PACKAGE``; the choice of providers, their names and their default models are ours. Prices change:
raise the version, run ``make catalogue``, read the difference.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "@earendil-works/pi-ai@1.6.0"
TARGET = Path(__file__).parent.parent / "pi_rpc" / "llm" / "catalogue.json"

APIS = (
    "anthropic-messages",
    "openai-responses",
    "openai-completions",
    "google-generative-ai",
    "mistral-conversations",
    "azure-openai-responses",
    "bedrock-converse-stream",
)
PROVIDERS = {
    "anthropic": ("Anthropic", "claude-opus-5-5"),
    "openai": ("OpenAI", "gpt-6.2-sol"),
    "google": ("Google Gemini", "gemini-4-argon"),
    "mistral": ("Mistral", "devstral-medium-latest"),
    "xai": ("xAI", "grok-4.7"),
    "deepseek": ("DeepSeek", "deepseek-v4-pro"),
    "moonshotai": ("Moonshot AI", "kimi-k2.7-code"),
    "moonshotai-cn": ("Moonshot AI (China)", "kimi-k2.7-code"),
    "kimi-coding": ("Kimi for Coding", "kimi-for-coding"),
    "zai": ("Z.ai", "glm-5.3"),
    "zai-coding-cn": ("Z.ai coding plan (China)", "glm-5.3"),
    "qwen-token-plan": ("Qwen token plan", "qwen3.8-max"),
    "qwen-token-plan-cn": ("Qwen token plan (China)", "qwen3.8-max"),
    "qwen-token-plan-individual": ("Qwen token plan for one person", "qwen3.8-max"),
    "qwen-token-plan-individual-cn": ("Qwen token plan for one person (China)", "qwen3.8-max"),
    "minimax": ("MiniMax", "MiniMax-M3"),
    "minimax-cn": ("MiniMax (China)", "MiniMax-M3"),
    "meta": ("Meta", "muse-spark-1.3"),
    "xiaomi": ("Xiaomi MiMo", "mimo-v2.6-pro"),
    "xiaomi-token-plan-ams": ("Xiaomi token plan (Amsterdam)", "mimo-v2.6-pro"),
    "xiaomi-token-plan-cn": ("Xiaomi token plan (China)", "mimo-v2.6-pro"),
    "xiaomi-token-plan-sgp": ("Xiaomi token plan (Singapore)", "mimo-v2.6-pro"),
    "ant-ling": ("Ant Ling", "Ring-2.6-1T"),
    "azure": ("Azure OpenAI", "gpt-6.2-sol"),
    "amazon-bedrock": ("Amazon Bedrock", "us.anthropic.claude-opus-5-5"),
    "groq": ("Groq", "openai/gpt-oss-120b"),
    "cerebras": ("Cerebras", "gpt-oss-120b"),
    "together": ("Together AI", "moonshotai/Kimi-K3"),
    "fireworks": ("Fireworks AI", "accounts/fireworks/models/kimi-k3"),
    "baseten": ("Baseten", "zai-org/GLM-5.3"),
    "huggingface": ("Hugging Face", "moonshotai/Kimi-K2.7-Code"),
    "nvidia": ("NVIDIA", "nvidia/nemotron-3.5-super-vl-120b-a12b"),
    "openrouter": ("OpenRouter", "moonshotai/kimi-k2.7-code"),
    "vercel-ai-gateway": ("Vercel AI Gateway", "zai/glm-5.3"),
    "opencode": ("OpenCode Zen", "kimi-k2.7-code"),
    "opencode-go": ("OpenCode Go", "kimi-k3.1-pro"),
}
"""Id: a name for people, and the model that is meant when none is named. The order is that in which
a provider with a credential becomes the default."""

FIELDS = (
    "id", "name", "reasoning", "input", "contextWindow", "maxTokens", "cost", "thinkingLevelMap",
    "compat",
)  # fmt: skip
COMPAT_OF_NO_USE = {
    "anthropic-messages": {
        "supportsMidConvoEffort", "supportsMidConvoSystemMessages", "supportsMidConvoToolChanges",
        "allowedFallbackModels", "supportsStrictTools",
    },
    "openai-completions": {
        "supportsMidConvoSystemMessages", "supportsMidConvoToolAdditions",
        "supportsOpenAIGrammarTools",
    },
    "openai-responses": {
        "supportsAdditionalTools", "supportsMidConvoEffort", "supportsMidConvoSystemMessages",
        "supportsOpenAIGrammarTools", "supportsToolSearch", "supportsReasoningEffort",
    },
    "azure-openai-responses": {
        "supportsAdditionalTools", "supportsMidConvoEffort", "supportsMidConvoSystemMessages",
        "supportsOpenAIGrammarTools", "supportsToolSearch",
    },
    "bedrock-converse-stream": {"supportsStrictMode"},
}  # fmt: skip
"""Flags of features that we have no request for, by dialect: tools, instructions and levels that
change within a conversation, other models in the place of one that declines, grammars and schemas
that bind what a tool is given. Every other flag must be one that the dialect reads."""
LEFT_OUT = {
    # Agents of the Interactions API; generateContent does not know them.
    "deep-research-max-preview-04-2026",
    "deep-research-preview-04-2026",
    # It refuses requests without the computer use tool.
    "gemini-2.5-computer-use-preview-10-2025",
}
"""Models that cannot be asked in the dialect that the package gives for them."""


def main() -> int:
    """Write the file, or with ``--check`` compare it; 1 when it differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path, help="the package, unpacked; fetched without")
    parser.add_argument("--check", action="store_true", help="write nothing, say whether it is so")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        package = arguments.package or fetched(Path(folder))
        text = written(providers(package / "dist" / "providers" / "data"))
    if not arguments.check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{TARGET.name} is not what {PACKAGE} says; run make catalogue\n")
    return 1


def fetched(folder: Path) -> Path:
    """The package, from the registry that npm is configured for."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"


def providers(folder: Path) -> dict[str, Any]:
    """What the file says, from the package's data files."""
    return {
        provider: {
            "name": name,
            "default": default,
            "services": services(json.loads((folder / f"{provider}.json").read_bytes())),
        }
        for provider, (name, default) in PROVIDERS.items()
    }


def services(by_api: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A provider's models by dialect and address."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for api in APIS:
        models = (
            each
            for each in by_api.get(api, {}).values()
            if each["type"] == "chat" and each["id"] not in LEFT_OUT
        )
        for model in sorted(models, key=lambda each: each["id"]):
            headers = model.get("headers")
            key = (api, model["baseUrl"], json.dumps(headers))
            service = found.setdefault(
                key,
                {
                    "api": api,
                    "baseUrl": model["baseUrl"].rstrip("/"),
                    **({"headers": headers} if headers else {}),
                    "models": [],
                },
            )
            service["models"].append(entry(model, api))
    return list(found.values())


def entry(model: dict[str, Any], api: str) -> dict[str, Any]:
    """One model's facts, as our file has them."""
    no_use = COMPAT_OF_NO_USE.get(api, set())
    facts = {name: model[name] for name in FIELDS if name in model}
    facts["maxTokens"] = min(facts["maxTokens"], facts["contextWindow"])
    compat = {k: v for k, v in facts.pop("compat", {}).items() if k not in no_use}
    if compat:
        facts["compat"] = compat
    if not facts["reasoning"]:
        facts.pop("thinkingLevelMap", None)
    return facts


def written(found: dict[str, Any]) -> str:
    """JSON with a model a line, so that differences can be read."""
    lines = ["{", f' "source": {json.dumps(PACKAGE)},', ' "providers": {']
    for number, (provider, facts) in enumerate(found.items(), 1):
        head = {"name": facts["name"], "default": facts["default"]}
        lines.append(f'  {json.dumps(provider)}: {json.dumps(head)[:-1]}, "services": [')
        for index, service in enumerate(facts["services"], 1):
            models = service["models"]
            rest = {name: value for name, value in service.items() if name != "models"}
            lines.append(f'   {json.dumps(rest)[:-1]}, "models": [')
            rows = [f"    {json.dumps(model, ensure_ascii=False)}" for model in models]
            lines.append(",\n".join(rows))
            lines.append("   ]}" + ("," if index < len(facts["services"]) else ""))
        lines.append("  ]}" + ("," if number < len(found) else ""))
    return "\n".join([*lines, " }", "}", ""])


if __name__ == "__main__":
    sys.exit(main())
