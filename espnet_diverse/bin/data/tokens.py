"""Build the vocabulary of a data directory: tokens.txt, tokens.yaml and, for bpe, unigram and byte, bpe.model.

The type bert is the vocabulary of a pretrained encoder, given by --bert; its tokenizer.json is copied.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_diverse.bin.options.arguments import Arguments, adder
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import listed, number, path
from espnet_diverse.option_checks import text as any_text
from espnet_diverse.text.sentencepiece_training import INPUT_SENTENCE_SIZE


class CommandOptions(Arguments):
    text: Sequence[Path] = listed(
        of=path(),
        help="transcripts to build the vocabulary from, with one 'utterance text' per line; several files are joined",
    )
    output_dir: Path = path(help="directory for the vocabulary")
    type: str = any_text("char", help="char, byte, bpe, unigram or bert")
    vocab_size: int | None = number(
        None, kind=int, help="number of tokens, including special ones (bpe and unigram only)"
    )
    input_sentence_size: int | None = number(
        None,
        kind=int,
        metavar="N",
        help="number of transcripts to train bpe and unigram on, drawn at random if there are more; 0 for all",
        shown=str(INPUT_SENTENCE_SIZE),
    )
    bert: str | None = any_text(
        None, metavar="PATH", help="directory of the pretrained encoder, or hf:owner/name (bert only)"
    )
    coverage: Sequence[Path] = listed(
        (), of=path(), metavar="TEXT", help="other transcripts, whose unknown characters are reported"
    )


add_arguments = adder(CommandOptions)


def inputs(options: CommandOptions) -> list[Path]:
    """Files that are read."""
    return [*options.text, *options.coverage]


def outputs(options: CommandOptions) -> list[Path]:
    """Files that are written."""
    from espnet_diverse.text.vocabulary import MODEL_FILES

    model = MODEL_FILES.get(options.type)
    names = ("tokens.txt", "tokens.yaml", *([model] if model else []))
    return [options.output_dir / name for name in names]


def check(options: CommandOptions, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the options and the directory to write; see `bin/plan_steps.py`."""
    from espnet_diverse.text.sentencepiece_training import checked_size
    from espnet_diverse.text.vocabulary import check_target, check_type

    check_type(options.type)
    if options.type in ("bpe", "unigram"):
        checked_size(options.type, options.vocab_size)
    elif options.input_sentence_size is not None:
        option = f"--input_sentence_size {options.input_sentence_size}"
        raise ConfigError(f"{option} is for the types bpe and unigram; leave it out")
    is_bert = options.type == "bert"
    if is_bert != bool(options.bert) or is_bert and options.vocab_size is not None:
        raise ConfigError(
            "--type bert needs --bert PATH and no --vocab_size, and other types do not have --bert; correct the options"
        )
    check_target(options.output_dir)


def run(options: CommandOptions) -> int:
    """Build and save the vocabulary; print its size and the characters of the `--coverage` texts that it lacks."""
    from espnet_diverse.data.tables import pack_texts
    from espnet_diverse.text.vocabulary import Vocabulary

    check(options, {})
    tables = [pack_texts(path) for path in options.text]
    coverage_texts = {path: pack_texts(path).values() for path in options.coverage}
    if options.type == "bert":
        vocabulary = Vocabulary.of_bert(options.bert)
    else:
        count = sum(map(len, tables))
        print(f"building a vocabulary of type {options.type} from {count} transcripts", file=sys.stderr)
        size = INPUT_SENTENCE_SIZE if options.input_sentence_size is None else options.input_sentence_size
        transcripts = (transcript for table in tables for transcript in table.values())
        vocabulary = Vocabulary.train(transcripts, options.type, options.vocab_size, size)
    vocabulary.save(options.output_dir)
    print(f"{options.output_dir}: {len(vocabulary)} tokens ({options.type})")
    for file, lines in coverage_texts.items():
        print(f"{file}: {vocabulary.coverage(lines)}")
    return 0
