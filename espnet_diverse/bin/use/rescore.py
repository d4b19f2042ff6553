"""Rerank the n-best hypotheses of `decode --nbest N` with a language model or another model of the same task.

score = (score of the search) + weight * log p(text). The other model may have another vocabulary.
"""

from functools import partial
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR, InputPath
from espnet_diverse.decoding.options import TEXT_TASKS
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import number, path

_NBEST_DIR = InputPath("decode with --nbest 2 or more first", must_have="nbest.jsonl")


class CommandOptions(shared.Model, shared.Conditions, shared.Device):
    decode_dir: Path = path(parse=_NBEST_DIR, help="directory that `decode --nbest N` wrote")
    data_dir: Path | None = path(
        None, parse=DATA_DIR, help="data directory that was decoded; not needed for most language models"
    )
    output_dir: Path = path(help="directory for text, score and nbest.jsonl")
    weight: float = number(0.3, help="weight of the model")


_add_model = partial(shared.add_model, text="a run of task lm, or of the task of the hypotheses, or a packed model")
add_arguments = adder(_add_model, CommandOptions, shared.add_conditions, shared.Device)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and data directories that are read."""
    return [*shared.model_inputs(options), options.decode_dir / "nbest.jsonl", *filter(None, [options.data_dir])]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return [options.output_dir / name for name in ("text", "score", "nbest.jsonl")]


def run(options: CommandOptions) -> int:
    """Rescore, and print how many texts changed."""
    from espnet_diverse.data.output_paths import check_no_data

    check_no_data(options.output_dir)
    from espnet_diverse.decoding.directory.perplexity import Scorer
    from espnet_diverse.decoding.directory.rescoring import LanguageModel, OtherModel, TextScorer, read_nbest, rescore
    from espnet_diverse.decoding.predictor import load_predictor
    from espnet_diverse.runs.tasks import read_config

    nbest = read_nbest(options.decode_dir / "nbest.jsonl")
    conditions, device = options.conditions, options.device
    task = read_config(options.model_dir / "config.yaml").get("task", "asr")
    scorer: TextScorer
    if task in TEXT_TASKS:
        if options.data_dir is None:
            raise ConfigError(f"a model of task {task} needs the data that was decoded; give --data_dir")
        predictor = load_predictor(*options.model, device=device)
        scorer = OtherModel(predictor, options.data_dir, conditions)
    else:
        scorer = LanguageModel(Scorer(*options.model, device), nbest, options.data_dir, conditions)
    changed = rescore(scorer, nbest, options.weight, options.output_dir)
    print(f"{changed} of {len(nbest)} utterances have another best text")
    return 0
