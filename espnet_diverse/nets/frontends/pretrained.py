"""Pretrained text encoders of Hugging Face, read as safetensors from a folder or the Hub. No code of a model is run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.errors import ConfigError, UserError, optional_package
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.nets.building import bounded_by
from espnet_diverse.nets.frontends.pretrained_config import OPTIONS, checked
from espnet_diverse.text.pretrained_tokenizer import PretrainedTokenizer, read_tokenizer
from espnet_diverse.untrusted import whole_files
from espnet_diverse.untrusted.hub import encoder_folder

_HEADS = ("pooler",)
"""Parts after the embeddings of tokens, which are not used."""
_NEEDED = "give a folder with config.json, model.safetensors and tokenizer.json, or hf:owner/name"


def read_config(model: str | Path) -> dict:
    """Read the architecture of an encoder as plain data, from which `build` builds it.

    Args:
        model: Folder of the encoder, or hf:owner/name.

    Raises:
        ConfigError: The folder or its config.json cannot be read, or the architecture is not allowed.
        ModelError: The files of hf:owner/name cannot be fetched.
    """
    file = encoder_folder(model) / "config.json"
    config = read_json(file)
    return checked({name: value for name, value in config.items() if name in ("model_type", *OPTIONS)}, file)


def build(config: dict, model: str | Path | None = None) -> Any:
    """Build an encoder with random weights.

    Args:
        config: Architecture, the result of `read_config`, or of `to_diff_dict` of transformers in earlier versions.
        model: Folder of the encoder that the architecture is from, or hf:owner/name, whose weights bound the size.

    Raises:
        ConfigError: The architecture has a type, option or value that is not allowed, or the weights cannot be read.
        ModelError: The architecture asks for a far larger encoder than the weights.
    """
    config = checked(config, "bert_config")
    bounds = _bounded(encoder_folder(model)) if model is not None else nullcontext()
    with reading(model or config["model_type"]) as transformers, bounds:
        known = transformers.AutoConfig.for_model(**config)
        return _without_heads(transformers.AutoModel.from_config(known, trust_remote_code=False))


def load(model: str | Path) -> Any:
    """Load a trained encoder in evaluation mode.

    Args:
        model: Folder of the encoder, or hf:owner/name.

    Raises:
        ConfigError: The encoder cannot be read, is not stored as safetensors, or lacks parameters.
        ModelError: The files of hf:owner/name cannot be fetched, or the architecture asks for a far larger encoder.
    """
    folder = encoder_folder(model)
    config = read_config(folder)
    with reading(model) as transformers:
        known = transformers.AutoConfig.for_model(**config)
        return _without_heads(load_checked(transformers.AutoModel, known, model, folder, _HEADS))


def load_checked(
    kind: Any, config: Any, model: str | Path, folder: Path, unused: tuple[str, ...], **options: Any
) -> nn.Module:
    """Load a trained encoder in float32 and evaluation mode; called within `reading`.

    Args:
        kind: Its class in transformers.
        config: Its configuration in transformers.
        model: Name of the model, for messages.
        folder: Its folder.
        unused: Beginnings of the names of parameters that are not used, which may be missing.
        options: Further arguments of `from_pretrained`.

    Raises:
        ConfigError: Parameters are missing.
        ModelError: The configuration asks for a far larger encoder than the weights.
    """
    options |= {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    with _bounded(folder), _quiet():
        encoder, loading_info = kind.from_pretrained(str(folder), config=config, output_loading_info=True, **options)
    missing = [name for name in loading_info["missing_keys"] if not name.startswith(unused)]
    if missing:
        raise ConfigError(f"{model}: model.safetensors lacks {len(missing)} parameters, first {min(missing)}")
    return encoder.float().eval()


def positions(encoder: Any) -> int:
    """Return the greatest number of tokens that an encoder reads, including the special tokens around a text."""
    table = encoder.embeddings.position_embeddings
    # Positions of RoBERTa begin after padding.
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


class Embedder:
    """Embeds the tokens of texts by one layer of a trained encoder.

    Args:
        model: Folder of the encoder, or hf:owner/name.
        layer: Index of the layer: 0 is the input of the encoder, 1 its first layer; None is the last layer.

    Attributes:
        name: Name of the encoder and index of the layer.

    Raises:
        ConfigError: The encoder cannot be read, or has no such layer.
    """

    batch_size = 32

    def __init__(self, model: str | Path, layer: int | None = None):
        self.encoder, self.tokenizer = load(model), PretrainedTokenizer(read_tokenizer(model))
        count = self.encoder.config.num_hidden_layers
        if layer is not None and not 0 <= layer <= count:
            raise ConfigError(f"layer {layer} is not allowed; {model} has layers 0, its input, to {count}")
        self.layer = count if layer is None else layer
        self.name = f"model:{Path(model).name}|layer:{self.layer}"

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[NDArray]:
        """Compute unit-length embeddings (N, D) of the N tokens of each text, without the special tokens around it.

        Texts are truncated to the length that the encoder reads. The order of the texts changes only rounding errors.
        """
        limit = positions(self.encoder)
        ids = [self.tokenizer.encode_with_special_tokens(text) for text in texts]
        ids = [row if len(row) <= limit else [*row[: limit - 1], row[-1]] for row in ids]
        embeddings: list = [None] * len(ids)
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        for begin in range(0, len(ids), self.batch_size):
            batch = order[begin : begin + self.batch_size]
            rows = [torch.tensor(ids[index]) for index in batch]
            mask = lengths_to_mask(torch.tensor([len(row) for row in rows]), len(rows[-1])).long()
            input_ids = pad_sequence(rows, batch_first=True)
            states = self.encoder(input_ids=input_ids, attention_mask=mask, output_hidden_states=True).hidden_states
            unit = F.normalize(states[self.layer], dim=-1)
            for index, row, x in zip(batch, rows, unit, strict=True):
                embeddings[index] = x[1 : len(row) - 1].numpy()
        return embeddings


def read_json(file: Path, needed: str = _NEEDED) -> dict:
    """Read a configuration of transformers as plain data.

    Args:
        file: The file.
        needed: What a folder must have, for messages.

    Raises:
        ConfigError: The file cannot be read, or is no mapping.
    """
    try:
        config = whole_files.read_json(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read ({_one_line(error)}); {needed}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{file}: is not the configuration of a model; {needed}")
    return config


@contextmanager
def reading(model: str | Path | None, extra: str = "bert", needed: str = _NEEDED) -> Iterator[ModuleType]:
    """Import transformers, and turn its errors into a `ConfigError` of one line.

    Args:
        model: Name of the model, for messages.
        extra: Extra of this package that has transformers, for messages.
        needed: What a folder must have, for messages.
    """
    transformers = optional_package("transformers", "a pretrained encoder", extra)
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    try:
        yield transformers
    except (KeyError, OSError, RuntimeError, SafetensorError, StrictDataclassError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise ConfigError(f"{model}: cannot be read as a pretrained encoder ({_one_line(error)}); {needed}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from showing its progress, and the parameters that an encoder leaves out, such as of heads."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


@contextmanager
def _bounded(folder: Path) -> Iterator[None]:
    """Stop the building of an encoder that is far larger than the weights in its folder."""
    from safetensors import safe_open

    state = {}
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118  it is no mapping
                state[name] = torch.empty(weights.get_slice(name).get_shape(), device="meta")
    if not state:
        raise OSError("no model.safetensors")
    with bounded_by(state, folder):
        yield


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _without_heads(encoder: nn.Module) -> nn.Module:
    for name in _HEADS:
        if hasattr(encoder, name):
            setattr(encoder, name, None)
    return encoder.eval()
