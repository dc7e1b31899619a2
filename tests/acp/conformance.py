"""The table of docs/front-doors.md: which method of the protocol is tested with which client.

Owns the table, made of what the tests say: a method counts as tested with a client where its test
names it, or calls what the client's library has for it. ``python -m tests.acp.conformance`` writes
the table into the page.
"""

import re
from pathlib import Path

from tests.acp.schema import methods

_HERE = Path(__file__).parent
_PAGE = _HERE.parents[1] / "docs" / "front-doors.md"
_BEGIN, _END = "<!-- table of ACP -->\n", "<!-- end of the table of ACP -->\n"

_WIRE = (
    *("client.py", "test_turns.py", "test_sessions.py", "test_editors.py"),
    *("test_any_order.py", "test_start.py"),
)
_CLIENTS = {
    "schema": _WIRE,
    "Python SDK": ("test_python_sdk.py",),
    "TypeScript SDK": ("typescript_sdk.mjs",),
    "CodeCompanion's calls": ("test_codecompanion.py",),
}
_CALLED = {
    "initialize": (r"\.initialize\(", r"\bacp\("),
    "session/new": (r"new_session\(", r"client\.new\("),
    "session/prompt": (r"\.prompt\(",),
    "session/cancel": (r"\.cancel\(session",),
    "session/load": (r"load_session\(",),
    "session/list": (r"list_sessions\(",),
    "session/close": (r"close_session\(",),
    "session/set_mode": (r"set_session_mode\(",),
    "session/update": (r"session_update", r"\.updates\(", r"\.until\("),
    "session/request_permission": (r"request_permission\(",),
    "terminal/create": (r'"create"',),
    "terminal/output": (r'"output"',),
    "terminal/wait_for_exit": (r'"wait_for_exit"',),
    "terminal/kill": (r'"kill"',),
    "terminal/release": (r'"release"',),
}
_NOT_OURS = {"elicitation/complete": "ends questions by URL; we ask none"}


def table() -> str:
    """The table as Markdown."""
    heads = ["method", "asked by", *_CLIENTS]
    rows = [heads, ["---"] * len(heads)]
    known = [("client", each) for each in methods("agent")]
    known += [("agent", each) for each in methods("client")]
    known += [("both", "$/cancel_request")]
    known += [("client", f"_pi/{each}") for each in ("steer", "followUp", "compact", "branch")]
    for side, method in known:
        tested = [_mark(method, files) for files in _CLIENTS.values()]
        if method in _NOT_OURS:
            tested = [f"not used: {_NOT_OURS[method]}", *[""] * (len(_CLIENTS) - 1)]
        rows.append([f"`{method}`", side, *tested])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def untested() -> list[str]:
    """The methods that no test of the wire names."""
    return [line for line in table().splitlines()[2:] if line.split("|")[3].strip() == ""]


def written() -> str:
    """The table that the page has."""
    return _PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]


def _mark(method: str, files: tuple[str, ...]) -> str:
    patterns = (re.escape(f'"{method}"'), *_CALLED.get(method, ()))
    texts = [(_HERE / each).read_text(encoding="utf-8") for each in files]
    return "yes" if any(re.search(each, text) for each in patterns for text in texts) else ""


if __name__ == "__main__":
    page = _PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    _PAGE.write_text(f"{head}{_BEGIN}{table()}{_END}{tail}", encoding="utf-8")
