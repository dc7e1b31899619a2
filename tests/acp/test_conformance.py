"""The table of what is tested with which client is what the tests say."""

import json
from pathlib import Path

from pi_rpc import __version__
from pi_rpc.acp.features import FEATURES
from pi_rpc.cli import parse
from tests.acp.conformance import table, untested, written
from tests.acp.schema import methods

ROOT = Path(__file__).parents[2]


def test_every_method_of_the_protocol_is_served() -> None:
    served = {"initialize", "session/cancel", *FEATURES}
    assert set(methods("agent")) == {each for each in served if not each.startswith("_")}


def test_every_method_is_tested_and_the_page_says_with_what() -> None:
    assert untested() == []
    assert written() == table(), "python -m tests.acp.conformance"


def test_the_registry_entry_is_of_this_version() -> None:
    entry = json.loads((ROOT / "clients" / "acp" / "agent.json").read_text(encoding="utf-8"))
    assert entry["version"] == __version__
    assert entry["distribution"]["uvx"]["package"] == f"pi-rpc=={__version__}"
    arguments = parse(entry["distribution"]["uvx"]["args"])
    assert arguments.acp


def test_the_setup_that_the_page_shows_is_json_where_it_says_so() -> None:
    page = (ROOT / "docs" / "front-doors.md").read_text(encoding="utf-8")
    snippets = [each.partition("```")[0] for each in page.split("```json\n")[1:]]
    snippets = [each for each in snippets if "agent_servers" in each]
    for snippet in snippets:
        (agent,) = json.loads(snippet)["agent_servers"].values()
        assert parse(agent["args"]).acp
    assert len(snippets) == 2
