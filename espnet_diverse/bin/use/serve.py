"""Serve models to other programs by OpenAI's API: transcriptions, translations, and streaming by a websocket.

The server answers only this machine, unless --host names another address; then clients must send the key in the
environment variable ESPNET_DIVERSE_API_KEY. Recordings that arrive at the same time are decoded together. Ctrl+C stops
the server; SIGTERM lets running requests end first.
"""

import argparse
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import add_options, adder, part
from espnet_diverse.cpu.allocator import share_freed_memory
from espnet_diverse.cpu.primitive_caches import primitive_limits
from espnet_diverse.errors import ConfigError, optional_package
from espnet_diverse.option_checks import listed, number, replaced, text
from espnet_diverse.process_state import environment
from espnet_diverse.serve.limits import Limits

OPENS_PACKED_MODELS = True


@dataclass(frozen=True)
class ServerLimits(Limits):
    """Limits of a server, which has more callers than a page, and of its models."""

    seconds: float = replaced(Limits, "seconds", 600.0)
    megabytes: float = replaced(Limits, "megabytes", 25.0)
    waiting: int = replaced(Limits, "waiting", 64)
    max_models: int = number(2, least=1, help="maximum models that are loaded at a time")
    batch_size: int = number(32, least=1, help="maximum recordings that are searched together")
    drain_seconds: float = number(60.0, least=0, help="maximum seconds that running requests have to end after SIGTERM")
    max_wait_ms: float = number(10.0, least=0, most=1000, help="maximum milliseconds that a recording waits for others")


class CommandOptions(shared.Computing, shared.Segmented):
    model: Sequence[str] = listed(
        nargs="append",
        metavar="NAME=MODEL",
        help="directory of a run, a packed model, or hf:owner/name, and its name for clients; can be repeated",
    )
    host: str = text("127.0.0.1", help="address to listen on")
    port: int = number(8000, help="port; 0 is any free port")
    limits: ServerLimits = part(ServerLimits)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_options(parser, CommandOptions)
    limits = ("seconds", "megabytes", "waiting", "streams", "stream_seconds", "request_seconds")
    group = parser.add_argument_group("limits")
    add_options(group, ServerLimits, "max_models", *limits, "drain_seconds", "batch_size", "max_wait_ms", letters=True)
    adder(shared.Device, shared.Computing, shared.add_segmentation)(parser)


def run(options: CommandOptions) -> int:
    """Serve until interrupted."""
    optional_package("uvicorn", "espnet-diverse serve", "serve")
    from espnet_diverse.runs.model_files import check_exists
    from espnet_diverse.serve.application import KEY_VARIABLE, Server

    share_freed_memory()
    limits, paths = options.limits, _paths(options.model)
    key = os.environ.get(KEY_VARIABLE) or None
    with environment(**primitive_limits()), Server(options.port, options.host, key, limits.drain_seconds) as server:
        for path in paths.values():
            check_exists(path)  # before the import of PyTorch
        from espnet_diverse.serve.models import Models, load_model, speech_model
        from espnet_diverse.serve.transcriptions import api

        folders, wait = {name: speech_model(path) for name, path in paths.items()}, limits.max_wait_ms / 1000

        def load(name: str):
            return load_model(folders[name], limits, options.segmentation, limits.batch_size, wait, **options.how)

        logging.getLogger("espnet_diverse.serve").setLevel(logging.INFO)
        print(f"{server.url} serves {' '.join(paths)}; press Ctrl+C to stop", flush=True)
        models = Models(list(folders), load, limits.max_models)
        server.run(api(models, limits))
    return 0


def _paths(models: Sequence[str]) -> dict[str, Path]:
    """Paths by name.

    Raises:
        ConfigError: A model has no name or no path, or a name is given twice.
    """
    paths: dict[str, Path] = {}
    for argument in models:
        name, _, path = argument.partition("=")
        if not name or not path:
            raise ConfigError(f"--model {argument}: must be NAME=MODEL, such as mine=exp/sdma")
        if name in paths:
            raise ConfigError(f"--model {argument}: the name {name} is given twice; give each model a name of its own")
        paths[name] = Path(path)
    return paths
