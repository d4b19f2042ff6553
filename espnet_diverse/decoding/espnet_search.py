"""Joint CTC/attention decoding by ESPnet's own beam search, one utterance at a time.

Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition", section IV: hypotheses are
ranked by (1 - ctc_weight) log p_attention + ctc_weight log p_ctc + penalty * length. Speech translation is decoded the
same way; there the text is the translation, and CTC over it is an option of the model that few have.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from espnet.nets.pytorch_backend.transformer.subsampling import TooShortUttError
from espnet2.bin import asr_inference, st_inference
from numpy.typing import NDArray

from espnet_diverse.corpora.audio import read_audio, resample
from espnet_diverse.corpora.tables import read_table
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.outcomes import FILES, Outcome, line, summary, write_json, write_outcomes
from espnet_diverse.decoding.task_ids import KnownTasks, known_tasks, task_indices
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.progress import progress
from espnet_diverse.scope import scope
from espnet_diverse.training.espnet_import import swapped
from espnet_diverse.training.tasks import TASKS, find_weights, read_config

_MODULES = {"asr": asr_inference, "st": st_inference}


class Search:
    """ESPnet's beam search on one model.

    Args:
        speech2text: ESPnet's `Speech2Text`, of speech recognition or translation.
        tasks: What its model knows of tasks.

    Attributes:
        device: "cpu" or "cuda".
    """

    def __init__(self, speech2text: asr_inference.Speech2Text | st_inference.Speech2Text, tasks: KnownTasks):
        self.speech2text = speech2text
        self.tasks = tasks
        self.device = speech2text.device

    def __call__(self, speech: NDArray, tasks: Mapping[str, int]) -> list[tuple]:
        """Decode samples (T,) float32 for the task indices by axis; the best hypotheses as ESPnet gives them: text,
        tokens, their indices, and ESPnet's hypothesis."""
        ids = {axis: torch.tensor([index], device=self.device) for axis, index in tasks.items()}
        with scope(tasks=ids, collect=False):
            return self.speech2text(speech)


def load_search(
    model_dir: Path, model_file: str | Path | None = None, options: Options | None = None, device: str = "cpu"
) -> Search:
    """The search on a model that is loaded strictly; the task is that of its config.yaml.

    Args:
        model_dir: Directory of the run.
        model_file: As of `find_weights`.
        options: Of the search; their defaults where None.
        device: "cpu" or "cuda".

    Raises:
        ConfigError: A CTC weight is given for a model that has no CTC over its text.
        ModelError: A file is missing or damaged, the weights do not fit the configuration, or the model neither
            recognises nor translates speech.
    """
    config_file, weights = Path(model_dir) / "config.yaml", find_weights(Path(model_dir), model_file)
    config, options = read_config(config_file), asdict(options or Options())
    task = config.get("task", "asr")
    if task not in _MODULES:
        raise ModelError(f"{config_file}: a model of task {task} does not read speech; known: {' '.join(_MODULES)}")
    options["ctc_weight"] = _ctc_weight(config, task, options["ctc_weight"])
    module = _MODULES[task]
    with swapped(module, **{f"{task.upper()}Task": TASKS[task]}):
        speech2text = module.Speech2Text(config_file, weights, device=device, lm_weight=0.0, **options)
    return Search(speech2text, known_tasks(getattr(speech2text, f"{task}_model")))


def _ctc_weight(config: Mapping, task: str, wanted: float | None) -> float:
    # ESPnet builds CTC over the text unless the loss gives it no weight; the defaults are those of its models.
    trained = config.get("model_conf") or {}
    weight = trained.get("ctc_weight")
    if weight is None:
        weight = trained.get("st_mtlalpha", 0.0) if task == "st" else 0.5
    if wanted and not weight:
        raise ConfigError(f"ctc_weight {wanted} is not possible: the model was trained without CTC; set ctc_weight=0")
    return (0.3 if weight else 0.0) if wanted is None else wanted


class _Job(NamedTuple):
    """An utterance to be decoded, its audio file and its task index by axis."""

    utterance: str
    path: Path
    tasks: Mapping[str, int]


def decode(
    search: Search, data_dir: Path, output_dir: Path, nj: int = 1, tasks: Mapping[str, str] | None = None
) -> list[Outcome]:
    """Decode a data directory; write text, score, failures.json (utterance: reason) and decode.json (the numbers of
    `outcomes.summary`), and print a summary.

    An utterance that fails costs no other one. One without a hypothesis gets an empty text. Outcomes are sorted.

    Args:
        search: What `load_search` returns.
        data_dir: Kaldi data directory; its wav.scp is read, and its task tables where the model needs them.
        output_dir: Where to write.
        nj: Processes to decode with, on the CPU; they share the loaded model.
        tasks: Names by axis that hold for all utterances, in place of the tables.

    Raises:
        DataError: wav.scp is wrong, an utterance lacks a task or has an unknown one, or none could be decoded.
    """
    jobs = _jobs(search, data_dir, tasks or {})
    output_dir.mkdir(parents=True, exist_ok=True)
    for name in FILES:  # of an earlier run, which this one may not replace
        (output_dir / name).unlink(missing_ok=True)
    start = time.monotonic()
    outcomes = list(progress(_outcomes(search, jobs, nj), "decode", len(jobs), "utterance"))
    elapsed = time.monotonic() - start
    failures = {outcome.utterance: outcome.failure for outcome in outcomes if outcome.failure is not None}
    write_json(output_dir / "failures.json", failures)
    if len(failures) == len(jobs):
        utterance, failure = next(iter(failures.items()))
        raise DataError(f"{data_dir}: none of {len(jobs)} utterances could be decoded; first {utterance}: {failure}")
    numbers = summary(outcomes, elapsed)
    write_outcomes(outcomes, {**numbers, "device": search.device}, output_dir)
    for utterance, failure in failures.items():
        logging.warning("%s was not decoded: %s", utterance, failure)
    print(line(numbers))
    return outcomes


def _jobs(search: Search, data_dir: Path, tasks: Mapping[str, str]) -> list[_Job]:
    if (data_dir / "segments").exists():
        raise DataError(f"{data_dir}: has segments; cut them with espnet-diverse prepare, or take the file away")
    paths = read_table(data_dir / "wav.scp")
    indices = task_indices(search.tasks, data_dir, paths, tasks)
    return [_Job(utterance, Path(path), indices[utterance]) for utterance, path in paths.items()]


_search: Search  # a global, so that forked workers have it without copying or importing anything


def _outcomes(search: Search, jobs: list[_Job], nj: int) -> Iterator[Outcome]:
    global _search
    _search = search
    nj = min(nj, len(jobs)) if search.device == "cpu" else 1
    if nj <= 1:
        yield from map(_decode_one, jobs)
        return
    # With one thread a worker enters no OpenMP region, which a forked process must not.
    with ProcessPoolExecutor(nj, get_context("fork"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(_decode_one, jobs)


def _decode_one(job: _Job) -> Outcome:
    try:
        samples, rate = read_audio(job.path)
        results = _search(resample(samples, rate), job.tasks)
    except (DataError, TooShortUttError) as error:
        return Outcome(job.utterance, failure=str(error))
    except Exception as error:  # whatever it is, it must not cost the other utterances
        logging.exception("decoding %s failed", job.utterance)
        return Outcome(job.utterance, failure=f"{type(error).__name__}: {error}")
    seconds = len(samples) / rate
    if not results:
        return Outcome(job.utterance, seconds=seconds)
    text, _, tokens, hypothesis = results[0]
    return Outcome(job.utterance, text, float(hypothesis.score), seconds=seconds, tokens=len(tokens))
