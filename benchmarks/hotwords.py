"""Recall of words that a model was not trained on, with and without `--hotwords`.

    cd egs/aishell/asr1
    ./run.sh --corpus synthetic --stop_stage data
    python ../../../benchmarks/hotwords.py split data/synthetic data/hotwords
    ./run.sh --data_dir data/hotwords --stage tokens --stop_stage train --test_sets 'rare common' \\
        --speed_perturb 1.0 --config model/small,attention/sdma,conf/demo.yaml
    python ../../../benchmarks/hotwords.py measure exp/hotwords_* data/hotwords --set beam_size=20 ctc_weight=0.5

The sentences of the synthetic corpus come from a grammar of some 200 words, so none of them is rare. `split` makes some
rare: it takes every utterance with one of `WORDS` out of training and development. Their characters stay in other
words, so that the model can write them. These utterances, with those of the test set, are the set `rare`; the test
utterances without such a word are the set `common`. The speakers of `rare` are those of training as well, with other
sentences; its sentences are not in training.

`measure` decodes both sets with each weight, and prints a row for each:

- recall: occurrences of the words in the references of `rare` that are also in the hypotheses;
- CER of `rare`, and of `common`, spaces ignored; and of what is beside the words in `rare`: errors in their characters
  and insertions between them do not count;
- false: occurrences of phrases of the list in the hypotheses of both sets that their references lack.

A list of hotwords has the words, or with `--distractors N` also N sequences of two to three characters of the
vocabulary that no reference has, as a list of names has many that nobody says.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from espnet_diverse.registration import fast_start

WORDS = ("咖啡馆", "饭馆", "书房", "午饭", "牛奶", "飞机票", "星期天")
WEIGHTS = (0.0, 1.0, 2.0, 3.0)


class Counts(NamedTuple):
    """Occurrences of phrases: in the references, of these in the hypotheses, and in the hypotheses alone."""

    said: int
    found: int
    false: int


def main(argv: list[str] | None = None) -> None:
    """Split a data directory, or measure a model."""
    args = _arguments(argv)
    if args.command == "split":
        split(args.source, args.target, args.words)
        return
    fast_start()
    measure(args)


def split(source: Path, target: Path, words: Sequence[str]) -> None:
    """Write the sets train, dev, rare and common to `target`, from train, dev and test in `source`.

    Raises:
        ValueError: A word has a character that the remaining training text lacks.
    """
    from espnet_diverse.data.kaldi import DataDir, keep_utterances, read_data_dir, write_data_dir
    from espnet_diverse.data.writing.combining import Part, combine

    def having(data: DataDir, wanted: bool) -> DataDir:
        kept = [name for name, text in data.text.items() if any(word in text for word in words) == wanted]
        return keep_utterances(data, kept)

    sets = {name: read_data_dir(source / name) for name in ("train", "dev", "test")}
    whole = combine([Part("", source / "train"), Part("", source / "test")])
    made = {name: having(sets[name], False) for name in ("train", "dev")}
    made |= {"rare": having(whole, True), "common": having(sets["test"], False)}
    characters = set("".join(made["train"].text.values()))
    for word in words:
        if lacking := sorted(set(word) - characters):
            raise ValueError(f"without {word!r} the training text has no {' '.join(lacking)}; leave other words out")
    for name, data in made.items():
        write_data_dir(data, target / name)
        print(f"{target / name}: {len(data.text)} utterances")


def count(phrases: Iterable[str], references: Mapping[str, str], hypotheses: Mapping[str, str]) -> Counts:
    """Count occurrences of phrases, utterance by utterance, without regard to where they are."""
    pairs = [
        (references[name].count(phrase), hypotheses.get(name, "").count(phrase))
        for phrase in phrases
        for name in references
    ]
    said, found = sum(said for said, _ in pairs), sum(map(min, pairs))
    return Counts(said, found, sum(heard for _, heard in pairs) - found)


def distractors(number: int, characters: Sequence[str], references: Iterable[str], seed: int = 0) -> list[str]:
    """Different sequences of two to three characters that no reference has."""
    random, text, made = np.random.default_rng(seed), "\n".join(references), dict[str, None]()
    while len(made) < number:
        phrase = "".join(random.choice(characters, random.integers(2, 4)))
        if phrase not in text:
            made[phrase] = None
    return list(made)


def measure(args: argparse.Namespace) -> None:
    """Decode with each weight, and print the table."""
    from espnet_diverse.data.tables import read_table

    references = {name: read_table(args.data_dir / name / "text") for name in ("rare", "common")}
    texts = [text for table in references.values() for text in table.values()]
    characters = sorted(set("".join(read_table(args.data_dir / "train" / "text").values())) - {" "})
    phrases = [*args.words, *distractors(args.distractors, characters, texts)]
    print(len(phrases), "phrases;", ", ".join(f"{len(table)} {name} utterances" for name, table in references.items()))
    print("| hotword_weight | recall | CER rare | beside words | CER common | false |\n" + 6 * "|---" + "|", flush=True)
    scored = (("rare", ()), ("rare", args.words), ("common", ()))
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "hotwords.txt"
        listed.write_text("".join(f"{phrase}\n" for phrase in phrases), encoding="utf-8")
        for weight in args.weights:
            found = {name: _decoded(args, name, listed, weight, Path(folder)) for name in references}
            rare = count(args.words, references["rare"], found["rare"])
            false = sum(count(phrases, references[name], found[name]).false for name in references)
            rates = [error_rate(references[name], found[name], words) for name, words in scored]
            recall = f"{100 * rare.found / rare.said:.1f} % ({rare.found} of {rare.said})"
            print("|", " | ".join([f"{weight:g}", recall, *map("{:.1f}".format, rates), str(false)]), "|", flush=True)


def _decoded(args: argparse.Namespace, name: str, hotwords: Path, weight: float, folder: Path) -> dict[str, str]:
    from espnet_diverse.bin.main import main as command

    output_dir = folder / f"{name}_{weight:g}"
    words = ["decode", args.model_dir, "--data_dir", args.data_dir / name, "--output_dir", output_dir]
    words += [word for change in args.set for word in ("--set", change)]
    words += ["--hotwords", hotwords, "--hotword_weight", weight] if weight else []
    with redirect_stdout(sys.stderr):  # which is not part of the table
        if command([str(word) for word in (*words, "--nj", args.nj)]):
            raise SystemExit(1)
    lines = (output_dir / "text").read_text(encoding="utf-8").splitlines()  # of which some may be empty
    return {name: text for name, _, text in (line.partition(" ") for line in lines)}


def error_rate(references: Mapping[str, str], hypotheses: Mapping[str, str], words: Sequence[str] = ()) -> float:
    """Character error rate in percent beside the words: without what is within an occurrence in a reference."""
    from espnet_diverse.scoring.error_rate import ErrorRate

    metric, names = ErrorRate("char"), list(references)
    pairs = [references[name] for name in names], [hypotheses.get(name, "") for name in names]
    errors = units = 0
    for sentence in metric.align(*pairs, [""] * len(names)):
        text = "".join(left for left, _ in sentence if left is not None)
        spans = [(found.start(), found.end()) for word in words for found in re.finditer(re.escape(word), text)]
        at = 0
        for left, right in sentence:
            end = at + (left is not None)
            if not any(start < end and at < stop for start, stop in spans):
                errors, units = errors + (left != right), units + (left is not None)
            at = end
    return 100 * errors / units


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    commands = parser.add_subparsers(dest="command", required=True)
    splitting = commands.add_parser("split", help="take words out of training")
    splitting.add_argument("source", type=Path, help="prepared data with the sets train, dev and test")
    splitting.add_argument("target", type=Path, help="folder for the sets train, dev, rare and common")
    measuring = commands.add_parser("measure", help="decode with hotwords")
    measuring.add_argument("model_dir", type=Path, help="run that was trained on the sets of `split`")
    measuring.add_argument("data_dir", type=Path, help="folder of these sets")
    measuring.add_argument("--weights", nargs="+", type=float, default=WEIGHTS, help="0 is without hotwords")
    measuring.add_argument("--distractors", type=int, default=0, help="phrases in the list that nobody says")
    measuring.add_argument("--set", nargs="+", default=[], help="search options, such as beam_size=20")
    measuring.add_argument("--nj", type=int, default=1, help="parallel jobs")
    for each in (splitting, measuring):
        each.add_argument("--words", nargs="+", default=WORDS, help="the rare words")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
