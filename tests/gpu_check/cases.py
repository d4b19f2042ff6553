"""All cases of the check, and its table."""

import io
import logging
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
from gpu_check import models
from gpu_check.allowed import ALLOWED, EPOCH, SEARCH, SEARCH_STEP, SPELLING, STEP, STREAM, UTTERANCE
from gpu_check.attentions import attention_cases
from gpu_check.device import Device, claimed_gpu
from gpu_check.models import MODELS, build

from espnet_diverse.decoding.search.beam import Beam

STEPS = {"softmax": 18, "sdma": 18, "heads by language": 18, "random features": 33}
"""Steps of a search: nodes are removed after 16, and moved into sums after 32; 4 by default."""
_UNSEARCHED = ("lm", "cls")
_TRAINING = {STEP: 2, EPOCH: 1}
_SEARCH = {SEARCH: 1, UTTERANCE: 2}
_ALIGNMENT = {SEARCH: 1, UTTERANCE: 1}


class Case(NamedTuple):
    """A name, a kind of run, how often each unit of `Allowed` comes in it, and the run."""

    name: str
    kind: str
    units: dict[str, int]
    run: Callable[[], None]


def cases() -> Iterator[Case]:
    """Return all cases; searches count their steps while they run."""
    for name, run in attention_cases():
        yield Case(name, "attention", {}, run)
    for name, (task, _) in MODELS.items():
        yield from _of_model(name, task)
    yield Case("inputs copied by DDP", "training", _TRAINING, lambda: _train("heads by language", wrapped=True))
    for name in ("contextual blocks", "Transformer-XL memory"):
        yield Case(name, "stream", {STREAM: 4, SEARCH: 4}, lambda name=name: models.stream(*build(name)[1:]))
    yield Case("softmax", "alignment", _ALIGNMENT, lambda: models.align_text(*build("softmax")))
    yield Case("Whisper", "training", _TRAINING, lambda: _whisper(_train_model))
    yield Case("Whisper", "bfloat16", {STEP: 1, EPOCH: 1}, lambda: _whisper(_train_model, use_amp=True))
    yield Case("Whisper", "search", _SEARCH, lambda: _whisper(models.search, beam_size=2, maxlenratio=-4.0))
    yield Case("Whisper", "alignment", _ALIGNMENT, lambda: _whisper(models.align_text))
    name, joint = "Whisper, CTC of bytes", {"beam_size": 2, "ctc_weight": 0.3, "maxlenratio": -4.0}
    yield Case(name, "training", _TRAINING | {SPELLING: 2}, lambda: _whisper(_train_model, trained=0.3))
    yield Case(name, "search", _SEARCH | {SPELLING: 4}, lambda: _whisper(models.search, trained=0.3, **joint))


def _of_model(name: str, task: str) -> Iterator[Case]:
    yield Case(name, "training", _TRAINING, lambda: _train(name))
    yield Case(name, "bfloat16", {STEP: 1, EPOCH: 1}, lambda: _train(name, use_amp=True))
    if task in _UNSEARCHED or "autoencoder" in name or "FlowSeq" in name:
        return
    bounds = {"maxlenratio": -float(STEPS.get(name, 4)), "minlenratio": -float(STEPS.get(name, 0))}
    yield Case(name, "search", _SEARCH, lambda: models.search(*build(name), beam_size=3, **bounds))
    fixed = {"maxlenratio": -3.0, "minlenratio": -3.0}
    yield Case(
        name, "shapes", {SEARCH: 3, UTTERANCE: 6}, lambda: models.search_twice(*build(name), beam_size=3, **fixed)
    )
    if name == "softmax":
        yield Case(name, "greedy", _SEARCH, lambda: models.search(*build(name), search="greedy"))


def _train(name: str, **options) -> None:
    _train_model(*build(name), **options)


def _train_model(task: str, model: torch.nn.Module, args, **options) -> None:
    models.train(model, args, models.batches(task, model, 1 if options.get("use_amp") else 2), **options)


def _whisper(function: Callable, trained: float = 0.0, **options) -> None:
    """Call a function with a small Whisper model, which has a CTC if that is trained with some weight."""
    with tempfile.TemporaryDirectory() as folder:
        function(*models.whisper(Path(folder), trained), **options)


class Counts(NamedTuple):
    """Result of a case: waits of our code and of ESPnet's, units, and errors."""

    ours: int
    espnet: int
    units: dict[str, int]
    errors: list[str]


def measure(case: Case, needed: set[str]) -> Counts:
    """Run a case; add the entries of `ALLOWED` that it needs."""
    steps, errors = Counter(), []

    def counted(self, choice, advance=Beam.advance):
        steps[SEARCH_STEP] += self.rows.is_cuda
        return advance(self, choice)

    device = Device()
    try:
        with redirect_stderr(io.StringIO()), mock.patch.object(Beam, "advance", counted), device:
            case.run()
    except Exception:
        errors.append("".join(traceback.format_exc(limit=-6)))
    units = case.units | steps | {"16 search steps": steps[SEARCH_STEP] // 16}
    counts = device.of_code("ours")
    by_place = groupby(sorted(counts), lambda wait: f"{wait.file} {wait.function}")
    for place, waits in ((place, list(waits)) for place, waits in by_place):
        allowed = ALLOWED.get(place)
        needed.add(place)
        if allowed is None or sum(counts[wait] for wait in waits) > allowed.count * units.get(allowed.unit, 0):
            limit = f"{allowed.count} a {allowed.unit}" if allowed else "none"
            each = ", ".join(f"{counts[wait]} times at {wait.line} ({wait.operation})" for wait in waits)
            errors.append(f"espnet_diverse/{place} waits {each}; allowed: {limit}")
    return Counts(device.of_code("ours").total(), device.of_code("ESPnet").total(), units, errors)


def run(words: list[str]) -> int:
    """Run the cases whose names have one of some words, or all; print the table, return the exit status."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    start, failed, needed, number = time.process_time(), 0, set(), Counter()
    print(f"{'case':36} {'kind':10} {'ours':>5} {'ESPnet':>7}  units")
    with claimed_gpu():
        for case in cases():
            if words and not any(word in case.name for word in words):
                continue
            found = measure(case, needed)
            number[case.kind] += 1
            failed += bool(found.errors)
            units = ", ".join(f"{count} {unit}" for unit, count in found.units.items() if count)
            if case.kind != "attention" or found.errors:
                print(f"{case.name:36} {case.kind:10} {found.ours:5} {found.espnet:7}  {units}")
            for error in found.errors:
                print(f"  {error}", flush=True)
    if not words and (idle := ALLOWED.keys() - needed):
        failed += 1
        print(f"gpu_check/allowed.py: nothing waits in {', '.join(sorted(idle))}; remove the entries")
    kinds = ", ".join(f"{count} of {kind}" for kind, count in number.items())
    print(f"{number.total()} cases ({kinds}), {failed} failed, {time.process_time() - start:.0f} s of CPU")
    return int(failed > 0)
