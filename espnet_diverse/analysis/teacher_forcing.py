"""Runs a model on one utterance or sentence with teacher forcing, for plots and analysis."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from espnet2.train.abs_espnet_model import AbsESPnetModel
from numpy.typing import NDArray

from espnet_diverse.decoding.espnet.multitask_ctc import EncoderPrompt, PromptedModel
from espnet_diverse.decoding.options import is_non_autoregressive
from espnet_diverse.decoding.teacher_forcing import reads_tokens
from espnet_diverse.decoding.token_text import TokenText
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.audio_rate import required_rate
from espnet_diverse.runs.tasks import load_model, read_config
from espnet_diverse.scope import scope
from espnet_diverse.text.vocabulary import Vocabulary

TASKS = ("asr", "st", "mt", "s2t_ctc")


def load(
    model_dir: Path, model_file: str | Path | None = None, device: str = "cpu"
) -> tuple[AbsESPnetModel, int | None]:
    """Load the model of a run in evaluation mode, and the sampling rate in Hz of its audio, None for text.

    Args:
        model_dir: Directory of the run.
        model_file: File with the weights, as in `runs.tasks.load_model`.
        device: "cpu", "cuda" or "cuda:N".

    Raises:
        ModelError: A file is missing or damaged, the weights do not fit, the model has no encoder, or it is
            non-autoregressive.
    """
    config = read_config(model_dir / "config.yaml")
    task = config.get("task", "asr")
    if task not in TASKS:
        raise ModelError(f"{model_dir}: a model of task {task} cannot be analysed; known: {' '.join(TASKS)}")
    if is_non_autoregressive(config):
        raise ModelError(f"{model_dir}: a non-autoregressive model reads no tokens; analyse another")
    model, args = load_model(model_dir, model_file, device, task)
    rate = None if task == "mt" else required_rate(config)
    return PromptedModel(model.eval(), EncoderPrompt(args)) if task == "s2t_ctc" else model.eval(), rate


def target_vocabulary(model_dir: Path) -> Vocabulary | TokenText:
    """Return the vocabulary of the text; for a model of ESPnet, which has no file of it, from its configuration.

    Raises:
        DataError: The vocabulary is damaged.
        ModelError: config.yaml is missing or damaged.
    """
    if (model_dir / "tokens.yaml").exists():
        return Vocabulary.load(model_dir)
    return TokenText(Namespace(**read_config(model_dir / "config.yaml")))


def source_vocabulary(model_dir: Path) -> Vocabulary | TokenText | None:
    """Return the vocabulary of the source text of a model of text translation, for a model of ESPnet from its
    configuration; None for a model that reads speech.

    Raises:
        DataError: The vocabulary is missing or damaged.
        ModelError: config.yaml is missing or damaged.
    """
    config = read_config(model_dir / "config.yaml")
    if config["task"] != "mt":
        return None
    if (model_dir / "src_tokens").is_dir():
        return Vocabulary.load(model_dir / "src_tokens")
    return TokenText(
        Namespace(**{name: config.get(f"src_{name}") for name in ("token_list", "token_type", "bpemodel")})
    )


def prompt_tokens(model: AbsESPnetModel, conditions: Mapping[str, int] | None = None) -> list[str]:
    """Return the tokens that the decoder reads after <sos> and before a text, as Whisper's; usually there are none.

    Args:
        model: A model.
        conditions: Index of the value of each condition that the model needs.
    """
    prompt = getattr(getattr(model, "decoder", None), "prompt", None)
    if prompt is None:
        return []
    ids = {condition: torch.tensor([index]) for condition, index in (conditions or {}).items()}
    with scope(ids, collect=False):
        return [model.token_list[index] for index in prompt(1)[0, 1:].tolist()]


def run_teacher_forced(
    model: AbsESPnetModel, source: NDArray, text: Sequence[int], conditions: Mapping[str, int] | None = None
) -> None:
    """Run the encoder, and the decoder if it predicts tokens, on one utterance; attention keeps its weights.

    Args:
        model: A model in evaluation mode, on any device.
        source: Samples of the audio (T,) float32, or token indices of the source text (T,) int64.
        text: Token indices of the target of the decoder.
        conditions: Index of the value of each condition that the model needs.
    """
    device = next(model.parameters()).device
    samples = torch.from_numpy(source).unsqueeze(0).to(device)
    tokens = torch.tensor([[model.sos, *text]], device=device)
    ids = {condition: torch.tensor([index], device=device) for condition, index in (conditions or {}).items()}
    with torch.no_grad(), scope(ids, keep_attention=True, collect=False):
        frames, lengths = model.encode(samples, torch.tensor([samples.size(1)], device=device))[:2]
        if isinstance(frames, tuple):  # with the frames of intermediate layers
            frames = frames[0]
        if reads_tokens(model):
            model.decoder(frames, lengths, tokens, torch.tensor([tokens.size(1)], device=device))
