"""A ``llama-server`` on top of the ``xllamacpp`` package.

Run as a script. Owns the translation of the few arguments we give a ``llama-server``. It imports
nothing of ours: it runs in a process of its own."""

import argparse
import importlib
import os
import threading
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve until the process is ended."""
    arguments = _arguments()
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.model_alias = {arguments.alias}
    params.hostnames = [arguments.host]
    params.port = arguments.port
    params.use_jinja = arguments.jinja
    params.chat_template = Path(arguments.chat_template_file).read_text(encoding="utf-8")
    params.n_ctx = arguments.ctx_size
    params.n_parallel = arguments.parallel
    params.n_gpu_layers = arguments.n_gpu_layers
    params.cpuparams.n_threads = arguments.threads
    params.sampling.temp = arguments.temp
    params.sampling.seed = arguments.seed
    params.sampling.penalty_freq = arguments.frequency_penalty
    params.sampling.dry_multiplier = arguments.dry_multiplier
    params.sampling.dry_allowed_length = arguments.dry_allowed_length
    params.sampling.dry_penalty_last_n = arguments.dry_penalty_last_n
    params.api_keys = [os.environ["LLAMA_API_KEY"]]
    params.verbosity = arguments.log_verbosity
    server = xllamacpp.Server(params)
    threading.Event().wait()
    del server


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llama-server")
    for name in ("--model", "--alias", "--host", "--chat-template-file"):
        parser.add_argument(name, required=True)
    for name in ("--port", "--ctx-size", "--parallel", "--threads", "--n-gpu-layers"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--seed", "--dry-allowed-length", "--dry-penalty-last-n", "--log-verbosity"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--temp", "--frequency-penalty", "--dry-multiplier"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--jinja", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
