"""Every place that keeps an error of ours from the user is known, and has a reason."""

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from espnet_diverse import errors

PACKAGE = Path(errors.__file__).parent
ALL = {"bare", "BaseException", "Exception"}
OURS = {"ValueError", *(name for name, kind in vars(errors).items() if isinstance(kind, type))}
"""Our errors, and the class of Python that they are of: `except ValueError` catches them too."""


KNOWN = {
    "it becomes the result of its item, is told or logged there, and the other items continue": [
        *("audio_progress.header_seconds: DataError ValueError", "averaging._sound: ModelError"),
        *("format_audio.AudioFormat._format: DataError", "format_audio.AudioFormat._format_recording: DataError"),
        *("grouping.each_result: Exception", "inputs.files_of: ValueError", "inputs.by_channel: DataError"),
        *("measurements.survey: DataError", "variants._difference: ConfigError"),
        *("recordings._Recording.keeping_faults: Exception", "recordings.Transcription._read: Exception"),
        *(
            "samples.read_samples: DataError",
            "translate._translated.translations: DataError",
            "translate.run: DataError",
            "utterances.readable: Exception",
        ),
        *("validate._feature_size: DataError", "validate._hear: DataError", "run_queue.Walk._make: ValueError"),
        "lengths.measure_lengths: UserError",
    ],
    "it becomes a row of the list of faults, which is refused as a whole": [
        *("kaldi._check: DataError", "kaldi._run: DataError", "mtedx._yaml_lines: DataError"),
        *("mtedx._yaml_lines: ValueError", "table._audio_fault: DataError", "table._end: DataError"),
        *("rttm.read_turns: ValueError", "table_files.json_objects: ValueError"),
        *("table_files._json_array: ValueError", "age._documents: ValueError"),
        "stages._check_data: DataError",
        "lexical_table._probability: ValueError",
    ],
    "something else is taken instead, and a line says so": [
        *("build_search.build_search: NoBatchedSearchError", "checkpoint.load_run: ModelError"),
        *("decode._load: NoBatchedSearchError", "audio_links.AudioLinks._embedded: DataError"),
        *("kept_features.copied: DataError", "task_services.ModelService._facts: DataError"),
    ],
    "it is the answer to a question: whether something is possible, or a file is what it should be": [
        *("ark.file_status: ValueError", "data_record._Audio.compare: ValueError"),
        *("file_digest._is_sound_archive: ValueError", "file_digest._is_sound_safetensors: ValueError"),
        *("inputs.Recording.channels_cancel: DataError", "linear_kernels.read_choice: ValueError"),
        *("live.live_recognition: ConfigError ModelError", "main._reader_has_gone: ValueError"),
        "model_files.is_whisper: ValueError",
        *(
            "pack._is_ours: ValueError",
            "frame_times.known_frame_times: ModelError",
            "run_files.make_vocabularies: UserError",
            "model_card._is_of: ValueError",
            "scores._is_row: ValueError",
            "stage_cache.StageRecord._stored: ValueError",
        ),
        *(
            "output_paths._written: ValueError",
            "output_paths._written: ValueError",
            "alignment.has_word_times: UserError",
        ),
        *("prepare._is_report: ValueError", "validate._is_list_of_faults: ValueError", "worker._threads: ValueError"),
    ],
    "it is of a number or a text of JSON, and the next lines refuse its value": [
        *("groups.read_sizes: ValueError", "score_file.read_metrics: ValueError"),
        *("table_rows.RowReader._seconds: ValueError", "tables.parse_segment: ValueError"),
    ],
    "the files of a model are listed before it is read, and reading says what is wrong": [
        *(
            "model_files.known_config: ModelError",
            "model_files.model_files: ModelError",
            "initial_weights.known_weights: ModelError",
        ),
    ],
    "the user is told in one line: the end of a command, of a request, of a process": [
        *("main.run_command: UserError", "stage_runs._show: UserError", "live.LiveRecognition.serve: Exception"),
        *("transcriptions._Endpoints.listen: Exception", "transcriptions._Work.events: Exception"),
        *("worker.work: Exception", "worker.work: UserError"),
    ],
    "the process ends, and its output is closed already": ["application._end_process: ValueError"],
    "a check that comes later reads the same file and raises it": [
        *("data_record.DataRecord.__init__: DataError", "data_record.DataRecord.is_unchanged: DataError"),
        "hub._check_size: Exception",
    ],
    "a truncated file is read as far as it goes, and a warning or the first error says so": [
        *("reading._decodable: TruncatedError", "sources._opened: DataError", "sources._opened: TruncatedError"),
    ],
    "it is raised where somebody waits for the result": [
        *("batches.Batches._serve: Exception", "streaming._Source.__iter__: Exception"),
    ],
    "a library raises errors of any class, and the line of ours says what it does not": [
        *(
            "backends.started: Exception",
            "checkpoint._read: Exception",
            "checkpoint_schema._Layouts._layout: Exception",
            "espnet_command._as_user_errors: Exception",
        ),
        *(
            "hub.fetched: Exception",
            "pack.push: Exception",
            "onnx_export._compare: Exception",
            "pretrained_tokenizer._refusing: BaseException",
            "registry.known_cores: Exception",
        ),
        "tasks._check_statistics: Exception",
        "tasks._TaskMixin.build_model: Exception",
        "tasks._TaskMixin.build_preprocess_fn: Exception",
    ],
}
"""Reasons, each with the places that have it: module, function and what it catches."""


def places(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """Functions that may continue after an error of ours, with what they catch.

    A handler that ends by `raise` passes the error on. One of all errors must do so without another class, which would
    make a fault of ours look like one of the user.
    """
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
        within = ".".join(filter(None, (inside, name)))
        if isinstance(node, ast.ExceptHandler):
            caught, last = names_of([node.type] if node.type else []), node.body[-1]
            again = isinstance(last, ast.Raise) and (last.exc is None or not caught & ALL)
            if caught & (ALL | OURS) and not again:
                yield f"{within}: {' '.join(sorted(caught & (ALL | OURS)))}"
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "suppress":
            caught = names_of(node.args) & (ALL | OURS)
            if caught:
                yield f"{within}: {' '.join(sorted(caught))}"
        yield from places(node, within)


def names_of(kinds: list[ast.expr]) -> set[str]:
    """Names of the classes that a handler catches; "bare" for none."""
    listed = [each for kind in kinds for each in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
    return {ast.unparse(kind).split(".")[-1] for kind in listed} or {"bare"}


def found() -> list[str]:
    """The places of the whole package, each with its module."""
    files = sorted(PACKAGE.rglob("*.py"))
    trees = ((file.stem, ast.parse(file.read_text(encoding="utf-8"))) for file in files)
    return [f"{module}.{place}" for module, tree in trees for place in places(tree)]


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("def f():\n try: g()\n except: pass", "f: bare"),
        ("class A:\n def f(self):\n  try: g()\n  except (OSError, errors.DataError): return 1", "A.f: DataError"),
        ("def f():\n with suppress(KeyError, ValueError): g()", "f: ValueError"),
        ("def f():\n try: g()\n except Exception as e: raise ConfigError('x') from e", "f: Exception"),
        ("def f():\n try: g()\n except Exception:\n  h()\n  raise", None),
        ("def f():\n try: g()\n except ValueError as e: raise DataError('x') from e", None),
        ("def f():\n try: g()\n except OSError: pass", None),
    ],
)
def test_a_place_is_seen(code, place):
    assert list(places(ast.parse(code))) == ([] if place is None else [place])


def test_every_place_has_a_reason():
    known, there = (Counter(listed) for listed in (chain.from_iterable(KNOWN.values()), found()))
    new, gone = there - known, known - there
    assert not new, f"may keep an error from the user: {sorted(new)}; narrow it, let it raise, or give it a reason"
    assert not gone, f"no longer there: {sorted(gone)}; take it off the list"
