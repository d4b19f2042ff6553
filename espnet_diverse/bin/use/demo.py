"""Serve a local web page: transcribe a recording or translate a text, and plot the attention heads.

Only browsers on this machine can reach the page. Requests are served one at a time. Ctrl+C stops the server.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import add_options, adder, part
from espnet_diverse.bin.options.input_paths import ANY
from espnet_diverse.errors import optional_package
from espnet_diverse.option_checks import flag, listed, number, path
from espnet_diverse.serve.limits import Limits

OPENS_PACKED_MODELS = True


class CommandOptions(shared.Model, shared.TextFusionFiles, shared.Computing, shared.Segmented):
    port: int = number(7860, help="port; 0 is any free port")
    limits: Limits = part(Limits)
    examples: Sequence[Path] = listed(
        (),
        of=path(parse=ANY),
        metavar="PATH",
        help="recordings or texts to click: files, or data directories and folders, of which three are shown",
    )
    open: bool = flag(help="open the page in the browser")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    shared.add_model(parser)
    add_options(parser, CommandOptions, "port")
    add_options(parser, Limits, "seconds", "megabytes")
    adder(shared.FusionFiles, shared.TextFusionFiles, shared.Device, shared.Computing, shared.add_segmentation)(parser)
    add_options(parser, CommandOptions, "examples", "open")


def run(options: CommandOptions) -> int:
    """Serve until interrupted."""
    optional_package("uvicorn", "espnet-diverse demo", "demo")
    from espnet_diverse.serve.application import Server

    how = {**options.how, "fusion": shared.fusion(options)}
    with Server(options.port) as server:  # a port in use is reported before the model is loaded
        from espnet_diverse.demo.examples import read_examples
        from espnet_diverse.demo.routes import page
        from espnet_diverse.demo.task_services import load_service

        service = load_service(*options.model, options.limits, options.segmentation, **how)
        examples = read_examples(options.examples, service.search.task, options.limits)
        print(f"{server.url} serves {service.name}; press Ctrl+C to stop", flush=True)
        if options.open:
            import webbrowser

            webbrowser.open(server.url)
        server.run(page(service, examples))
    return 0
