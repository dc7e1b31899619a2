"""Runs the tests of the Neovim plugin: Lua files inside each Neovim given, then the screen tests.

    python test/run.py --pi-rpc PROGRAM --nvim NVIM [--nvim NVIM …] [PART …]

``PART`` picks tests whose file name holds it. Every file has a process, a home and a directory of
its own. The last line is ``N passed, N failed``."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE_SECONDS = 1200


def environment(home: str, arguments: argparse.Namespace, nvim: str) -> dict[str, str]:
    """Nothing of the person's own reaches the tests, and no key of a provider."""
    kept = ("PATH", "LANG", "TERM", "LD_LIBRARY_PATH", "PI_TEST_ONLY", "PI_TEST_WRITE")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "LC_ALL": "C.UTF-8",
        "HOME": home,
        **{
            f"XDG_{kind}_HOME": f"{home}/{kind.lower()}"
            for kind in ("CONFIG", "DATA", "STATE", "CACHE")
        },
        "PI_RPC": arguments.pi_rpc,
        "NVIM_BIN": nvim,
        "TMPDIR": home,
    }


def run(command: Sequence[str], arguments: argparse.Namespace, nvim: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="pi-nvim-") as home:
        try:
            done = subprocess.run(
                command,
                cwd=HERE.parent,
                env=environment(home, arguments, nvim),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FILE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return 1, (error.output or b"").decode(errors="replace") + "\nnot ok: it took too long"
        return done.returncode, done.stdout.decode(errors="replace")


def run_lua(file: Path, arguments: argparse.Namespace, nvim: str) -> tuple[int, int, str]:
    """How many passed and failed, and what is to be shown."""
    command = [nvim, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-l"]
    status, output = run([*command, str(HERE / "runner.lua"), str(file)], arguments, nvim)
    counts = re.search(r"(\d+) passed, (\d+) failed\s*$", output)
    if not counts:
        return 0, 1, f"{output}\nnot ok {file.name} ended with {status}\n"
    return int(counts[1]), int(counts[2]), output


def run_screens(arguments: argparse.Namespace, nvim: str) -> tuple[int, int, str]:
    files = picked(arguments, "screen", "test_*.py")
    if not files:
        return 0, 0, ""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    _, output = run([*command, *map(str, files)], arguments, nvim)
    counts = {
        word: sum(
            int(each) for each in re.findall(rf"(\d+) {word}", output.strip().split("\n")[-1])
        )
        for word in ("passed", "failed", "error", "skipped")
    }
    failed = counts["failed"] + counts["error"] + counts["skipped"]
    return counts["passed"], failed or (0 if counts["passed"] else 1), output


def picked(arguments: argparse.Namespace, folder: str, pattern: str) -> list[Path]:
    return [
        file
        for file in sorted((HERE / folder).glob(pattern))
        if not arguments.parts or any(part in str(file) for part in arguments.parts)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pi-rpc", required=True)
    parser.add_argument("--nvim", action="append", required=True)
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    passed = failed = 0
    for nvim in arguments.nvim:
        version = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True)
        print(f"== {version.stdout.splitlines()[0]}", flush=True)
        files = [
            file for folder in ("unit", "e2e") for file in picked(arguments, folder, "*_spec.lua")
        ]
        with ThreadPoolExecutor(2) as pool:
            # The screens take longest: they begin, and all the others run beside them.
            jobs = [pool.submit(run_screens, arguments, nvim)]
            jobs += [pool.submit(run_lua, file, arguments, nvim) for file in files]
            for job in jobs:
                good, bad, output = job.result()
                passed, failed = passed + good, failed + bad
                print(output, end="" if output.endswith("\n") or not output else "\n", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
