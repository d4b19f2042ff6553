"""The plan of a training: a row for each attention, from a corpus or a sample of it."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs.audio_rate import audio_rate
from espnet_diverse.scoring.table import markdown_table
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training.loop.tasks import TASKS
from espnet_diverse.training.pipeline import Characters, Statistics, texts_of
from espnet_diverse.training.planning.devices import DEVICES
from espnet_diverse.training.planning.estimate import Estimate, estimate, process_memory
from espnet_diverse.training.planning.trial import Trial
from espnet_diverse.training.stages import run_config

CPU = "cpu"
HEADER = ("attention", "hours", "s an epoch", "GB a device", "largest batch", "GB of a run", "GFLOP a step")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A training to estimate.

    Attributes:
        shared: Fields of `pipeline.Configured` but `config` and `tokens_dir`.
        fragments: Fragments of the configuration.
        attentions: Names of fragments in conf/attention, or fragments joined by commas.
        gpu: A key of `DEVICES`, or `CPU` for this one.
        gpus: Number of GPUs.
        tokens_dir: Vocabulary; None for the characters of the training texts.
        vocabulary: Number of tokens of the model, if a larger corpus has more than the sample.
        hours: Hours of audio of the corpus that the data are a sample of.
    """

    shared: Mapping[str, Any]
    fragments: Sequence[str]
    attentions: Sequence[str]
    gpu: str
    gpus: int = 1
    tokens_dir: Path | None = None
    vocabulary: int | None = None
    hours: float | None = None

    def trials(self) -> Iterator[tuple[str, Trial]]:
        """Yield the models by attention; statistics are collected before the first one.

        Raises:
            UserError: Data or configuration are wrong, as for `espnet-diverse stats` and `train`.
        """
        if self.hours and self.shared["task"] not in ("asr", "st"):
            raise ConfigError(f"--hours {self.hours:g}: needs a task of audio; leave it out")
        if self.gpu == CPU and self.gpus > 1:
            raise ConfigError(f"--gpus {self.gpus}: is for GPUs, and --gpu is {CPU}; leave it out")
        with tempfile.TemporaryDirectory() as name:
            folder, tokens_dir = Path(name), self.tokens_dir
            if tokens_dir is None:
                tokens_dir = folder / "tokens"
                texts = texts_of(Path(self.shared["train_dir"]), self.shared["task"], self.shared.get("src_tokens_dir"))
                Characters(text=texts, output_dir=tokens_dir).run()
            for number, attention in enumerate(self.attentions):
                fragments = attention.split(",") if "/" in attention else [f"attention/{attention}"]
                words = {**self.shared, "config": ",".join([*self.fragments, *fragments]), "tokens_dir": tokens_dir}
                stage = Statistics(**words, output_dir=folder / "stats")
                if not number:
                    stage.run()
                config = run_config(stage.merged(), stage.data(), stage.output_dir, folder / "run")
                if self.vocabulary:
                    config["token_list"] = _extended(Vocabulary.load(tokens_dir).tokens, self.vocabulary)
                yield attention, Trial(TASKS[stage.task], config)

    def estimates(self) -> Iterator[tuple[str, Estimate]]:
        """Yield what the trainings would take, by attention."""
        process = process_memory()
        device = None if self.gpu == CPU else DEVICES[self.gpu]
        for name, trial in self.trials():
            yield name, estimate(trial, device, self.gpus, process)

    def table(self) -> str:
        """The table of all attentions, and a line about the data."""
        rows, about = [], ""
        for name, result in self.estimates():
            trial, epochs = result.trial, result.trial.args.max_epoch
            total, longest = int(trial.lengths.sum()), trial.longest(trial.largest())
            rate = audio_rate(vars(trial.args)) if self.shared["task"] in ("asr", "st") else None
            if self.hours and not rate:
                raise ConfigError(f"--hours {self.hours:g}: the model reads features; leave it out")
            factor = self.hours * 3600 * rate / total if self.hours and rate else 1.0
            about = f"{factor * len(trial.batches):.0f} batches an epoch, {epochs} epochs"
            if rate:
                hours = factor * total / rate / 3600
                about = f"{hours:.1f} h of audio, {about}; audio of 16 bits takes {7200 * rate * hours / 1e9:.1f} GB"
            cells = (
                f"{factor * result.epoch * epochs / 3600:.2f}",
                f"{factor * result.epoch:.0f}",
                f"{result.peak / 1e9:.2f}",
                f"{result.largest} x {f'{longest / rate:.1f} s' if rate else longest}",
                f"{result.disk / 1e9:.2f}",
                f"{result.counts.flops / 1e9:.1f}",
            )
            rows.append([name, *cells])
        return f"{about}\n\n{markdown_table(HEADER, rows)}"


def _extended(tokens: Sequence[str], number: int) -> list[str]:
    """Tokens and as many more as a larger corpus has, before the last one, which ends a sentence."""
    if number < len(tokens):
        raise ConfigError(f"--vocabulary {number}: the data have {len(tokens)} tokens already; give as many or more")
    return [*tokens[:-1], *(f"<more{index}>" for index in range(number - len(tokens))), tokens[-1]]
