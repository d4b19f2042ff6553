"""Build the vocabulary of a data directory: tokens.txt, tokens.yaml and, for bpe and unigram, bpe.model.

The type bert is the vocabulary of a pretrained encoder, given by --bert; its tokenizer.json is copied.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from espnet_diverse.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `espnet-diverse tokens`."""
    parser.add_argument(
        "--text",
        required=True,
        nargs="+",
        type=Path,
        help="transcripts to build the vocabulary from, with one 'utterance text' per line; several files are joined",
    )
    parser.add_argument("--output_dir", required=True, type=Path, help="directory for the vocabulary")
    parser.add_argument("--type", default="char", help="char, bpe, unigram or bert (default: char)")
    parser.add_argument(
        "--vocab_size", type=int, help="number of tokens, including special ones (bpe and unigram only)"
    )
    parser.add_argument(
        "--input_sentence_size",
        type=int,
        metavar="N",
        help="number of transcripts to train bpe and unigram on, drawn at random if there are more; 0 for all "
        "(default: 1000000)",
    )
    parser.add_argument(
        "--bert", metavar="PATH", help="directory of the pretrained encoder, or hf:owner/name (bert only)"
    )
    parser.add_argument(
        "--coverage",
        nargs="+",
        default=[],
        type=Path,
        metavar="TEXT",
        help="other transcripts, whose unknown characters are reported",
    )


def inputs(args: argparse.Namespace) -> list[Path]:
    """Files that are read."""
    return [*args.text, *args.coverage]


def outputs(args: argparse.Namespace) -> list[Path]:
    """Files that are written."""
    from espnet_diverse.text.vocabulary import MODEL_FILES

    model = MODEL_FILES.get(args.type)
    names = ("tokens.txt", "tokens.yaml", *([model] if model else []))
    return [args.output_dir / name for name in names]


def check(args: argparse.Namespace, before: Mapping[str, argparse.Namespace]) -> None:
    """Check the options and the directory to write; see `bin/plan_steps.py`."""
    from espnet_diverse.text.sentencepiece_training import checked_size
    from espnet_diverse.text.vocabulary import check_target, check_type

    check_type(args.type)
    if args.type in ("bpe", "unigram"):
        checked_size(args.type, args.vocab_size)
    elif args.input_sentence_size is not None:
        what = f"--input_sentence_size {args.input_sentence_size}"
        raise ConfigError(f"{what} is for the types bpe and unigram; leave it out")
    is_bert = args.type == "bert"
    if is_bert != bool(args.bert) or is_bert and args.vocab_size is not None:
        raise ConfigError(
            "--type bert needs --bert PATH and no --vocab_size, and other types do not have --bert; correct the options"
        )
    check_target(args.output_dir)


def run(args: argparse.Namespace) -> int:
    """Build and save the vocabulary; print its size and the characters of the `--coverage` texts that it lacks."""
    from espnet_diverse.data.tables import pack_texts
    from espnet_diverse.text.sentencepiece_training import INPUT_SENTENCE_SIZE
    from espnet_diverse.text.vocabulary import Vocabulary

    check(args, {})
    tables = [pack_texts(path) for path in args.text]
    others = {path: pack_texts(path).values() for path in args.coverage}
    if args.type == "bert":
        vocabulary = Vocabulary.of_bert(args.bert)
    else:
        count = sum(map(len, tables))
        print(f"building a vocabulary of type {args.type} from {count} transcripts", file=sys.stderr)
        size = INPUT_SENTENCE_SIZE if args.input_sentence_size is None else args.input_sentence_size
        transcripts = (transcript for table in tables for transcript in table.values())
        vocabulary = Vocabulary.train(transcripts, args.type, args.vocab_size, size)
    vocabulary.save(args.output_dir)
    print(f"{args.output_dir}: {len(vocabulary)} tokens ({args.type})")
    for path, lines in others.items():
        print(f"{path}: {vocabulary.coverage(lines)}")
    return 0
