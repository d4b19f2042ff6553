"""Estimate from measured rates what a corpus takes on some GPUs: time of the stages, and storage.

    python benchmarks/scale_estimate.py benchmarks/scale_rates.yaml --gpus 1 8 64

The file of rates says which were measured and which are assumed. With A = 3600 * hours seconds of audio, S copies of
the training data, E epochs, n GPUs, c cores beside each, g cores that a GPU replaces, and U = S A / utterance:

    preparation  S A (1 / prepare + 1 / validate + 1 / stats) / (c n)  +  U row_seconds
    training     S A E / (train g n doubling^(log2 n))
    test sets    tested A / (decode g n)
    transcribing the whole corpus   A / (decode g n)
    storage      S A audio_bytes + U row_bytes + parameters * 4 * (10 + 2 * 3)

The rows of tables are read in one process, whatever the number of GPUs. Waiting for a network file system, failures and
trials of other settings are not counted.
"""

import argparse
import math
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

_WEIGHTS, _STATES = 10, 2 * 3  # copies of the parameters: weights for the average; checkpoints with Adam's moments


@dataclass(frozen=True)
class Rates:
    """What the file of rates has in its sections `measured` and `assumed`, which describe it."""

    prepare: float
    validate: float
    stats: float
    train: float
    decode: float
    audio_bytes: float
    row_seconds: float
    row_bytes: float
    gpu: float
    doubling: float
    cores: float
    speeds: float
    utterance: float
    tested: float
    parameters: float


@dataclass(frozen=True)
class Estimate:
    """Hours of the stages, and terabytes."""

    preparation: float
    training: float
    testing: float
    transcribing: float
    storage: float


def estimate(hours: float, epochs: float, gpus: int, rates: Rates) -> Estimate:
    """The formulas above."""
    train_hours = rates.speeds * hours
    utterances = train_hours * 3600 / rates.utterance
    reading = 1 / rates.prepare + 1 / rates.validate + 1 / rates.stats
    speed = rates.gpu * gpus
    stored = train_hours * 3600 * rates.audio_bytes + utterances * rates.row_bytes
    return Estimate(
        preparation=train_hours * reading / (rates.cores * gpus) + utterances * rates.row_seconds / 3600,
        training=train_hours * epochs / (rates.train * speed * rates.doubling ** math.log2(gpus)),
        testing=rates.tested * hours / (rates.decode * speed),
        transcribing=hours / (rates.decode * speed),
        storage=(stored + rates.parameters * 4 * (_WEIGHTS + _STATES)) / 1e12,
    )


def read_rates(path: Path) -> tuple[Rates, dict[str, dict[str, float]]]:
    """The rates of a file, and hours and epochs of each corpus; SystemExit where one is missing or not positive."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = {**content["measured"], **content["assumed"]}
    names = [field.name for field in fields(Rates)]
    wrong = [name for name in found if name not in names] + [name for name in names if name not in found]
    if wrong:
        raise SystemExit(f"{path}: {wrong[0]} is missing or unknown; known rates: {' '.join(names)}")
    numbers = [*found.items(), *(pair for corpus in content["corpora"].values() for pair in corpus.items())]
    for name, value in numbers:
        if not isinstance(value, int | float) or not value > 0:
            raise SystemExit(f"{path}: {name} is {value!r}; give a number above 0")
    return Rates(**found), content["corpora"]


def main(argv: list[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rates", type=Path, help="YAML file of rates, assumptions and corpora")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 64], help="numbers of GPUs (1 8 64)")
    args = parser.parse_args(argv)
    if min(args.gpus) < 1:
        parser.error(f"--gpus {min(args.gpus)}: must be 1 or more")
    rates, corpora = read_rates(args.rates)
    print("| corpus | epochs | GPUs | preparation | training | test sets | transcribing all of it | storage |")
    print("|---" * 8 + "|")
    for name, corpus in corpora.items():
        for gpus in args.gpus:
            found = estimate(corpus["hours"], corpus["epochs"], gpus, rates)
            stages = (found.preparation, found.training, found.testing, found.transcribing)
            cells = [name, f"{corpus['epochs']:g}", str(gpus), *map(_time, stages), f"{found.storage:.2f} TB"]
            print(f"| {' | '.join(cells)} |")


def _time(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min" if hours >= 1 / 60 else "< 1 min"


if __name__ == "__main__":
    main()
