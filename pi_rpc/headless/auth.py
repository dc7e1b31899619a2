"""``pi-rpc auth``: where keys come from, storing and forgetting them.

Owns the reading of a key from standard input or the terminal, never from the command line, and the
output. Exit codes: 0 done, 1 nothing there or not stored, 2 usage. What may be stored, and where,
is ``pi_rpc.host.keys``'s.
"""

import sys
from typing import TYPE_CHECKING

import anyio

from pi_rpc.harness.credentials import MAX_KEY, KeyForm
from pi_rpc.harness.errors import HarnessError
from pi_rpc.headless._table import in_a_shell, in_columns, printable
from pi_rpc.host.keys import ProviderKey, key_of, keys, remove_key, store_key
from pi_rpc.host.services import Services
from pi_rpc.protocol.auth import AuthStatusResult, ProviderAuth
from pi_rpc.protocol.encode import encode

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_auth"]

_DONE, _FAILED, _USAGE = 0, 1, 2


def run_auth(arguments: "Namespace") -> int:
    """Do it; returns the exit code."""
    try:
        match arguments.action:
            case "status":
                return _status(arguments)
            case "set":
                return _set(arguments)
            case _:
                return _remove(arguments)
    except HarnessError as error:
        sys.stderr.write(f"pi-rpc auth: {in_a_shell(error.message)}\n")
        return _USAGE if error.kind == "invalidParams" else _FAILED


def _status(arguments: "Namespace") -> int:
    """0 when something, or the provider that was named, can be asked."""
    services = Services()
    named = arguments.provider
    found = [anyio.run(key_of, services, named)] if named else anyio.run(keys, services)
    code = _DONE if any(each.status.usable for each in found) else _FAILED
    if arguments.json:
        result = AuthStatusResult(providers=[ProviderAuth(**each.described()) for each in found])
        sys.stdout.buffer.write(encode(result) + b"\n")
        return code
    shown = [each for each in found if named or arguments.all or each.status.kind != "none"]
    for line in in_columns([_row(each) for each in shown]) if shown else ():
        sys.stdout.write(f"{line}\n")
    for problem in services.credentials.problems():
        sys.stderr.write(f"{printable(problem)}\n")
    if left := len(found) - len(shown):
        sys.stdout.write(f"{left} providers without a key; see them with --all\n")
    return code


def _row(key: ProviderKey) -> tuple[str, str, str, str]:
    status = key.status
    kind = {
        "api_key": "key" if status.form != "command" else "key of a command",
        "oauth": "login",
        "signature": "signs requests",
        "not_needed": "needs no key",
        "none": "no key",
    }[status.kind]
    source = "" if status.source == "none" else status.source
    remark = "; ".join(each for each in (status.problem, status.hint) if each)
    return ("*" if status.usable else " ", status.provider, f"{kind} {source}".rstrip(), remark)


def _set(arguments: "Namespace") -> int:
    services, provider = Services(), arguments.provider
    anyio.run(key_of, services, provider)  # Before a key is asked for in vain.
    form: KeyForm = "text"
    if arguments.key_variable is not None:
        key, form = arguments.key_variable, "variable"
    elif arguments.key_command is not None:
        key, form = arguments.key_command, "command"
    else:
        key = _read_key(provider)
    field = {"text": "the key", "variable": "--env", "command": "--from-command"}[form]
    stored = anyio.run(_store, services, provider, key, form, field)
    sys.stdout.write(f"{services.credentials.path}: a key for {stored.name} is stored\n")
    if not stored.status.usable:
        sys.stderr.write(f"{stored.status.problem}; {stored.status.hint}\n")
    sys.stdout.write(f"try it: pi-rpc models --check {provider}\n")
    return _DONE


async def _store(
    services: Services, provider: str, key: str, form: KeyForm, field: str
) -> ProviderKey:
    return await store_key(services, provider, key, form, field=field)


def _read_key(provider: str) -> str:
    """From a prompt that shows nothing, or else standard input."""
    if sys.stdin is not None and sys.stdin.isatty():
        from getpass import getpass

        try:
            return getpass(f"Key for {provider} (it is not shown): ")
        except EOFError:
            return ""
    if sys.stdin is None:
        return ""
    return sys.stdin.buffer.read(MAX_KEY + 1).decode(errors="replace")


def _remove(arguments: "Namespace") -> int:
    services, provider = Services(), arguments.provider
    removed, left = anyio.run(remove_key, services, provider)
    path = services.credentials.path
    what = "is forgotten" if removed else "was not there"
    sys.stdout.write(f"{path}: the entry of {left.name} {what}\n")
    if left.status.usable:
        source = "" if left.status.source == "none" else f", its key from {left.status.source}"
        sys.stdout.write(f"{left.name} can still be asked{source}\n")
    return _DONE if removed else _FAILED
