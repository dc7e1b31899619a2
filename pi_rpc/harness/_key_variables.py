"""The environment variables that hold keys of providers.

Owns their names, which are pi's. Does not own what the variables are used for
(``pi_rpc.harness.credentials``)."""

from collections.abc import Mapping

__all__ = ["BEARER_VARIABLES", "ENVIRONMENT_KEYS", "SIGNING_VARIABLES", "key_variables"]

ENVIRONMENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "amazon-bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "github-copilot": ("COPILOT_GITHUB_TOKEN",),
    "google": ("GEMINI_API_KEY",),
    "google-vertex": ("GOOGLE_CLOUD_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "kimi-coding": ("KIMI_API_KEY",),
    "moonshotai": ("MOONSHOT_API_KEY",),
    "moonshotai-cn": ("MOONSHOT_API_KEY",),
    "opencode-go": ("OPENCODE_API_KEY",),
    "vercel-ai-gateway": ("AI_GATEWAY_API_KEY",),
    **{
        provider: (f"{provider.upper().replace('-', '_')}_API_KEY",)
        for provider in (
            "ant-ling", "baseten", "cerebras", "deepseek", "fireworks", "groq", "meta", "minimax",
            "minimax-cn", "mistral", "nvidia", "openai", "opencode", "openrouter", "radius",
            "qwen-token-plan", "qwen-token-plan-cn", "qwen-token-plan-individual",
            "qwen-token-plan-individual-cn", "together", "typesafe", "xai", "xiaomi",
            "xiaomi-token-plan-ams", "xiaomi-token-plan-cn", "xiaomi-token-plan-sgp", "zai",
            "zai-coding-cn",
        )
    },
}  # fmt: skip
"""The variables that hold a provider's key, best first."""

SIGNING_VARIABLES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "amazon-bedrock": (
        ("AWS_PROFILE",),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
        ("AWS_WEB_IDENTITY_TOKEN_FILE",),
    ),
}
"""Variables that let a provider's requests be signed, without a key to send: any of these groups.

What they name is read where the request is signed, and may fail only there."""

BEARER_VARIABLES = {"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"}
"""Variables whose key is sent as ``Authorization: Bearer``, unlike other keys of the provider."""


def key_variables() -> frozenset[str]:
    """Every environment variable that may hold a key; commands of a model must not see them."""
    names = {name for each in ENVIRONMENT_KEYS.values() for name in each}
    return frozenset(
        names
        | {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
        | {"AWS_CONTAINER_AUTHORIZATION_TOKEN"}
        | {"AWS_BEARER_TOKEN_BEDROCK", "CLOUDFLARE_API_KEY"}
    )
