"""Pretrained speech encoders of Hugging Face, read as safetensors from a folder or the Hub. No code of a model is run.

An architecture is plain data, which config.yaml holds, so that a trained model needs neither the folder nor a network:

    name: facebook/wav2vec2-base
    license: apache-2.0
    encoder: {model_type: wav2vec2, hidden_size: 768, ...}
    processor: {do_normalize: true, return_attention_mask: false, ...}

`encoder` has options of config.json, and `processor` options of preprocessor_config.json.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.frontends.pretrained import load_checked, read_json, reading
from espnet_diverse.nets.frontends.pretrained_config import (
    ACTIVATION,
    COUNT,
    INDEX,
    LAYERS,
    Allowed,
    checked,
    checked_options,
)
from espnet_diverse.untrusted.foreign_yaml import shortened
from espnet_diverse.untrusted.hub import PREFIX, encoder_folder

RATE = 16000
"""Sampling rate of all encoders in Hz."""
_FILES = ["config.json", "preprocessor_config.json", "model*.safetensors", "model.safetensors.index.json", "README.md"]
_NEEDED = "give a folder with config.json, preprocessor_config.json and model.safetensors, or hf:owner/name"
_EXTRA = "ssl"
_KEYS = ("name", "license", "encoder", "processor")
_DROPOUTS = (
    *("hidden_dropout", "activation_dropout", "attention_dropout", "feat_proj_dropout", "layerdrop", "dropout"),
    *("encoder_layerdrop", "conformer_conv_dropout"),
)
ENCODERS = Allowed(
    ("data2vec-audio", "hubert", "unispeech-sat", "wav2vec2", "wav2vec2-bert", "wavlm", "whisper"),
    {
        **dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads"), COUNT),
        **dict.fromkeys(("num_hidden_layers", "encoder_layers"), LAYERS),
        **dict.fromkeys(("conv_dim", "conv_stride", "conv_kernel"), [COUNT]),
        **dict.fromkeys(("num_conv_pos_embeddings", "num_conv_pos_embedding_groups", "conv_pos_kernel_size"), COUNT),
        **dict.fromkeys(("num_buckets", "max_bucket_distance", "adapter_attn_dim"), INDEX),
        **dict.fromkeys(("feature_projection_input_dim", "conv_depthwise_kernel_size", "rotary_embedding_base"), COUNT),
        **dict.fromkeys(("left_max_position_embeddings", "right_max_position_embeddings"), INDEX),
        **dict.fromkeys(("d_model", "encoder_attention_heads", "encoder_ffn_dim", "num_mel_bins"), COUNT),
        **dict.fromkeys(("max_source_positions", "mask_time_length", "mask_feature_length"), COUNT),
        **dict.fromkeys(("mask_time_min_masks", "mask_feature_min_masks"), INDEX),
        **dict.fromkeys(_DROPOUTS, float),
        **dict.fromkeys(("mask_time_prob", "mask_feature_prob", "layer_norm_eps"), float),
        **dict.fromkeys(("initializer_range", "init_std"), float),
        **dict.fromkeys(("hidden_act", "feat_extract_activation", "activation_function"), ACTIVATION),
        **dict.fromkeys(("conv_bias", "do_stable_layer_norm", "apply_spec_augment", "scale_embedding"), (False, True)),
        **dict.fromkeys(("feat_proj_layer_norm", "conv_pos_batch_norm"), (False, True)),
        "feat_extract_norm": ("group", "layer"),
        "position_embeddings_type": ("rotary", "relative", "relative_key", None),
        "add_adapter": (False,),
    },
)
"""Types and options that an encoder may have."""
PROCESSORS = Allowed(
    (),
    {
        "do_normalize": (False, True),
        "return_attention_mask": (False, True),
        "sampling_rate": (RATE,),
        "padding_value": float,
        **dict.fromkeys(("feature_size", "num_mel_bins"), range(1, 1025)),
        **dict.fromkeys(("hop_length", "n_fft"), range(16, 65537)),
        "chunk_length": range(1, 3601),
        "stride": range(1, 65),
    },
)
"""Options that the preparation of samples may have."""
_SAMPLES = ("do_normalize", "return_attention_mask", "sampling_rate", "padding_value", "feature_size")
_PREPARED = {
    "wav2vec2-bert": ("SeamlessM4TFeatureExtractor", ("num_mel_bins", "stride")),
    "whisper": ("WhisperFeatureExtractor", ("hop_length", "n_fft", "chunk_length")),
}
"""Class of transformers that prepares the samples, and its own options, by type of the encoder."""
_OF_SAMPLES = ("Wav2Vec2FeatureExtractor", _SAMPLES)


_LICENSE = re.compile(r"---\n(?:(?!---$).*\n)*?license: *([\w.+-]{1,100}) *\n", re.MULTILINE)
_HEAD = 1 << 16


def read_architecture(model: str | Path, cache: str | None = None, offline: bool = False) -> dict[str, Any]:
    """Read the architecture of an encoder.

    Args:
        model: Folder of the encoder, or hf:owner/name; owner/name is searched for in the cache of the Hub only.
        cache: Folder of the cache; by default the Hugging Face Hub's.
        offline: Whether hf:owner/name is searched for in the cache only.

    Raises:
        ConfigError: The folder or a file of it cannot be read, or the architecture is not allowed.
        ModelError: The files of hf:owner/name cannot be fetched.
    """
    folder = encoder_folder(model, _FILES, cache, or_cached=True, offline=offline)
    file = folder / "config.json"
    config = read_json(file, _NEEDED)
    for name in ("auto_map", "trust_remote_code"):
        if config.get(name):
            raise ConfigError(f"{file}: {name} asks for code of the model, which is not run; remove it, or {_NEEDED}")
    config = {name: value for name, value in config.items() if name in ("model_type", *ENCODERS.options)}
    encoder = checked(config, file, ENCODERS)
    file = folder / "preprocessor_config.json"
    _, known = _PREPARED.get(encoder["model_type"], _OF_SAMPLES)
    prepared = {name: value for name, value in read_json(file, _NEEDED).items() if name in {*known, *_SAMPLES}}
    processor = checked_options(prepared, file, PROCESSORS)
    name = str(model).removeprefix(PREFIX) if folder != Path(model) else folder.resolve().name
    return {"name": name, "license": _license(folder), "encoder": encoder, "processor": processor}


def checked_architecture(architecture: object, source: str) -> dict[str, Any]:
    """Return an architecture of a config.yaml if every part of it is allowed.

    Args:
        architecture: The value in config.yaml.
        source: Its place, for messages.

    Raises:
        ConfigError: A key, a type, an option or a value is not allowed.
    """
    parts = architecture if isinstance(architecture, dict) else {}
    kinds = {"name": str | None, "license": str | None, "encoder": dict, "processor": dict}
    wrong = [key for key in {**dict.fromkeys(_KEYS), **parts} if key not in kinds]
    wrong += [key for key, kind in kinds.items() if not isinstance(parts.get(key), kind)]
    if wrong:
        value = shortened(repr(parts[wrong[0]])) if wrong[0] in parts else "missing"
        keys = f"an architecture has {' '.join(_KEYS)}, of which the last two are mappings"
        raise ConfigError(f"{source}: {shortened(wrong[0])} is {value}; {keys}")
    return {
        **{key: parts.get(key) for key in ("name", "license")},
        "encoder": checked(parts["encoder"], f"{source}.encoder", ENCODERS),
        "processor": checked_options(parts["processor"], f"{source}.processor", PROCESSORS),
    }


def build(architecture: Mapping[str, Any]) -> Any:
    """Build an encoder with random weights, in evaluation mode.

    Args:
        architecture: A checked architecture.

    Raises:
        ConfigError: transformers refuses the architecture.
    """
    with reading("the pretrained encoder", _EXTRA, _NEEDED) as transformers:
        known = transformers.AutoConfig.for_model(**architecture["encoder"])
        kind = _class(transformers, known)
        built = kind.from_config(known, trust_remote_code=False) if kind is transformers.AutoModel else kind(known)
        return built.eval()


def load(model: str | Path, architecture: Mapping[str, Any], cache: str | None = None) -> Any:
    """Load a trained encoder in evaluation mode.

    Args:
        model: As for `read_architecture`.
        architecture: Its architecture.
        cache: Folder of the cache; by default the Hugging Face Hub's.

    Raises:
        ConfigError: The encoder cannot be read, is not stored as safetensors, or lacks parameters.
        ModelError: The files of hf:owner/name cannot be fetched, or the architecture asks for a far larger encoder.
    """
    folder = encoder_folder(model, _FILES, cache, or_cached=True)
    with reading(model, _EXTRA, _NEEDED) as transformers:
        known = transformers.AutoConfig.for_model(**architecture["encoder"])
        options = {"key_mapping": {r"^(model\.)?encoder\.": ""}} if known.model_type == "whisper" else {}
        kind, unused = _class(transformers, known), ("masked_spec_embed",)  # which only training uses
        return load_checked(kind, known, model, folder, unused, **options)


def processor(architecture: Mapping[str, Any]) -> Any:
    """Return the object of transformers that prepares samples for an encoder.

    Args:
        architecture: A checked architecture.

    Raises:
        ConfigError: transformers refuses its options.
    """
    name, _ = _PREPARED.get(architecture["encoder"]["model_type"], _OF_SAMPLES)
    with reading("the pretrained encoder", _EXTRA, _NEEDED) as transformers:
        return getattr(transformers, name)(**architecture["processor"])


def _license(folder: Path) -> str | None:
    """Return the licence that the README.md of an encoder names in its first lines, if any."""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            match = _LICENSE.match(file.read(_HEAD))
    except OSError:
        return None
    return match[1] if match else None


def _class(transformers: ModuleType, config: Any) -> Any:
    """Return the class that builds an encoder; for Whisper, the class of the encoder alone."""
    if config.model_type == "whisper":
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        return WhisperEncoder
    return transformers.AutoModel
