"""Compare the runs of one experiment: score, redundancy of heads, parameters, time and memory of training and decoding.

    cd egs/multi30k/mt1
    python ../../../benchmarks/trained_runs.py exp/multi30k_5k_{softmax,window,linformer}_seed1 --set test_2016_flickr \
        --metric bleu --data_dir data/multi30k_5k --plot runs.png

The first run is the baseline. All runs have the same data and batches; paths in their configurations are relative to
the folder that the command is started in. The columns:

    score            that of --metric on --set, which the recipe has computed
    LR, distance     redundancy of a layer / log2 H and distance of heads (`espnet-diverse analyse`), on --utterances of
                     the set, evenly spaced; means over the kinds of attention that keep their weights in all runs that
                     have such attentions, which are named above the table
    diversity        of the slots of the memory, on the validation set in the last epoch; only if a run has a memory
    parameters       of the model
    step             time of an epoch of --batches batches of the trainer: forward, backward, repulsion of heads,
                     clipping and optimizer
    step peak        memory that these allocate, without the weights
    decoding         time to decode --utterances of the set, with the options of config.yaml and --beam_size

Language models (--task lm) have in place of score, LR and distance the word perplexity of the set, which the recipe has
computed; "decoding" computes the perplexity of the utterances. Classifiers (--task cls --metric accuracy) have no LR
and distance, and "decoding" classifies the utterances.

Times and memory are ratios to the baseline; measuring.py describes how they are measured. A step has the auxiliary
losses of the attentions and the repulsion of the run.

`--rows FILE` draws the table of this program that a file holds, and measures nothing:

    python benchmarks/trained_runs.py --rows egs/sentence/cls1/RESULTS.md --task cls --metric accuracy --set test \
        --plot docs/classification.png
"""

import argparse
import json
import math
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import measuring
import numpy as np
import results
import torch
from matplotlib.transforms import Bbox
from translation import round_of

from espnet_diverse.registration import fast_start

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CPU = torch.device("cpu")
HEAD = ("run", "score", "parameters", "step", "step peak", "decoding")
AREA = 150  # of the point of the baseline, in square points
DIGITS = {"LR / log2 H": 3, "distance": 2, "diversity of slots": 2}  # of what is measured beside score, time and memory


@dataclass(frozen=True)
class Row:
    """A run in the table; times and memory are ratios to those of the baseline.

    Attributes:
        run: Name of its folder, without what the names of all runs begin and end with.
        score: Score on the set.
        measures: LR / log2 H and distance of the heads, not numbers where no attention keeps its weights; diversity of
            the slots, not a number without a memory.
        parameters: Number of parameters.
        step, peak, decoding: Ratios.
    """

    run: str
    score: float
    measures: dict[str, float]
    parameters: int
    step: float
    peak: float
    decoding: float

    def __str__(self) -> str:
        measures = [_number(value, DIGITS[name]) for name, value in self.measures.items()]
        ratios = [f"{value:.2f}" for value in (self.step, self.peak, self.decoding)]
        cells = (self.run, f"{self.score:.1f}", *measures, f"{self.parameters / 1e6:.2f} M", *ratios)
        return f"| {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> None:
    """Measure, print the table, and draw --plot."""
    args = _arguments(argv)
    if args.rows:
        _draw(read_rows(args.rows), args)
        return
    fast_start()
    conditions = measuring.conditions(f"medians of {args.repeats} rounds", CPU)
    print(*conditions, "", sep="\n", flush=True)
    rows, measured = _rows(args)
    for name in [name for name in rows[0].measures if all(math.isnan(row.measures[name]) for row in rows)]:
        for row in rows:
            del row.measures[name]
    head = (*HEAD[:2], *rows[0].measures, *HEAD[2:])
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|", *rows, sep="\n")
    if args.plot:
        _draw(rows, args)
    results.finish(args, conditions, measured)


def _arguments(argv: list[str] | None) -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folder of a run; the first is the baseline")
    parser.add_argument("--data_dir", type=Path, help="folder with the data directory of the set")
    parser.add_argument("--set", required=True, help="set to score and decode")
    parser.add_argument("--metric", default="cer", help="metric of the score (default: cer; lm has its own)")
    parser.add_argument("--task", default="mt", choices=("asr", "st", "mt", "lm", "cls"))
    parser.add_argument("--batches", type=int, default=6, help="of a step, evenly spaced by length (default: 6)")
    parser.add_argument("--utterances", type=int, default=64, help="to analyse and to decode (default: 64)")
    parser.add_argument("--beam_size", type=int, default=5, help="of decoding (default: 5)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--plot", type=Path, help="draw the score against time and memory of a step to this file")
    parser.add_argument("--rows", type=Path, help="file with a table of this program, to draw in place of runs")
    results.add_arguments(parser)
    args = results.parsed(parser, argv)
    if not (args.plot and not args.runs if args.rows else args.runs and args.data_dir):
        parser.error("give runs with --data_dir, or --rows with --plot")
    return args


def read_rows(file: Path) -> list[Row]:
    """The rows of the table of classifiers in a Markdown file, as `main` prints it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    first = lines.index(f"| {' | '.join(HEAD)} |") + 2
    cells = [line.strip("| ").split(" | ") for line in takewhile(bool, lines[first:])]
    return [
        Row(run, float(score), {}, round(float(millions.removesuffix(" M")) * 1e6), *map(float, ratios))
        for run, score, millions, *ratios in cells
    ]


def _rows(args: Namespace) -> tuple[list[Row], list[results.Row]]:
    """The rows of the table, and all measurements."""
    steps, decodings, parameters = {}, {}, {}
    for folder in args.runs:
        steps[folder.name], parameters[folder.name] = _step(folder, args)
        decodings[folder.name] = {"lm": _perplexity, "cls": _classification}.get(args.task, _decoding)(folder, args)
    trained = measuring.compare(steps, args.repeats, CPU)
    decoded = measuring.compare(decodings, args.repeats, CPU, memory=False)
    first = args.runs[0].name
    measures = _measures(args)
    rows = [
        Row(
            name,
            _score(folder, args),
            measures[folder.name],
            parameters[folder.name],
            trained[folder.name].cost / trained[first].cost,
            trained[folder.name].peak / trained[first].peak,
            decoded[folder.name].cost / decoded[first].cost,
        )
        for folder, name in zip(args.runs, short_names([folder.name for folder in args.runs]), strict=True)
    ]
    sizes = f"{args.batches} batches", f"{args.utterances} utterances of {args.set}"
    measured = zip(("A training step", "Decoding"), sizes, (trained, decoded), strict=True)
    return rows, [results.Row(*row) for row in measured]


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the words, joined by "_", that all of them begin and end with."""
    words = [name.split("_") for name in names]
    for end in (0, -1):
        while len(words) > 1 and min(map(len, words)) > 1 and len({each[end] for each in words}) == 1:
            for each in words:
                each.pop(end)
    return ["_".join(each) for each in words]


def _score(folder: Path, args: Namespace) -> float:
    file, *keys = {
        "lm": ("perplexity.json", "word_perplexity"),
        "cls": ("classification.json", args.metric),
    }.get(args.task, ("score.json", "metrics", args.metric, "overall", "score"))
    found = json.loads((folder / "decode" / args.set / file).read_text(encoding="utf-8"))
    for key in keys:
        found = found[key]
    return found


def _measures(args: Namespace) -> dict[str, dict[str, float]]:
    """What `Row.measures` has, by the name of a run."""
    from espnet_diverse.analysis.collect import KINDS

    found = {folder: {} if args.task in ("lm", "cls") else _redundancy(folder, args) for folder in args.runs}
    common = [kind for kind in KINDS if any(found.values()) and all(kind in each for each in found.values() if each)]
    if common:
        print(f"LR and distance: means over {' and '.join(KINDS[kind] for kind in common)}.\n", flush=True)
    measures = {}
    for folder, kinds in found.items():
        means = np.mean([kinds[kind] for kind in common], axis=0) if kinds and common else (math.nan, math.nan)
        measures[folder.name] = dict(zip(DIGITS, (*means, _diversity(folder)), strict=True))
    return measures


def _diversity(folder: Path) -> float:
    """Diversity of the slots on the validation set in the last epoch; not a number without a memory."""
    from espnet_diverse.runs import checkpoint

    epochs = checkpoint.load(folder / checkpoint.CHECKPOINT)["reporter"]["stats"]
    return epochs[max(epochs)]["valid"].get("memory_diversity", math.nan)


def _redundancy(folder: Path, args: Namespace) -> dict[str, tuple[float, float]]:
    """LR / log2 H and distance of each kind of attention of a run that keeps its weights."""
    from espnet_diverse.analysis.measurements import choose_utterances, survey
    from espnet_diverse.analysis.teacher_forcing import load, source_vocabulary
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.decoding.condition_ids import condition_indices, known_conditions
    from espnet_diverse.errors import ModelError
    from espnet_diverse.text.vocabulary import Vocabulary

    data = read_data_dir(args.data_dir / args.set)
    model, rate = load(folder)
    chosen = choose_utterances(data, args.utterances)
    indices = condition_indices(known_conditions(model), args.data_dir / args.set, chosen, {})
    try:
        found = survey(model, Vocabulary.load(folder), data, indices, source_vocabulary(folder), rate)
    except ModelError:  # no attention of it keeps its weights
        return {}
    measures = {kind: redundancy.measures() for kind, redundancy in found.redundancy.items()}
    return {kind: (redundancy, distance) for kind, (_, redundancy, _, distance, _) in measures.items()}


def _step(folder: Path, args: Namespace) -> tuple[Callable[[], None], int]:
    """A function that trains a model with the weights of a run on some batches, and its number of parameters."""
    from espnet2.train.distributed_utils import DistributedOption

    from espnet_diverse.runs.tasks import load_model
    from espnet_diverse.training.loop.tasks import TASKS

    task = TASKS[args.task]
    model, options = load_model(folder, task=args.task)
    options.num_workers, options.num_iters_per_epoch = 0, None
    options.save_interval_steps = 0  # which runs of earlier versions do not have
    optimizer = task.build_optimizers(options, model)[0]
    factory = task.build_iter_factory(options, DistributedOption(), "train")
    batches = sorted(factory.sampler.batches, key=len)
    spaced = np.linspace(0, len(batches) - 1, args.batches).round().astype(int)
    factory.sampler.batches = [batches[index] for index in spaced]
    return round_of(task, options, model, optimizer, factory), sum(each.numel() for each in model.parameters())


def _decoding(folder: Path, args: Namespace) -> Callable[[], None]:
    """A function that decodes some utterances of the set, in one batch."""
    from espnet_diverse.analysis.measurements import choose_utterances
    from espnet_diverse.analysis.samples import input_of, read_samples
    from espnet_diverse.data.kaldi import read_data_dir
    from espnet_diverse.decoding.condition_ids import condition_indices
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.decoding.predictor import load_predictor
    from espnet_diverse.text.vocabulary import Vocabulary

    data = read_data_dir(args.data_dir / args.set)
    search = load_predictor(folder, options=SearchOptions(beam_size=args.beam_size))
    chosen = choose_utterances(data, args.utterances)
    indices = condition_indices(search.conditions, args.data_dir / args.set, chosen, {})
    samples, _ = read_samples(partial(input_of, search), Vocabulary.load(folder), data, indices)

    def call() -> None:
        search.batch([each.source for each in samples], [each.conditions for each in samples])

    return call


def _perplexity(folder: Path, args: Namespace) -> Callable[[], object]:
    """A function that scores some texts of the set by the language model of a run, in one batch."""
    from espnet_diverse.data.tables import read_table
    from espnet_diverse.decoding.directory.perplexity import Scorer

    scorer = Scorer(folder)
    texts = list(read_table(args.data_dir / args.set / "text").values())[: args.utterances]
    encoded = [scorer.vocabulary.encode(text) for text in texts]
    return lambda: scorer(encoded, [{}] * len(encoded))


def _classification(folder: Path, args: Namespace) -> Callable[[], object]:
    """A function that classifies some texts of the set by a classifier, in one batch."""
    from espnet_diverse.decoding.directory.classification import Classifier

    classifier = Classifier(folder)
    encoded = list(classifier.read(args.data_dir / args.set).values())[: args.utterances]
    return lambda: classifier(encoded)


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def _draw(rows: Sequence[Row], args: Namespace) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.scatter([row.step for row in rows], [row.score for row in rows], [AREA * row.peak for row in rows], alpha=0.5)
    axes.set_xlabel(f"time of a training step, relative to {rows[0].run} (area: memory of the step)")
    measure = {"lm": "word perplexity", "cls": args.metric}.get(args.task, args.metric.upper())
    axes.set_ylabel(f"{measure} on {args.set}")
    axes.margins(x=0.2, y=0.1)
    axes.grid(alpha=0.3)
    figure.draw_without_rendering()  # places are in pixels, which the layout settles
    points = axes.transData.transform([(row.step, row.score) for row in rows])
    radii = [math.sqrt(AREA * row.peak / math.pi) * figure.dpi / 72 for row in rows]
    taken = [Bbox.from_extents(*(point - r), *(point + r)) for point, r in zip(points, radii, strict=True)]
    for row in sorted(rows, key=lambda row: -row.step):
        taken.append(_label(axes, row, taken))
    figure.savefig(args.plot, dpi=120)


_PLACES = [((x, y), align) for x, align in ((4, "left"), (0, "center"), (-4, "right")) for y in (7, -13)]


def _label(axes: "Axes", row: Row, taken: Sequence[Bbox]) -> Bbox:
    """Write the name of a run beside its point, where it covers least of what is there."""
    label = axes.annotate(row.run, (row.step, row.score), xytext=(0, 0), textcoords="offset points", fontsize=8)
    covered = []
    for place, align in _PLACES:
        label.set(position=place, horizontalalignment=align)
        covered.append(label.get_window_extent().count_overlaps(taken))
    place, align = _PLACES[int(np.argmin(covered))]
    label.set(position=place, horizontalalignment=align)
    return label.get_window_extent()


if __name__ == "__main__":
    main()
