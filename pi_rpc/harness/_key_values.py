"""Values that stand for a secret: literal text, ``$NAME`` of the environment, ``!command``.

Owns their reading and the cache of what commands said. Does not know what the values are for. No
value is ever part of an error."""

import os
import re
from collections.abc import Mapping

import anyio

__all__ = [
    "COMMAND_TIMEOUT_S",
    "CommandValues",
    "UnresolvedValueError",
    "literally",
    "needs",
    "resolved",
    "unset_variable",
]

COMMAND_TIMEOUT_S = 10.0
_MOST_BYTES = 64 * 1024
_LOOK_EVERY_S = 0.05
"""How often the size of what a command says is looked at."""

_REFERENCE = re.compile(
    r"\$(?:(?P<escaped>[$!])|(?P<bare>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\})"
)


class UnresolvedValueError(Exception):
    """A value names a variable that is not set, or a command that fails."""


def needs(written: str) -> list[str]:
    """The names of the environment variables that ``written`` refers to."""
    if written.startswith("!"):
        return []
    return [name for match in _REFERENCE.finditer(written) if (name := _name(match))]


def unset_variable(written: str, environ: Mapping[str, str]) -> str | None:
    """The first variable that ``written`` refers to and that is not set, or is blank."""
    return next((name for name in needs(written) if not environ.get(name, "").strip()), None)


def literally(text: str) -> str:
    """How to write ``text`` so that it is read as itself."""
    escaped = text.replace("$", "$$")
    return f"${escaped}" if escaped.startswith("!") else escaped


class CommandValues:
    """What ``!command`` values say. A command runs once; its failure is remembered, too."""

    def __init__(self, environ: Mapping[str, str], *, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._environ = environ
        self._timeout_s = timeout_s
        self._said: dict[str, str | UnresolvedValueError] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def said(self, command: str) -> str:
        """The command's output without surrounding white space; raises if it fails."""
        async with self._locks.setdefault(command, anyio.Lock()):
            if command not in self._said:
                try:
                    self._said[command] = await self._run(command)
                except UnresolvedValueError as error:
                    self._said[command] = error
        said = self._said[command]
        if isinstance(said, UnresolvedValueError):
            raise UnresolvedValueError(str(said))
        return said

    def forget(self, command: str) -> None:
        """Run the command again when it is next asked for."""
        self._said.pop(command, None)

    async def _run(self, command: str) -> str:
        """Output goes to a file: a grandchild that keeps it open holds nobody up."""
        import tempfile
        from pathlib import Path

        from pi_rpc._os.processes import spawn

        with tempfile.TemporaryFile() as output:
            try:
                child = await spawn(
                    ["/bin/sh", "-c", command],
                    cwd=Path.home(),
                    env=self._environ,
                    stdout=output.fileno(),
                )
            except OSError as error:
                raise UnresolvedValueError(f"its command did not start: {error}") from None
            code = None
            async with child, anyio.create_task_group() as group:
                group.start_soon(_cancel_when_large, output.fileno(), group.cancel_scope)
                with anyio.move_on_after(self._timeout_s):
                    code = await child.wait()
                group.cancel_scope.cancel()
            output.seek(0)
            said = output.read(_MOST_BYTES + 1)
            if len(said) > _MOST_BYTES:
                raise UnresolvedValueError("its command said far more than a key")
            if code is None:
                raise UnresolvedValueError(f"its command took longer than {self._timeout_s:g} s")
            if code != 0:
                raise UnresolvedValueError(f"its command failed (exit code {code})")
            text = said.decode(errors="replace").strip()
        if not text:
            raise UnresolvedValueError("its command said nothing")
        return text


async def _cancel_when_large(output: int, scope: anyio.CancelScope) -> None:
    while os.fstat(output).st_size <= _MOST_BYTES:  # noqa: ASYNC110 - a file tells nobody
        await anyio.sleep(_LOOK_EVERY_S)
    scope.cancel()


async def resolved(written: str, environ: Mapping[str, str], commands: CommandValues) -> str:
    """What ``written`` stands for.

    ``!command`` is run; ``$NAME`` and ``${NAME}`` are replaced, ``$$`` and ``$!`` are a plain ``$``
    and ``!``; anything else is itself.
    """
    if written.startswith("!"):
        return await commands.said(written[1:].strip())
    missing = unset_variable(written, environ)
    if missing is not None:
        raise UnresolvedValueError(f"the environment variable {missing} is not set")
    return _REFERENCE.sub(lambda match: match["escaped"] or environ[_name(match)].strip(), written)


def _name(match: re.Match[str]) -> str:
    return match["bare"] or match["braced"] or ""
