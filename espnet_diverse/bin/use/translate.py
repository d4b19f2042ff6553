"""Translate text line by line, from files or standard input to standard output or a directory.

Each output line is the translation of the input line with the same number; an empty line stays empty. A file that
cannot be read is reported and skipped. A line that the model cannot translate, for example because it has more than
5000 tokens, is reported and its output line is empty. The exit code is then 2, or 1 if no file could be translated.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from espnet_diverse.bin.options import options as shared
from espnet_diverse.bin.options.arguments import Arguments, adder, gathered
from espnet_diverse.conditions import as_arguments
from espnet_diverse.decoding.options import TRANSLATION_SEARCHES
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.option_checks import choice, listed, path

if TYPE_CHECKING:
    from espnet_diverse.decoding.options import SearchOptions
    from espnet_diverse.inference import Translation, Translator

FORMATS = {"txt": "txt", "tsv": "tsv", "json": "jsonl"}  # suffix of the output file by format
OPENS_PACKED_MODELS = True
_DEFAULTS = {"batch_size": 32}  # lines are shorter than utterances
_STDIN = "-"
_LONGEST_LINE = 1 << 26  # bytes; from there on it is no text, as of /dev/zero
_WINDOW = 16  # batches, so that lines of similar length can be translated together


class OutputOptions(Arguments):
    """Options of the output."""

    GROUP = "output"

    output_format: str = choice(
        *FORMATS,
        help="txt: translation; tsv: source, translation and score; json: one object per line with the n-best "
        "translations",
    )
    output_dir: Path | None = path(None, help="directory for one file per input, and failures.json if any")


class CommandOptions(shared.Model, shared.Conditions, shared.TextFusionFiles, shared.Computing, OutputOptions):
    sources: Sequence[str] = listed(
        (),
        nargs="*",
        positional=True,
        metavar="FILE",
        help="text files, or - for standard input",
        shown="standard input",
    )
    text: Sequence[str] = listed((), nargs="append", help="line to translate; can be repeated")
    searching: "Callable[[], SearchOptions]" = gathered(lambda args: partial(shared.search_options, args, **_DEFAULTS))


add_arguments = adder(
    partial(shared.add_model, text="directory of a run of text translation, a packed model, or hf:owner/name"),
    *(CommandOptions, shared.add_conditions),
    partial(shared.add_search_options, searches=TRANSLATION_SEARCHES, **_DEFAULTS),
    *(shared.FusionFiles, shared.TextFusionFiles, shared.Device, shared.Computing, OutputOptions),
)


def run(options: CommandOptions) -> int:
    """Translate; return 2 if a file or a line was skipped, 1 if all files were."""
    if options.text and options.sources:
        raise ConfigError(f"both --text and the file {options.sources[0]} are given; give one of them")
    searching = options.searching()
    inputs = ["text"] if options.text else options.sources or [_STDIN]
    outputs = _outputs(options, inputs)
    from espnet_diverse.inference import Translator

    how = {**options.how, "fusion": shared.fusion(options)}
    translator = Translator(*options.model, options=searching, **how)
    translator.translate("", **as_arguments(options.conditions))  # refuses what fits no line
    skipped = _Skipped()
    for name, output in zip(inputs, outputs, strict=True):
        try:
            _translate(translator, _given(options.text) or _lines(name), output, options, partial(skipped.add, name))
        except (OSError, UnicodeError, DataError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            skipped.add(name, None, error)
    if options.output_dir and skipped:
        from espnet_diverse.decoding.directory.results import write_json

        write_json(options.output_dir / "failures.json", skipped)
    return (1 if all(name in skipped for name in inputs) else 2) if skipped else 0


class _Skipped(dict[str, str]):
    """Reasons for skipping files and lines, by file, or by file and line."""

    def add(self, name: str, number: int | None, error: Exception) -> None:
        place = name if number is None else f"{name}:{number}"
        self[place] = getattr(error, "strerror", None) or str(error)
        print(f"espnet-diverse translate: {place} was skipped: {self[place]}", file=sys.stderr)


def _outputs(options: CommandOptions, inputs: list[str]) -> list[Path | None]:
    """Output file of each input; None is standard output."""
    from espnet_diverse.data.output_paths import check_outputs

    if options.output_dir is None:
        return [None] * len(inputs)
    stems = ["stdin" if name == _STDIN else Path(name).stem for name in inputs]
    for index, stem in enumerate(stems):
        if stem in stems[:index]:
            first = inputs[stems.index(stem)]
            raise ConfigError(f"{first} and {inputs[index]} would both be written to {stem}; translate them separately")
    outputs = [options.output_dir / f"{stem}.{FORMATS[options.output_format]}" for stem in stems]
    sources = [Path(name) for name in options.sources if name != _STDIN]
    check_outputs([*outputs, options.output_dir / "failures.json"], sources)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    (options.output_dir / "failures.json").unlink(missing_ok=True)
    return [*outputs]


def _given(texts: list[str]) -> list[str]:
    """Lines from the command line, cleaned like lines of a file; a line end within one becomes a space."""
    from espnet_diverse.data.characters import clean_text

    return [clean_text(" ".join(text.splitlines()))[0] for text in texts]


def _lines(name: str) -> Iterable[str]:
    """The lines of a file, read at once, or of standard input as they arrive."""
    if name == _STDIN:
        return _decoded(sys.stdin.buffer)
    with Path(name).open("rb") as file:
        return list(_decoded(file))


def _decoded(stream: BinaryIO) -> Iterator[str]:
    from espnet_diverse.data.characters import clean_text

    for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE + 1), b""), start=1):
        if len(line) > _LONGEST_LINE:
            raise DataError(f"line {number} has more than {_LONGEST_LINE} bytes; give a file of text")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UnicodeError(f"line {number} is not UTF-8; convert the file with iconv") from error
        yield clean_text(text.rstrip("\r\n"))[0]


def _translate(
    translator: "Translator",
    lines: Iterable[str],
    output: Path | None,
    options: CommandOptions,
    skip: Callable[[int, Exception], None],
) -> None:
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.progress import progress

    translations = _translated(translator, lines, options, skip)
    if output is None and sys.stdout.isatty():  # where the translations themselves show the progress
        for line in translations:
            print(line, flush=True)
        return
    total = len(lines) if isinstance(lines, list) else None
    shown = progress(translations, "translate", total, "line")
    if output is not None:
        write_text(output, "".join(f"{line}\n" for line in shown))
        return
    for line in shown:
        print(line)


def _translated(
    translator: "Translator", lines: Iterable[str], options: CommandOptions, skip: Callable[[int, Exception], None]
) -> Iterator[str]:
    """The output lines; `skip` is called with the number of a line that cannot be translated, and the reason."""
    typed = not isinstance(lines, list) and sys.stdin.isatty()
    lines, window = iter(lines), 1 if typed else _WINDOW * translator.search.batch_size
    known = translator.search.conditions.names  # `run` has warned of others, once
    used = {condition: value for condition, value in options.conditions.items() if condition in known}
    translate, done = partial(translator.translate, **as_arguments(used)), 0

    def translations(chunk: list[str], first: int) -> "list[Translation]":
        try:
            return translate(chunk)
        except DataError as error:
            if len(chunk) == 1:
                skip(first, error)
                return [translate("")]
            half = len(chunk) // 2
            return translations(chunk[:half], first) + translations(chunk[half:], first + half)

    while chunk := list(islice(lines, window)):
        for source, translation in zip(chunk, translations(chunk, done + 1), strict=True):
            yield _written(source, translation, options.output_format)
        done += len(chunk)


def _written(source: str, translation: "Translation", form: str) -> str:
    from espnet_diverse.decoding.prediction import json_score, rounded_score

    if form == "txt":
        return translation.text
    if form == "tsv":
        return f"{source}\t{translation.text}\t{rounded_score(translation.score):g}"
    alternatives = [{"text": other.text, "score": json_score(other.score)} for other in translation.alternatives]
    score = json_score(translation.score)
    line = {"source": source, "text": translation.text, "score": score, "alternatives": alternatives}
    return json.dumps(line, ensure_ascii=False, allow_nan=False)
