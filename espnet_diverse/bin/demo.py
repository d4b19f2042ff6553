"""Serve a page on this machine: recognise a recording or translate a text, and see what the attention heads did.

Only browsers on this machine reach it. One request at a time goes through the model. Ctrl+C ends it.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="directory of the run, or a packed model")
    parser.add_argument("--model_file", help="path or name in it (default: valid.acc.ave.pth)")
    parser.add_argument("--port", type=int, default=7860, help="0 takes one that is free (default: 7860)")
    parser.add_argument("--max_seconds", type=float, default=120.0, help="longest recording (default: 120)")
    parser.add_argument("--max_megabytes", type=float, default=20.0, help="largest file (default: 20)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="(default: cpu)")
    parser.add_argument("--precision", default="float32", help="float32, int8 or bfloat16 (default: float32)")
    parser.add_argument("--vad", default="auto", help="what finds speech: auto, silero, energy or none (default: auto)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from espnet_diverse.demo.limits import Limits
    from espnet_diverse.demo.server import Server

    limits = Limits(args.max_seconds, args.max_megabytes)
    with Server(args.port, limits) as server:  # a port in use shows before the model is loaded, which takes seconds
        from espnet_diverse.demo.task_services import load_service
        from espnet_diverse.transcription.segmentation import Cutting

        cutting = Cutting(args.vad)
        server.service = load_service(args.model, args.model_file, limits, cutting, args.device, args.precision)
        print(f"{server.url} shows {server.service.name}; Ctrl+C ends it", flush=True)
        if args.open:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
