"""Importing the model layer stays cheap; what a request needs is loaded by the request."""

import subprocess
import sys
from pathlib import Path

from tests.deadlines import DEADLINE_S

PROGRAM = """
import sys
import pi_rpc.llm.http
import pi_rpc.llm.provider
import pi_rpc.llm.providers.anthropic_messages
import pi_rpc.llm.providers.azure_openai_responses
import pi_rpc.llm.providers.bedrock_converse_stream
import pi_rpc.llm.providers.openai_completions
import pi_rpc.llm.providers.openai_responses
import pi_rpc.llm.scripted
heavy = {"httpx", "httpcore", "ssl", "pydantic", "jsonschema", "email.utils", "http.client"}
heavy.add("botocore")
print(sorted(heavy & set(sys.modules)))
pi_rpc.llm.http.preload()
print("httpx" in sys.modules)
print(sorted({"rich", "click", "httpx._main"} & set(sys.modules)))
"""


def test_no_heavy_module_is_imported_before_the_first_request() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["[]", "True", "[]"]


KEYS = """
import sys
from pathlib import Path
import anyio
from pi_rpc.host.keys import keys, store_key
from pi_rpc.host.services import Services

async def main():
    services = Services(Path(sys.argv[1]))
    await store_key(services, "groq", "k", "text", field="apiKey")
    return await keys(services)

found = anyio.run(main)
heavy = {"httpx", "httpcore", "pydantic", "jsonschema", "botocore", "getpass"}
print([each.status.source for each in found if each.status.provider == "groq"])
print(sorted(heavy & set(sys.modules)))
"""


def test_storing_and_showing_keys_imports_nothing_that_a_request_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEYS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["['auth.json']", "[]"]
