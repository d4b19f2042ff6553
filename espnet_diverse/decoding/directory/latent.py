"""Encoding, likelihood bounds, samples and interpolations of a variational autoencoder of text.

Equations are in `functional/variational.py`. The bound (1) is the mean of log p(x | z) over K samples of the posterior
of each text, minus KL; the tighter bound (6) uses the same samples. The noise of a text depends on the seed and on its
row in the data directory. A deterministic autoencoder has codes but no bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.contrib.vae import LatentDecoder
from espnet_diverse.contrib.vae.decoder import Posterior
from espnet_diverse.data.files.atomic_files import staged_file
from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.data.tables import read_table
from espnet_diverse.decoding.directory.results import write_json
from espnet_diverse.decoding.grouping import grouped
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.prediction import rounded_score
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.errors import ModelError
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.functional.variational import (
    active_units,
    divergence_by_unit,
    importance_weighted_bound,
    log_importance,
    sample,
)
from espnet_diverse.progress import progress
from espnet_diverse.scope import scope

BATCH_SIZE, BATCH_TOKENS = 128, 4000
_LONGEST = 100
"""Maximum number of tokens of a sample, as there is no source text."""
_PADDING = -1


class Autoencoder:
    """Trained variational autoencoder of a run.

    Args:
        model_dir: Directory of the run.
        model_file: Weights, see `find_weights`.
        options: Search options of the generation.
        device: "cpu", "cuda" or "cuda:N".

    Attributes:
        size: Number of units Z of a code.
        deterministic: Whether it was trained without noise, so that it has no bound.

    Raises:
        ConfigError: The device does not exist, or the options do not fit.
        ModelError: A file is missing or damaged, the weights do not fit, or the model is no autoencoder or depends on
            conditions.
    """

    def __init__(
        self,
        model_dir: Path,
        model_file: str | Path | None = None,
        options: SearchOptions | None = None,
        device: str = "cpu",
    ):
        self.predictor = load_predictor(model_dir, model_file, options, device)
        model = self.predictor.encoding.model
        if not isinstance(model.decoder, LatentDecoder):
            raise ModelError(f"{model_dir}: the model has no latent codes; give a run with model: vae")
        if names := self.predictor.conditions.names:
            raise ModelError(
                f"{model_dir}: depends on {min(names)}, which latent does not read; use decode or translate"
            )
        self.decoder, self.of_codes, self.eos = model.decoder, model.decoder.of_codes(), model.eos
        self.search = BeamSearch(self.of_codes, None, model.eos, of_text=True)
        self.size, self.deterministic, self.device = self.decoder.latent.size, not model.bound.kl_weight, device

    @torch.inference_mode()
    def posterior(self, texts: Sequence[str]) -> Posterior:
        """Posteriors (B, Z) of a batch of texts."""
        sources = [self.predictor.read(text)[0] for text in texts]
        output, lengths, _ = self.predictor.encode(sources, [{}] * len(texts))
        return self.decoder.posterior(output, lengths)

    @torch.inference_mode()
    def likelihood(self, texts: Sequence[str], codes: Tensor) -> tuple[Tensor, Tensor]:
        """Log p(x | z) of texts given their codes (B, Z), and their numbers of tokens including <eos>, (B,) each."""
        tokens = [torch.tensor(self.predictor.tokens.encode(text), dtype=torch.long) for text in texts]
        lengths = torch.tensor([len(row) + 1 for row in tokens], device=self.device)
        padded = pad_sequence(tokens, batch_first=True, padding_value=_PADDING).to(self.device)
        inputs, targets = add_sos_eos(padded, self.eos, self.eos, _PADDING)
        with scope(collect=False):
            scores, _ = self.of_codes(codes.unsqueeze(1), torch.ones_like(lengths), inputs, lengths)
        losses = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=_PADDING, reduction="none")
        return -losses.view_as(targets).double().sum(1), lengths

    @torch.inference_mode()
    def texts(self, codes: Tensor, longest: int = _LONGEST) -> list[str]:
        """Decode codes (N, Z) into texts of at most `longest` tokens by beam search."""
        options = self.predictor.options
        if not options.maxlenratio:
            options = replace(options, maxlenratio=-longest)
        texts = []
        for batch in codes.to(self.device).split(options.batch_size):
            with scope(collect=False):
                best = self.search(batch.unsqueeze(1), batch.new_ones(len(batch), dtype=torch.long), options)
            texts += [self.predictor.tokens.decode(*nbest[0]).text if nbest else "" for nbest in best]
        return texts

    def samples(self, number: int, seed: int = 0) -> list[str]:
        """Draw texts: decode samples from the prior N(0, I)."""
        return self.texts(torch.randn(number, self.size, generator=torch.Generator().manual_seed(seed)))

    def between(self, first: str, last: str, number: int) -> list[str]:
        """Interpolate: decode `number` (2 or more) codes on the line between the posterior means of two texts."""
        start, end = self.posterior([first]).mean, self.posterior([last]).mean  # encoded separately, without padding
        codes = torch.cat([torch.lerp(start, end, step / (number - 1)) for step in range(number)])
        lengths = (len(self.predictor.read(text)[0]) for text in (first, last))
        return self.texts(codes, max(_LONGEST, 2 * max(lengths) + 10))  # as in translation


def measure(
    model: Autoencoder, data_dir: Path, output_dir: Path, samples: int = 1, seed: int = 0
) -> dict[str, float | int]:
    """Measure the bound of the texts of a data directory; write the codes to codes.npz, the numbers to latent.json.

    codes.npz has `utterances` (N,), and `mean` and `log_var` of their posteriors, (N, Z) float32.

    Args:
        model: The autoencoder.
        data_dir: Data directory; its text is read.
        output_dir: Directory to write to.
        samples: Number K of samples from the posterior.
        seed: Random seed of the samples.

    Returns:
        The content of latent.json: the number of `texts`; `reconstruction` in nats per token; `kl`, `bound` and, with
        several samples, the tighter `importance_weighted_bound` in nats per text; `active_units` of the `units`. A
        deterministic autoencoder has a reconstruction, but no kl and no bounds.

    Raises:
        DataError: The text is missing, malformed or empty, or another process writes to the directory.
    """
    texts = read_table(data_dir / "text")
    number = 1 if model.deterministic else samples
    drawn = torch.randn(len(texts), number, model.size, generator=torch.Generator().manual_seed(seed))
    noise = dict(zip(texts, drawn * (not model.deterministic), strict=True))
    values: dict[str, dict[str, Tensor]] = {}
    lengths = {name: len(model.predictor.tokens.encode(text)) for name, text in texts.items()}
    batches = grouped(texts, lengths.__getitem__, BATCH_SIZE, BATCH_TOKENS)
    for batch in progress(batches, "latent", unit="batch"):
        of_batch = _measured(model, [texts[name] for name in batch], torch.stack([noise[name] for name in batch], 1))
        values |= {name: {key: value[row] for key, value in of_batch.items()} for row, name in enumerate(batch)}
    rows = {key: torch.stack([values[name][key] for name in texts]).cpu() for key in next(iter(values.values()))}
    numbers = _summary(rows, number, model.deterministic)
    codes = {key: rows[key].numpy() for key in ("mean", "log_var")}
    with folder_lock(output_dir):
        with staged_file(output_dir / "codes.npz") as partial, partial.open("wb") as file:
            np.savez(file, utterances=np.array(list(texts)), **codes)
        write_json(output_dir / "latent.json", numbers)
    return numbers


def line(numbers: Mapping[str, Any]) -> str:
    """The numbers of `measure` as one line of text."""
    shown = f"{numbers['texts']} texts: reconstruction {numbers['reconstruction']:.3f} nats a token"
    for key, title in (("kl", "KL"), ("bound", "bound"), ("importance_weighted_bound", "importance-weighted bound")):
        shown += f", {title} {numbers[key]:.2f}" if key in numbers else ""
    return f"{shown}; {numbers['active_units']} of {numbers['units']} units active"


def cells(numbers: Mapping[str, Any]) -> list[str]:
    """Cells of a table: texts, reconstruction, KL, bound, active units; empty where there is no bound."""
    nats = [f"{numbers[key]:.2f}" if key in numbers else "" for key in ("kl", "bound")]
    return [f"{numbers['texts']}", f"{numbers['reconstruction']:.3f}", *nats, f"{numbers['active_units']}"]


def _measured(model: Autoencoder, texts: Sequence[str], noise: Tensor) -> dict[str, Tensor]:
    """Posterior, divergence, likelihoods and log weights of B texts at noise (K, B, Z); each (B, ...)."""
    posterior = model.posterior(texts)
    noise = noise.to(posterior.mean)
    outputs = [model.likelihood(texts, codes) for codes in sample(*posterior, noise)]
    likelihood = torch.stack([log_prob for log_prob, _ in outputs])
    weights = likelihood + log_importance(*posterior, noise)
    divergence = divergence_by_unit(*posterior).sum(-1)
    scores = {"likelihood": likelihood.mean(0), "kl": divergence, "weighted": importance_weighted_bound(weights)}
    return {**posterior._asdict(), **scores, "tokens": outputs[0][1]}


def _summary(rows: Mapping[str, Tensor], samples: int, deterministic: bool) -> dict[str, float | int]:
    count = len(rows["mean"])
    numbers = {"reconstruction": -rows["likelihood"].sum().item() / rows["tokens"].sum().item()}
    if not deterministic:
        kl = rows["kl"].double()
        numbers |= {"kl": kl.mean().item(), "bound": (rows["likelihood"] - kl).mean().item()}
        if samples > 1:
            numbers["importance_weighted_bound"] = rows["weighted"].mean().item()
    rounded = {key: rounded_score(value) for key, value in numbers.items()}
    active = int(active_units(rows["mean"]).sum())
    return {"texts": count, **rounded, "active_units": active, "units": rows["mean"].size(1)}
