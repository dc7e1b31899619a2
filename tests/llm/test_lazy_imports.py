"""Importing the model layer stays cheap; what a request needs is loaded by the request."""

import subprocess
import sys

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
"""


def test_no_heavy_module_is_imported_before_the_first_request() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[]", "True"]
