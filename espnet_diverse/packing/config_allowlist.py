"""What a configuration from elsewhere may say.

A configuration chooses classes, and some of ESPnet's fetch models, and code with them, when they are built. A packed
model may choose only classes that are made of ESPnet and this package alone.
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
    *("lightweight_conv", "lightweight_conv2d", "dynamic_conv", "dynamic_conv2d"),
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
    "model": {"espnet", "maskctc", "pit_espnet", "mt", "discrete_asr", "lm", "lm_multitask", "diverse"},
    "token_type": _TOKENS,
    "src_token_type": _TOKENS | {"hugging_face"},  # of which one file is read and nothing fetched
}
"""What may be chosen; null may always be."""


def check_config(config: Mapping, model: Path) -> None:
    """Refuse a configuration that would fetch something, or that no run has.

    Raises:
        ModelError: The choice that is not allowed, or a section that is no mapping.
    """
    for key, section in config.items():
        if str(key).endswith("_conf") and not isinstance(section, dict | None):
            raise ModelError(f"{model}: {key} of config.yaml is {section!r}; it is a mapping of options")
    for key, allowed in _ALLOWED.items():
        chosen = config.get(key)
        if chosen is not None and str(chosen).lower() not in allowed:
            raise ModelError(
                f"{model}: {key} {chosen!r} is not allowed in a packed model, for it may fetch and run code; "
                f"allowed: {' '.join(sorted(allowed))}"
            )


class _Loader(yaml.SafeLoader):
    """Safe YAML without merge keys, of which a few lines can become more than memory holds; no program writes them."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, "merge keys are not allowed", key.start_mark)


def read_yaml(path: Path, shown: str) -> dict:
    """Read a mapping.

    Args:
        path: The file.
        shown: What to call it in messages.

    Raises:
        ModelError: It is too large or no mapping in YAML.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise ModelError(f"{shown} has {path.stat().st_size} bytes; {_MOST_BYTES} are allowed")
    try:
        mapping = _Loader(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())
        raise ModelError(f"{shown} is no YAML that can be read ({said}); fetch the file again") from error
    if not isinstance(mapping, dict):
        raise ModelError(f"{shown} holds a {type(mapping).__name__}, not a mapping; fetch the file again")
    return mapping
