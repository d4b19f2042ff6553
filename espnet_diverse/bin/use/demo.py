"""Serve a local web page: transcribe a recording or translate a text, and plot the attention heads.

Only browsers on this machine can reach the page. Requests are served one at a time. Ctrl+C stops the server.
"""

import argparse
from contextlib import suppress

from espnet_diverse.bin.options import options
from espnet_diverse.bin.options.input_paths import ANY
from espnet_diverse.errors import optional_package

OPENS_PACKED_MODELS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    options.add_model(parser)
    parser.add_argument("--port", type=int, default=7860, help="port; 0 is any free port (default: 7860)")
    parser.add_argument(
        "--max_seconds", type=float, default=120.0, help="maximum length of a recording in seconds (default: 120)"
    )
    parser.add_argument("--max_megabytes", type=float, default=20.0, help="maximum size of a file in MB (default: 20)")
    options.add_fusion(parser)
    options.add_device_options(parser)
    options.add_segmentation_options(parser)
    parser.add_argument(
        "--examples",
        nargs="+",
        default=[],
        type=ANY,
        metavar="PATH",
        help="recordings or texts to click: files, or data directories and folders, of which three are shown",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    optional_package("uvicorn", "espnet-diverse demo", "demo")
    from espnet_diverse.serve.application import Server
    from espnet_diverse.serve.limits import Limits
    from espnet_diverse.transcription.segmentation_options import SegmentationOptions

    limits, segmentation = Limits(args.max_seconds, args.max_megabytes), SegmentationOptions(args.vad)
    how = {"device": args.device, "precision": args.precision, "compile": args.compile}
    how["fusion"] = options.fusion(args)
    with Server(args.port) as server:  # a port in use is reported before the model is loaded
        from espnet_diverse.demo.examples import read_examples
        from espnet_diverse.demo.routes import page
        from espnet_diverse.demo.task_services import load_service

        service = load_service(args.model_dir, args.model_file, limits, segmentation, **how)
        examples = read_examples(args.examples, service.search.task, limits)
        print(f"{server.url} serves {service.name}; press Ctrl+C to stop", flush=True)
        if args.open:
            import webbrowser

            webbrowser.open(server.url)
        with suppress(KeyboardInterrupt):
            server.run(page(service, examples))
    return 0
