"""How ``pi-rpc run`` ends, as a number for scripts.

Owns the codes and what each means; docs/headless.md has this table. They do not change.
"""

from enum import IntEnum

__all__ = ["MEANINGS", "ExitCode", "UsageError", "exit_code_table"]


class ExitCode(IntEnum):
    """What a script can tell from how the command ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    LIMIT = 4
    UNFIT = 5
    TIMEOUT = 124
    HANGUP = 129
    INTERRUPTED = 130
    UNREAD = 141
    TERMINATED = 143


MEANINGS = {
    ExitCode.DONE: "The model answered.",
    ExitCode.FAILED: (
        "The model or its provider failed, or something else that the run needs: a session file, "
        "an extension, the disk. Also an answer that was cut off because it was too long."
    ),
    ExitCode.USAGE: (
        "Another command line is needed: an unknown option, model, tool or session, a file that "
        "cannot be read, a schema that is none."
    ),
    ExitCode.REFUSED: (
        "The model answered, but a call that it made was not permitted, and nothing else went "
        "wrong."
    ),
    ExitCode.LIMIT: "`--max-turns` or `--max-cost` was reached before the model was done.",
    ExitCode.UNFIT: "The answer did not match `--output-schema`, nor did the second attempt.",
    ExitCode.TIMEOUT: "`--timeout` was reached.",
    ExitCode.HANGUP: "The terminal was closed (SIGHUP).",
    ExitCode.INTERRUPTED: "Interrupted (SIGINT).",
    ExitCode.UNREAD: "Nobody reads the output any more.",
    ExitCode.TERMINATED: "Terminated (SIGTERM).",
}


class UsageError(Exception):
    """The command line asks for what cannot be; the text is for people."""


def exit_code_table() -> str:
    """The table of the documentation, in Markdown."""
    rows = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(["| code | meaning |", "|---:|---|", *rows])
