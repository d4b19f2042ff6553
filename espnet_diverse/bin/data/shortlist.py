"""Estimate which tokens translate which, from training pairs, for the shortlists of `decode`, `translate` and `demo`.

Writes p(target | source) of IBM model 1 as lines "target source probability", the text format of Marian's shortlists.
"""

from pathlib import Path

from espnet_diverse.bin.options.arguments import Arguments, adder
from espnet_diverse.bin.options.input_paths import DATA_DIR, TOKENS_DIR
from espnet_diverse.errors import DataError
from espnet_diverse.option_checks import number, path

_MOST = 1000


class CommandOptions(Arguments):
    data_dir: Path = path(parse=DATA_DIR, help="data directory with text and src_text, such as the training set")
    tokens_dir: Path = path(parse=TOKENS_DIR, help="vocabulary of the model, from `espnet-diverse tokens`")
    src_tokens_dir: Path | None = path(
        None, parse=TOKENS_DIR, help="vocabulary of its source text", shown="--tokens_dir"
    )
    output: Path = path(metavar="FILE", help="file to write, such as lex.s2t")
    best: int = number(
        100, least=1, most=_MOST, help="most translations that are written of each source token, and of NULL"
    )
    iterations: int = number(5, least=1, most=_MOST, help="iterations of EM")


add_arguments = adder(CommandOptions)


def inputs(options: CommandOptions) -> list[Path]:
    """Files and vocabularies that are read."""
    vocabularies = [path for path in (options.tokens_dir, options.src_tokens_dir) if path is not None]
    return [options.data_dir / "src_text", options.data_dir / "text", *vocabularies]


def outputs(options: CommandOptions) -> list[Path]:
    """The file that is written."""
    return [options.output]


def run(options: CommandOptions) -> int:
    """Estimate and write the table; print its size."""
    from espnet_diverse.text.lexical_table import estimate, save
    from espnet_diverse.text.vocabulary import Vocabulary

    target = Vocabulary.load(options.tokens_dir)
    source = Vocabulary.load(options.src_tokens_dir) if options.src_tokens_dir else target
    pairs = _pairs(options.data_dir)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    sources, targets = (
        [words.encode(text) for text in side] for words, side in zip((source, target), pairs, strict=True)
    )
    table = estimate(sources, targets, (len(source), len(target)), options.iterations, options.best)
    save(table, options.output, source.tokens, target.tokens)
    print(f"{options.output}: {len(table.targets)} translations of tokens from {len(sources)} pairs of sentences")
    return 0


def _pairs(data_dir: Path) -> tuple[list[str], list[str]]:
    """The source texts and the target texts.

    Raises:
        DataError: A table cannot be read, or one has a sentence that the other lacks.
    """
    from espnet_diverse.data.tables import pack_texts

    source, target = (pack_texts(data_dir / name) for name in ("src_text", "text"))
    for one, other, name in ((source, target, "text"), (target, source, "src_text")):
        if lacking := next((key for key in one if key not in other), None):
            raise DataError(
                f"{data_dir}: {name} has no {lacking}, which the other side has; run espnet-diverse validate"
            )
    return list(source.values()), list(target.values())
