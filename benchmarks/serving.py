"""Measure a server: callers at once, whose recordings share batches, against the same requests one after the other.

    python benchmarks/serving.py --model_dir DIR --data_dir DIR

Each of `--callers` callers sends one recording of the data directory by HTTP, from a thread of this process, to a
server in this process with `--threads` threads of PyTorch. One round sends them one by one, the next all at once; the
rounds take turns. The table has the medians of the seconds of a round, and the ratio; texts of both must be equal.
"""

import argparse
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import soundfile
import torch

from espnet_diverse.registration import fast_start


def main(argv: list[str] | None = None) -> None:
    """Measure, and print the table."""
    args = _arguments(argv)
    fast_start()
    torch.set_num_threads(args.threads)
    from espnet_diverse.data.tables import read_table

    paths = [Path(path) for path in read_table(args.data_dir / "wav.scp").values()]
    bodies = [path.read_bytes() for path in islice(cycle(paths), args.callers)]
    seconds = sum(soundfile.info(path).duration for path in islice(cycle(paths), args.callers))
    call, stop = _server(args)
    try:
        ways = {"one by one": lambda: list(map(call, bodies)), "at once": lambda: _at_once(call, bodies)}
        texts = {name: way() for name, way in ways.items()}  # which also warms up
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                taken[name].append(time.perf_counter() - began)
    finally:
        stop()
    same = sum(one == other for one, other in zip(*texts.values(), strict=True))
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    print(f"torch {torch.__version__}, {args.threads} threads, {load}; {args.callers} recordings, {seconds:.0f} s\n")
    print("| | s | recordings a second |\n|---|---|---|")
    for name, times in taken.items():
        print(f"| {name} | {median(times):.2f} | {args.callers / median(times):.1f} |")
    ratio = median(taken["one by one"]) / median(taken["at once"])
    print(f"\nratio {ratio:.2f}; {same} of {args.callers} texts are equal")


def _at_once(call, bodies: list[bytes]) -> list[str]:
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(call, bodies))


def _server(args: argparse.Namespace):
    """A function that sends a recording to a running server and returns its text, and one that stops the server."""
    import httpx

    from espnet_diverse.serve.application import Server
    from espnet_diverse.serve.limits import Limits
    from espnet_diverse.serve.models import Models, load_model
    from espnet_diverse.serve.transcriptions import api
    from espnet_diverse.transcription.segmentation_options import SegmentationOptions

    limits = Limits(waiting=args.callers)
    model = load_model(args.model_dir, limits, SegmentationOptions("none"), args.batch_size, 0.01, args.device)
    server = Server(0)
    thread = threading.Thread(target=server.run, args=(api(Models(["model"], lambda name: model, 1), limits),))
    thread.start()
    client = httpx.Client(base_url=server.url, timeout=600, limits=httpx.Limits(max_connections=args.callers))

    def call(body: bytes) -> str:
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", body)})
        answer.raise_for_status()
        return answer.json()["text"]

    def stop() -> None:
        client.close()
        server.stop()
        thread.join()

    while client.get("/health").status_code != 200:
        pass
    return call, stop


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", type=Path, required=True, help="a run")
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory")
    parser.add_argument("--callers", type=int, default=32, help="callers (32)")
    parser.add_argument("--batch_size", type=int, default=32, help="greatest number of recordings in a batch (32)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each way (5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (1)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (cpu)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
