"""Translate monolingual text into training data: back-translation or self-training.

The text of --data_dir is translated. With `back` it becomes the target and the translation the source, which needs a
model of the opposite direction; with `forward` it becomes the source. Beam search writes the most probable
translations; --search sampling draws from the model's distribution, which gives better training data if there is much
text. Ids begin with bt- or st-. The command `combine` merges the result with other data. Exit code 2 means that
sentences were dropped; dropped.tsv lists them.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import adder
from espnet_diverse.bin.options.input_paths import DATA_DIR
from espnet_diverse.bin.use import decode
from espnet_diverse.option_checks import choice, number, path

_WRITTEN = ("text", "src_text", "utt2lang", "utt2tgtlang", "utt2domain", "dropped.tsv")


class CommandOptions(decode.CommandOptions):
    kind: str = choice(
        *("back", "forward"),
        required=True,
        positional=True,
        help="back: the text becomes the target; forward: it becomes the source",
    )
    data_dir: Path = path(parse=DATA_DIR, help="data directory with the text to translate")
    output_dir: Path = path(help="data directory to write")
    max_ratio: float = number(
        4.0, least=1, most=inf, help="maximum ratio of the numbers of characters of the two sides"
    )
    noise: float = number(
        0.0,
        least=0,
        below=1,
        help="probability with which a word of the source side is left out; the others move by up to three places",
    )


_add_model = partial(shared.add_model, text="directory of a run of text translation, or a packed model")
add_arguments = adder(
    (CommandOptions, "kind"),
    _add_model,
    (CommandOptions, "data_dir", "output_dir", "max_ratio", "noise"),
    *decode.DECODING,
)
inputs = decode.inputs


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    return [options.output_dir / name for name in ("text", "src_text")]


def check(options: CommandOptions, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the search options; see `bin/plan_steps.py`.

    Raises:
        ConfigError: An option is not valid.
    """
    decode.check(options, before)


def run(options: CommandOptions) -> int:
    """Translate and write; return 2 if a sentence was dropped."""
    from espnet_diverse.data.kaldi import read_data_dir, write_data_dir
    from espnet_diverse.data.output_paths import check_prepared, mark_prepared
    from espnet_diverse.data.tables import read_table
    from espnet_diverse.data.writing.back_translation import Monolingual, augment
    from espnet_diverse.decoding.encoder.precision import check_device

    check(options, {})  # a wrong option is refused before anything is written
    if not options.cluster:
        check_device(options.device)
    check_prepared(options.output_dir)
    language = options.conditions.get("tgtlang")
    sentences = Monolingual.of(read_data_dir(options.data_dir), options.conditions)
    if bool(sentences.languages) != bool(language):
        lacking = "sentences without utt2lang or --language" if language else "translations without --target_language"
        lost = "their language is not known, so the pairs get no utt2lang and utt2tgtlang"
        shared.notice(f"{lacking}: {lost}; give it, or combine with --fill")
    work = options.output_dir / "translation"  # keeps the model's input and output for inspection
    options.output_dir.mkdir(parents=True, exist_ok=True)
    mark_prepared(options.output_dir, later=[*_WRITTEN, work.name])  # first: after a kill it can run again
    write_data_dir(sentences.to_translate(language), work / "input")
    # Conditions are tables, which decoding reads if the model needs them, and which the result keeps in any case.
    decode.run(replace(options, data_dir=work / "input", output_dir=work, conditions={}))
    translations = read_table(work / "text", "hypothesis")
    data = augment(sentences, translations, options.kind, language, options.max_ratio, options.noise)
    write_data_dir(data, options.output_dir)
    print(f"{options.output_dir}: {len(data.text)} pairs, {len(data.dropped)} dropped")
    return 2 if data.dropped else 0
