"""Runs on prepared data directories: each is a plan of commands of this package, which `espnet-diverse plan` runs."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.contest.runs import MEASURED_BY_DECODING, Run
from espnet_diverse.data.files.atomic_files import write_text


@dataclass(frozen=True, eq=False)
class DataRun(Run):
    """A run on data directories.

    `shared` has, besides what all runs have: `task`, `train` and `valid`, names of sets, `tokens` with `token_type` and
    `vocab_size`, or `tokens_dir`, `average` (criterion and number of epochs), `pairs` if pairs of texts are classified,
    `nj`, `ngpu` and `cluster`.

    Attributes:
        data_dir: Folder of the data directories.
        output_dir: Folder of all runs.
    """

    data_dir: Path
    output_dir: Path

    @property
    def place(self) -> Path:
        """The working directory of this process."""
        return Path.cwd()

    def folder_of(self, name: str) -> Path:
        """Folder of the run `name` in runs/."""
        return self.output_dir / "runs" / f"{name}_seed{self.seed}"

    def data(self, data_set: str) -> Path:
        """Folder of a set in `data_dir`."""
        return self.data_dir / data_set

    def preparation(self) -> list[str]:
        """The plan of vocabulary and statistics, which all seeds of a method share."""
        stats = ["stats", *self._training(), "--output_dir", str(self._stats), *self._cluster()]
        return self._plan(f"{self.name}.prepare", [*self._tokens(), ("stats", stats)])

    def command(self) -> list[str]:
        """The plan of training, decoding and scoring."""
        return self._plan(self.folder.name, [*self._trained(), *self._scored()])

    def trial(self, batches: int) -> tuple[list[str], Path]:
        """The command that trains, with two short epochs."""
        folder = self.output_dir / "trials" / self.name
        changes = ["max_epoch=2", f"num_iters_per_epoch={batches}"]
        return [sys.executable, "-m", "espnet_diverse", *self._train(folder, *changes)], folder

    @property
    def _stats(self) -> Path:
        return self.output_dir / "stats" / self.name

    @property
    def _tokens_dir(self) -> Path:
        return self.shared["tokens_dir"] or self.output_dir / "tokens"

    def _plan(self, name: str, steps: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Write a plan and return the command that runs it."""
        path = self.output_dir / "plans" / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{stage}\t{shlex.join(['espnet-diverse', *words])}\n" for stage, words in steps]
        write_text(path, "".join(lines))
        stamps = str(self.output_dir / "plans" / ".stamps")
        return [sys.executable, "-m", "espnet_diverse", "plan", str(path), "--cache_dir", stamps]

    def _tokens(self) -> Iterator[tuple[str, list[str]]]:
        """The vocabulary, of both texts in translation of text and for pairs."""
        if self.shared["tokens_dir"]:
            return
        both = self.shared["task"] == "mt" or self.shared.get("pairs")
        names = ("text", "src_text") if both else ("text",)
        texts = [str(self.data(self.shared["train"]) / name) for name in names]
        test_texts = [str(self.data(name) / "text") for name in self.sets]
        size = self.shared["vocab_size"]
        yield (
            "tokens",
            [
                *("tokens", "--text", *texts, "--output_dir", str(self._tokens_dir)),
                *("--type", self.shared["token_type"], *(["--vocab_size", str(size)] if size else [])),
                *("--coverage", *test_texts),
            ],
        )

    def _training(self, *changes: str) -> list[str]:
        """Options that stats and train share."""
        shared = self.shared
        return [
            *("--config", self.config, *self.changes(*changes), "--task", shared["task"]),
            *("--train_dir", str(self.data(shared["train"])), "--valid_dir", str(self.data(shared["valid"]))),
            *("--tokens_dir", str(self._tokens_dir)),
        ]

    def _train(self, folder: Path, *changes: str) -> list[str]:
        return [
            *("train", *self._training(*changes, f"seed={self.seed}"), "--stats_dir", str(self._stats)),
            *("--output_dir", str(folder), "--ngpu", str(self.shared["ngpu"]), *self.begun),
        ]

    def _trained(self) -> Iterator[tuple[str, list[str]]]:
        criterion, number = self.shared["average"]
        yield "train", self._train(self.folder)
        yield "train", ["average", str(self.folder), "--metric", criterion, "--number", str(number)]

    def _scored(self) -> Iterator[tuple[str, list[str]]]:
        """Decoding and scoring of each set."""
        model = [str(self.folder), "--model_file", f"{self.shared['average'][0]}.ave.pth"]
        device = ["--device", "cuda" if self.shared["ngpu"] else "cpu"]
        for name in self.sets:
            data, folder = self.data(name), self.decoded(self.name, name)
            place = ["--data_dir", str(data), "--output_dir", str(folder), *device]
            if self.metric in MEASURED_BY_DECODING:
                yield "decode", ["classify" if self.shared["task"] == "cls" else "perplexity", *model, *place]
                continue
            yield "decode", ["decode", *model, *place, *self._search()]
            texts = ["--reference", str(data / "text"), "--hypothesis", str(folder / "text")]
            options = ["--metric", self.metric, *shlex.split(self.shared.get("score_options", ""))]
            yield "score", ["score", *texts, "--output_dir", str(folder), *options]

    def _search(self) -> list[str]:
        """Options of the search: the given ones, or defaults; without a length penalty short translations win."""
        if "decode_config" in self.shared:
            options = ["--config", self.shared["decode_config"]]
        else:
            options = ["--length_penalty", "1.0"] if self.shared["task"] == "mt" else []
        return [*options, "--nj", str(self.shared["nj"]), *self._cluster()]

    def _cluster(self) -> list[str]:
        return ["--cluster", self.shared["cluster"]] if self.shared["cluster"] else []
