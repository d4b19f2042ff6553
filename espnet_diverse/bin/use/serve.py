"""Serve models to other programs by OpenAI's API: transcriptions, translations, and streaming by a websocket.

The server answers only this machine, unless --host names another address; then clients must send the key in the
environment variable ESPNET_DIVERSE_API_KEY. Recordings that arrive at the same time are decoded together. Ctrl+C stops
the server.
"""

import argparse
import logging
import os
from contextlib import suppress
from pathlib import Path

from espnet_diverse.bin.options import options
from espnet_diverse.errors import ConfigError, optional_package

OPENS_PACKED_MODELS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="NAME=MODEL",
        help="directory of a run, a packed model, or hf:owner/name, and its name for clients; can be repeated",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 is any free port (default: 8000)")
    limits = parser.add_argument_group("limits")
    for name, kind, default, text in (
        ("max_models", int, 2, "models that are loaded at a time"),
        ("max_seconds", float, 600.0, "length of a recording in seconds"),
        ("max_megabytes", float, 25.0, "size of a file in MB"),
        ("max_waiting", int, 64, "recordings that wait for a model; more are answered 429"),
        ("max_streams", int, 4, "recordings of a model that are transcribed while somebody speaks"),
        ("max_stream_seconds", float, 14400.0, "length of a live recording in seconds"),
        ("batch_size", int, 32, "recordings that are searched together"),
        ("max_wait_ms", float, 10.0, "milliseconds that a recording waits for others"),
    ):
        metavar = "N" if kind is int else "X"
        limits.add_argument(
            f"--{name}", type=kind, default=default, metavar=metavar, help=f"maximum {text} (default: {default:g})"
        )
    options.add_device_options(parser)
    options.add_segmentation_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    optional_package("uvicorn", "espnet-diverse serve", "serve")
    from espnet_diverse.option_checks import Rule
    from espnet_diverse.runs.model_files import check_exists
    from espnet_diverse.serve.application import KEY_VARIABLE, Server
    from espnet_diverse.serve.limits import Limits
    from espnet_diverse.transcription.segmentation_options import SegmentationOptions

    named = ("seconds", "megabytes", "waiting", "streams", "stream_seconds")
    limits = Limits(**{name: getattr(args, f"max_{name}") for name in named})
    for name, rule in (
        ("max_models", Rule(int, least=1)),
        ("batch_size", Rule(int, least=1)),
        ("max_wait_ms", Rule(float, least=0, most=1000)),
    ):
        rule.check(name, getattr(args, name))
    segmentation, paths = SegmentationOptions(args.vad), _paths(args.model)
    how = {"device": args.device, "precision": args.precision, "compile": args.compile}
    with Server(args.port, args.host, os.environ.get(KEY_VARIABLE) or None) as server:
        for path in paths.values():
            check_exists(path)  # before the import of PyTorch
        from espnet_diverse.serve.models import Models, load_model, speech_model
        from espnet_diverse.serve.transcriptions import api

        folders, wait = {name: speech_model(path) for name, path in paths.items()}, args.max_wait_ms / 1000

        def load(name: str):
            return load_model(folders[name], limits, segmentation, args.batch_size, wait, **how)

        logging.getLogger("espnet_diverse.serve").setLevel(logging.INFO)
        print(f"{server.url} serves {' '.join(paths)}; press Ctrl+C to stop", flush=True)
        with suppress(KeyboardInterrupt):
            server.run(api(Models(list(folders), load, args.max_models), limits))
    return 0


def _paths(models: list[str]) -> dict[str, Path]:
    """Paths by name.

    Raises:
        ConfigError: A model has no name or no path, or a name is given twice.
    """
    paths: dict[str, Path] = {}
    for given in models:
        name, _, path = given.partition("=")
        if not name or not path:
            raise ConfigError(f"--model {given}: must be NAME=MODEL, such as mine=exp/sdma")
        if name in paths:
            raise ConfigError(f"--model {given}: the name {name} is given twice; give each model a name of its own")
        paths[name] = Path(path)
    return paths
