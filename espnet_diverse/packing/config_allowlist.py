"""Allowed values in the configuration of a packed model.

A configuration selects classes, and some of ESPnet's classes download models, with code, when they are built. A packed
model may only select classes that need nothing but ESPnet and this package.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from espnet_diverse.errors import ModelError

_MOST_BYTES = 1 << 24
_NETS = {
    *("conformer", "transformer", "branchformer", "e_branchformer", "multiconv_conformer", "transformer_multispkr"),
    *("contextual_block_transformer", "contextual_block_conformer", "rnn", "vgg_rnn"),
    *("diverse_transformer", "diverse_conformer", "diverse_e_branchformer", "diverse_contextual_block_transformer"),
}
_DECODERS = {
    *("transformer", "transformer_md", "rnn", "transducer", "mlm", "linear_decoder", "diverse_transformer"),
    *("lightweight_conv", "lightweight_conv2d", "dynamic_conv", "dynamic_conv2d", "flow"),
}
_TOKENS = {"char", "bpe", "word", "phn"}
_ALLOWED = {
    "frontend": {"default", "sliding_window", "wav2vec_cnn", "embed", "patch", "bert"},
    "specaug": {"specaug"},
    "normalize": {"global_mvn", "utterance_mvn"},
    "preencoder": {"sinc", "linear"},
    "postencoder": {"length_adaptor"},
    **dict.fromkeys(("encoder", "md_encoder", "hier_encoder", "extra_mt_encoder"), _NETS),
    **dict.fromkeys(("decoder", "extra_asr_decoder", "extra_mt_decoder"), _DECODERS),
    "lm": {"seq_rnn", "transformer", "diverse_transformer"},
    "classifier": {"self_attentive"},
    "model": {"espnet", "maskctc", "pit_espnet", "mt", "discrete_asr", "lm", "lm_multitask", "diverse", "flow"},
    "token_type": _TOKENS,
    "src_token_type": _TOKENS | {"hugging_face"},  # reads one file and downloads nothing
}
"""Allowed values by key; null is always allowed."""


def check_config(config: Mapping, model: Path) -> None:
    """Refuse a configuration that could download something, or that is malformed.

    Args:
        config: The configuration.
        model: Path of the archive, for messages.

    Raises:
        ModelError: A value is not allowed, or a section is not a mapping.
    """
    for key, section in config.items():
        if str(key).endswith("_conf") and not isinstance(section, dict | None):
            raise ModelError(f"{model}: {key} of config.yaml is {section!r}; it must be a mapping of options")
    for key, allowed in _ALLOWED.items():
        chosen = config.get(key)
        if chosen is not None and str(chosen).lower() not in allowed:
            raise ModelError(
                f"{model}: {key} {chosen!r} is not allowed in a packed model, because it may download and run code; "
                f"allowed: {' '.join(sorted(allowed))}"
            )


class _Loader(yaml.SafeLoader):
    """Safe YAML without merge keys, with which a few lines can expand beyond the memory."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "merge keys are not allowed", key.start_mark)


def read_yaml(path: Path, shown: str) -> dict:
    """Read a YAML file with a mapping.

    Args:
        path: Path of the file.
        shown: Name of the file in messages.

    Raises:
        ModelError: The file is too large, or is not a mapping in YAML.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise ModelError(
            f"{shown} has {path.stat().st_size} bytes; at most {_MOST_BYTES} are allowed; check where the file is from"
        )
    try:
        mapping = _Loader(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{shown} is not valid YAML ({reason}); download the file again") from error
    if not isinstance(mapping, dict):
        raise ModelError(f"{shown} contains a {type(mapping).__name__}, not a mapping; download the file again")
    return mapping
