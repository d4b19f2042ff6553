"""Check data directories and list all of their faults, or with --model whether this machine is right for a model.

Faults are in the tables, between them, in the audio or features, and in texts.

Directories may have segments, entries of arks (wav.1.ark:1234), and feats.scp instead of wav.scp. Each fault has a
kind, and each kind an action: refuse; drop, so that --fix leaves the utterance out and training refuses it; or warn.
Exit code 1 means that there are faults to refuse or drop, 2 that --fix has dropped utterances.

`validate --model MODEL --data_dir DIR` decodes utterances in one thread and then in two threads, by each library of
matrix products, compiled, and with each precision. It prints how many texts differ and how far scores of equal texts
do. Exit code 1 means that a text differs in float32.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_diverse.bin.options.arguments import Arguments, adder, part
from espnet_diverse.bin.options.input_paths import DATA_DIR, TOKENS_DIR
from espnet_diverse.data.checks.limits import Limits
from espnet_diverse.data.faults import ACTIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.option_checks import flag, listed, number, path

if TYPE_CHECKING:
    from espnet_diverse.data.checks.audio_statistics import Survey
    from espnet_diverse.decoding.directory.utterances import Search

_SHOWN = ("file", "where", "what", "kind")
"""Attributes of a fault that --json writes."""


class Work(Arguments):
    """Options of the work and of what is printed."""

    most: int = number(5, least=1, metavar="N", help="printed lines per group of similar faults")
    nj: int = number(4, least=1, help="number of threads that read audio")


class ModelCheck(Arguments):
    """Options of the check of a model."""

    GROUP = "whether this machine is right for a model"

    model: Path | None = path(None, help="directory of a run, a packed model, or hf:owner/name")
    data_dir: Path | None = path(None, parse=DATA_DIR, help="data directory to decode a part of")
    utterances: int = number(100, least=1, help="maximum number of utterances")


class CommandOptions(Work, ModelCheck):
    data_dirs: Sequence[Path] = listed((), of=path(), nargs="*", positional=True, metavar="DIR", help="data directory")
    json: Path | None = path(
        None, metavar="FILE", help="file for the faults: directory, file, where, what, kind and action"
    )
    figures: Path | None = path(
        None,
        metavar="DIR",
        help="folder for validate.html: histograms of lengths, rates, levels, speakers, texts; outliers to hear",
    )
    headers: bool = flag(help="read only headers of audio and features, not all samples")
    fix: Path | None = path(
        None, metavar="OUT", help="data directory to write: normalised tables, without what is dropped"
    )
    against: Path | None = path(
        None, parse=DATA_DIR, metavar="TRAIN", help="data directory that must share no speaker and no sentence"
    )
    on: Sequence[str] = listed(
        (),
        metavar="KIND=ACTION",
        help="refuse, drop or warn by kind",
        shown=" ".join(f"{kind}={action}" for kind, action in ACTIONS.items()),
    )
    tokens_dir: Path | None = path(
        None, parse=TOKENS_DIR, help="vocabulary, for the number of tokens of each text; without it characters count"
    )
    limits: Limits = part(Limits)


add_arguments = adder(CommandOptions, Limits, Work, ModelCheck)


def inputs(options: CommandOptions) -> list[Path]:
    """The data directories and the vocabulary."""
    return [*options.data_dirs, *filter(None, (options.against, options.tokens_dir, options.model, options.data_dir))]


def outputs(options: CommandOptions) -> list[Path]:
    """The list of faults, the corrected directory and the page, if they are requested."""
    page = options.figures / "validate.html" if options.figures else None
    return [path for path in (options.json, options.fix, page) if path]


def run(options: CommandOptions) -> int:
    """Print the faults of each directory, or what `_compare` does; return the exit code."""
    if options.model or options.data_dir:
        return _compare(options)
    from espnet_diverse.data.checks.audio_statistics import Survey
    from espnet_diverse.data.checks.fixing import left_out, made_plain, write_fixed
    from espnet_diverse.data.faults import alike_once, parse_actions
    from espnet_diverse.data.files.atomic_files import write_text
    from espnet_diverse.text.vocabulary import Vocabulary

    _check(options)
    actions, rows, dropped = parse_actions(options.on), [], 0
    tokens = Vocabulary.load(options.tokens_dir).encode if options.tokens_dir else None
    limits = replace(options.limits, tokens=tokens)
    surveys = [(data_dir, Survey() if options.figures else None) for data_dir in options.data_dirs]
    for data_dir, survey in surveys:
        faults = _faults(options, data_dir, limits, survey)
        lines = (f"warning: {fault}" if actions[fault.kind] == "warn" else str(fault) for fault in faults)
        print(*alike_once(lines, most=options.most, listed="--json FILE lists all"), sep="\n", end="\n" * bool(faults))
        warnings = sum(actions[fault.kind] == "warn" for fault in faults)
        count = len(faults) - warnings
        note = f", {warnings} warning{'s' * (warnings > 1)}" if warnings else ""
        print(f"{data_dir}: {count or 'no'} fault{'s' * (count != 1)}{note}")
        if note := left_out(data_dir, faults, actions):
            print(f"{data_dir}: --fix OUT {note}")
        if note := made_plain(data_dir, faults):
            print(f"{data_dir}: --fix OUT {note}")
        for fault in faults:
            values = {name: getattr(fault, name) for name in _SHOWN}
            rows.append({"directory": str(data_dir), **values, "action": actions[fault.kind]})
        if options.fix:
            written, dropped = write_fixed(data_dir, options.fix, faults, actions)
            listed = f" (listed in {options.fix / 'dropped.tsv'})" if dropped else ""
            print(f"{options.fix}: {written} utterances, {dropped} dropped{listed}")
    if options.figures:
        from espnet_diverse.analysis.data_page import write_survey

        write_survey(surveys, options.figures)
    if options.json:
        write_text(options.json, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    if options.fix:
        return 2 if dropped else 0
    return 1 if any(row["action"] != "warn" for row in rows) else 0


def _check(options: CommandOptions) -> None:
    """Refuse options and targets before all samples are read."""
    from espnet_diverse.data.files.atomic_files import check_no_file
    from espnet_diverse.data.output_paths import check_prepared, check_unread

    if options.utterances != CommandOptions.utterances:
        raise ConfigError(f"--utterances {options.utterances} is for the check of a model; give --model and --data_dir")
    if not options.data_dirs:
        raise ConfigError("no data directory is given; give DIR, or --model and --data_dir")
    if options.fix and len(options.data_dirs) > 1:
        raise ConfigError(f"--fix {options.fix}: mends one directory, and {len(options.data_dirs)} are given")
    if options.figures:
        check_no_file(options.figures)
        check_unread(options.figures, inputs(options))
    if options.fix:
        check_unread(options.fix, inputs(options))
        check_prepared(options.fix)
    if options.json and options.json.exists() and not _is_list_of_faults(options.json):
        raise ConfigError(f"--json {options.json}: exists, and `validate` has not written it; give another file")
    if options.against and options.against.resolve() in [data_dir.resolve() for data_dir in options.data_dirs]:
        raise ConfigError(f"--against {options.against}: is a directory that is checked itself; give the others as DIR")


def _compare(options: CommandOptions) -> int:
    """Print how the ways to compute with a model differ; return 1 if a text differs in float32."""
    if options.model is None or options.data_dir is None:
        raise ConfigError("the check of a model needs --model and --data_dir; give both")
    model_options = {name: getattr(options, name) for name in ("model", "data_dir", "utterances")}
    plain = _given(CommandOptions(**model_options, limits=Limits()))
    if conflicting := [name for name, value in _given(options).items() if value != plain[name]]:
        raise ConfigError(f"{conflicting[0]} is for faults of data directories; leave it out, or leave out --model")
    from espnet_diverse.decoding.directory.variants import differences
    from espnet_diverse.decoding.predictor import load_predictor
    from espnet_diverse.runs.model_files import check_exists
    from espnet_diverse.runs.packed.archive import unpacked

    check_exists(options.model)
    model_dir = unpacked(options.model)

    def load(precision: str, compiled: bool) -> "Search":
        return load_predictor(model_dir, precision=precision, compiled=compiled, features=True)

    count, rows = differences(load, options.data_dir, options.utterances, {})
    print(f"{'compared with float32 in 1 thread':<36}texts that differ  largest difference of scores")
    changing = []
    for row in rows:
        texts, score = f"{row.texts} of {count}", "-" if row.score is None else f"{row.score:.1e}"
        print(f"{row.variant.name:<36}" + (f"not possible: {row.refused}" if row.refused else f"{texts:<19}{score}"))
        changing += [row.variant.name] * (row.variant.is_exact and row.texts > 0)
    if changing:
        print(f"{options.model}: texts depend on the order of sums here ({', '.join(changing)})")
    return int(bool(changing))


def _given(options: CommandOptions) -> dict[str, object]:
    """Values by option, as it is written on the command line."""
    values = {name: value for name, value in vars(options).items() if name != "limits"} | vars(options.limits)
    return {"DIR" if name == "data_dirs" else f"--{name}": value for name, value in values.items()}


def _is_list_of_faults(path: Path) -> bool:
    """Return whether a file has the format that --json writes."""
    from espnet_diverse.untrusted.whole_files import read_json

    keys = {"directory", "action", *_SHOWN}
    try:
        rows = read_json(path)
    except (OSError, ValueError):
        return False
    return isinstance(rows, list) and all(isinstance(row, dict) and row.keys() == keys for row in rows)


def _faults(options: CommandOptions, data_dir: Path, limits: Limits, survey: "Survey | None") -> list:
    from espnet_diverse.data.checks.fixing import shared
    from espnet_diverse.data.checks.validate import find_faults
    from espnet_diverse.data.kaldi import source_of

    features = 0 if source_of(data_dir) == "feats.scp" else None
    read = {"nj": options.nj, "decode": not options.headers, "features": features}
    faults = find_faults(data_dir, limits=limits, survey=survey, **read)
    return faults + (list(shared(data_dir, options.against)) if options.against else [])
