"""Measure seconds and peak memory of each stage against the number of utterances.

    python benchmarks/growth.py --rows 1000 10000 100000 --work_dir DIR --output growth.json --plot growth.png
    python benchmarks/growth.py --data speech --rows 1000 1000000 --work_dir DIR --stages validate train decode

The data are sentences for text translation, two tables (text, src_text) with ids such as set-000000123, drawn from
50,000 words so that nearly all sentences differ; or speech of 4 s, three tables (wav.scp, text, utt2spk), whose paths
lead to 200 files: the header of a file is read for each row, from the memory of the system and not from a disk. Each
stage is a process of its own, as a user starts it:

    validate   `espnet-diverse validate`, of speech with --headers
    prepare    `espnet-diverse prepare kaldi`, of speech that is kept in its place
    combine    `espnet-diverse combine` of the data and of 100 sentences or recordings
    fix        `espnet-diverse validate --fix`
    export     `espnet-diverse export lhotse` (speech)
    tokens     `espnet-diverse tokens`: all characters of the texts
    bpe, unigram  `espnet-diverse tokens` of text alone, with at most 1,000 pieces
    stats      `espnet-diverse stats` (text)
    train      `espnet-diverse train` with one update: checks, batches, the update, validation on 100 sentences
    decode     listing of the utterances that `espnet-diverse decode` would decode, without a model
    score      `espnet-diverse score`: WER of sentences against their halves the other way round (text)

The seconds are CPU seconds of the process, in one thread, which other load of the machine disturbs little; --output has
the wall clock too. The memory is the peak of the resident set (`ru_maxrss`), with the pages of files that are mapped.
Both contain the start, mostly imports: microseconds an utterance are those beyond the smallest of the sizes. A stage
that takes more than --memory_limit of data is stopped and is named as failed.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from growth_data import write_shapes, write_speech_data, write_text_data

_BOTH = ("validate", "prepare", "combine", "fix", "tokens", "bpe", "unigram", "train", "decode")
DATA = {"text": (*_BOTH, "stats", "score"), "speech": (*_BOTH, "export")}
STAGES = tuple(dict.fromkeys([*_BOTH[:4], "export", *_BOTH[4:7], "stats", *_BOTH[7:], "score"]))
_VALID = 100
_MANY = 1000  # times the smallest size: with fewer, seconds of the start vary more than those of the rows
_TRAINING = [
    *("max_epoch=1", "num_iters_per_epoch=1", "num_workers=0"),
    *("optim=adam", "encoder_conf.num_blocks=1", "decoder_conf.num_blocks=1"),
]
_TEXT = ["batch_type=tokens", "batch_bins=4096"]
_SPEECH = ["batch_type=numel", "batch_bins=600000"]
_LIST = """
import sys
from pathlib import Path
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory.decode_dir import list_jobs
from espnet_diverse.decoding.directory.utterances import Description
jobs = list_jobs(Description("cpu", KnownConditions(), sys.argv[3], 1, 1000), Path(sys.argv[1]), {})
assert sum(1 for job in jobs if not job.fault) == int(sys.argv[2])
"""


@dataclass(frozen=True)
class Measured:
    """A stage at one size: seconds by the clock and of CPU, peak of the resident set in bytes, whether it succeeded."""

    rows: int
    stage: str
    seconds: float
    cpu: float
    peak: int
    done: bool = True


def main(argv: list[str] | None = None) -> None:
    """Make the data, run the stages, and print the table."""
    args = _arguments(argv)
    print(
        f"espnet_diverse of this tree, Python {sys.version.split()[0]}, torch {version('torch')}, load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs at the start"
    )
    earlier = [Measured(**one) for file in args.add for one in json.loads(file.read_text(encoding="utf-8"))]
    measured: list[Measured] = []
    for rows in args.rows:
        folder = args.work_dir / f"rows{rows}"
        try:
            write = write_speech_data if args.data == "speech" else write_text_data
            write(folder / "train", rows, seed=1)
            write(folder / "valid", _VALID, seed=2)
            if args.data == "speech" and "train" in args.stages:
                write_speech_statistics(folder)
            for stage in [stage for stage in STAGES if stage in args.stages and stage in DATA[args.data]]:
                measured.append(measure(stage, rows, folder, args))
                print(json.dumps(asdict(measured[-1])), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if args.output:
            args.output.write_text(json.dumps([asdict(one) for one in measured], indent=1) + "\n", encoding="utf-8")
    together = sorted([*earlier, *measured], key=lambda one: (STAGES.index(one.stage), one.rows))
    print(*table(together), sep="\n")
    if args.plot:
        plot(together, args.plot)


def measure(stage: str, rows: int, folder: Path, args: argparse.Namespace) -> Measured:
    """Run a stage on the data in `folder`, with what the stages before it have written there."""
    limit = int(args.memory_limit * 1e9)

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    log = folder / f"{stage}.log"
    start = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *command(stage, rows, folder, args.data)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            preexec_fn=bound,
        )
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]), file=sys.stderr)
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(rows, stage, seconds, cpu, usage.ru_maxrss * 1024, process.returncode == 0)


def command(stage: str, rows: int, folder: Path, data: str) -> list[str]:
    """Arguments of Python for a stage."""
    names = ("train", "valid", "tokens", "stats", f"{stage}.out")
    train, valid, tokens, stats, out = (str(folder / name) for name in names)
    speech = data == "speech"
    run = ["--train_dir", train, "--valid_dir", valid, "--tokens_dir", tokens, *([] if speech else ["--task", "mt"])]
    settings = [*_TRAINING, *(_SPEECH if speech else _TEXT)]
    config = ["--config", "model/tiny" if speech else "model/mt_mini"]
    config += [word for value in settings for word in ("--set", value)]
    texts = ["--text", f"{train}/text"]
    source = [] if speech else [f"{train}/src_text"]
    headers = ["--headers"] if speech else []
    pieces = ["tokens", *texts, "--output_dir", out, "--vocab_size", str(min(1000, rows // 2)), "--type"]
    sides = ["--reference", f"{train}/text", "--hypothesis", f"{train}/src_text"]
    arguments = {
        "validate": ["validate", train, *headers],
        "prepare": ["prepare", "kaldi", train, "--sets", "train", "--output_dir", out],
        "combine": ["combine", train, valid, "--output_dir", out],
        "fix": ["validate", train, "--fix", out, *headers],
        "export": ["export", "lhotse", train, "--output", out],
        "tokens": ["tokens", *texts, *source, "--output_dir", tokens],
        "bpe": [*pieces, "bpe"],
        "unigram": [*pieces, "unigram"],
        "stats": ["stats", *config, *run, "--output_dir", stats],
        "train": ["train", *config, *run, "--stats_dir", stats, "--output_dir", out],
        "score": ["score", *sides, "--output_dir", out, "--metric", "wer"],
    }
    listed = ["-c", _LIST, train, str(rows), "wav.scp" if speech else "src_text"]
    return listed if stage == "decode" else ["-m", "espnet_diverse", *arguments[stage]]


def write_speech_statistics(folder: Path) -> None:
    """Write the vocabulary and the statistics of speech: those of `valid`, with the shapes of `train`."""
    small = folder / "small"
    small.mkdir()
    for name in ("train", "valid"):
        (small / name).symlink_to(folder / "valid")
    for stage in ("tokens", "stats"):
        subprocess.run([sys.executable, *command(stage, _VALID, small, "speech")], check=True)
    for stage in ("tokens", "stats"):
        (small / stage).replace(folder / stage)
    write_shapes(folder / "train", folder / "stats" / "train")


def table(measured: list[Measured]) -> Iterator[str]:
    """Markdown table: CPU seconds, microseconds an utterance beyond the smallest size, and memory of each stage."""
    stages = list(dict.fromkeys(one.stage for one in measured))
    yield f"| utterances | {' | '.join(stages)} |"
    yield "|---" * (len(stages) + 1) + "|"
    first: dict[str, Measured] = {}
    by_size: dict[int, dict[str, str]] = {}
    for one in measured:
        least = first.setdefault(one.stage, one)
        many = one.rows >= _MANY * least.rows
        each = f"{1e6 * (one.cpu - least.cpu) / (one.rows - least.rows):.1f} µs, " if many else ""
        cell = f"{one.cpu:.{0 if one.cpu >= 10 else 1}f} s, {each}{one.peak / 1e9:.2f} GB"
        by_size.setdefault(one.rows, {})[one.stage] = cell if one.done else f"stopped at {one.peak / 1e9:.2f} GB"
    for rows, cells in sorted(by_size.items()):
        yield f"| {rows:,} | {' | '.join(cells.get(stage, '') for stage in stages)} |"


def plot(measured: list[Measured], path: Path) -> None:
    """Draw CPU seconds and peak memory of the stages against the number of utterances, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    seconds, memory = figure.subplots(1, 2)
    for stage in dict.fromkeys(one.stage for one in measured):
        some = [one for one in measured if one.stage == stage and one.done]
        rows = [one.rows for one in some]
        seconds.loglog(rows, [one.cpu for one in some], marker="o", label=stage)
        memory.loglog(rows, [one.peak / 1e9 for one in some], marker="o", label=stage)
    bound = memory.axhline(4, color="grey", linestyle="--", label="4 GB")
    memory.set_ylim(top=10)
    seconds.set_ylabel("CPU seconds of the process")
    memory.set_ylabel("peak resident set, GB")
    for axes in (seconds, memory):
        axes.set_xlabel("utterances")
        axes.grid(visible=True, alpha=0.3)
    seconds.legend()
    memory.legend(handles=[bound], loc="upper left")  # the stages have the colours of the other half
    figure.savefig(path, dpi=110)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1000, 10_000, 100_000], help="numbers of utterances")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, metavar="STAGE")
    parser.add_argument("--work_dir", type=Path, required=True, help="folder for the data; what is made is deleted")
    parser.add_argument("--data", choices=DATA, default="text", help="text for translation, or speech (text)")
    parser.add_argument("--memory_limit", type=float, default=8.0, metavar="GB", help="of the data of a process (8)")
    parser.add_argument("--output", type=Path, help="write every measurement to this JSON file")
    parser.add_argument("--add", type=Path, nargs="+", default=[], metavar="FILE", help="--output of earlier runs")
    parser.add_argument("--plot", type=Path, help="draw seconds and memory to this file")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
