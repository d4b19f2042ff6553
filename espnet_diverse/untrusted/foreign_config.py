"""Allowed values in the configuration of a trained model that may be from somebody else.

A configuration selects classes, and some of ESPnet's classes download models, with code, or load files that it names,
when they are built. A packed model, or the directory of a run, may only select classes that need nothing but ESPnet and
this package. Numbers must be possible for a model on one machine; `nets/building.py` compares them with the weights.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from espnet_diverse.errors import ModelError
from espnet_diverse.untrusted.foreign_yaml import shortened
from espnet_diverse.untrusted.hub import PREFIX, is_name

TRUST = "ESPNET_DIVERSE_TRUST_RUNS"
_NETS = {
    *("conformer", "transformer", "branchformer", "e_branchformer", "multiconv_conformer", "transformer_multispkr"),
    *("contextual_block_transformer", "contextual_block_conformer", "rnn", "vgg_rnn"),
    *("diverse_transformer", "diverse_conformer", "diverse_branchformer", "diverse_e_branchformer"),
    *("diverse_contextual_block_transformer", "diverse_contextual_block_conformer", "diverse_whisper"),
}
_PROMPTED = {"e_branchformer_ctc", "diverse_e_branchformer_ctc"}
_DECODERS = {
    *("transformer", "transformer_md", "rnn", "transducer", "mlm", "linear_decoder", "diverse_transformer"),
    "diverse_whisper",
    *("lightweight_conv", "lightweight_conv2d", "dynamic_conv", "dynamic_conv2d", "flow", "vae"),
}
_TOKENS = {"char", "bpe", "word", "phn"}
_ALLOWED = {
    "frontend": {
        *("default", "sliding_window", "wav2vec_cnn", "embed", "patch"),
        *("bert", "huggingface", "fused", "whisper_mel", "whisper_encoder"),
    },
    "specaug": {"specaug"},
    "normalize": {"global_mvn", "utterance_mvn"},
    "preencoder": {"sinc", "linear"},
    "postencoder": {"length_adaptor"},
    "encoder": _NETS | _PROMPTED,
    **dict.fromkeys(("promptencoder", "md_encoder", "hier_encoder", "extra_mt_encoder"), _NETS),
    **dict.fromkeys(("decoder", "extra_asr_decoder", "extra_mt_decoder"), _DECODERS),
    "lm": {"seq_rnn", "transformer", "diverse_transformer"},
    "classifier": {"self_attentive", "self_attentive_pair", "transformer"},
    "adapter": {"lora"},
    "model": {
        *("espnet", "espnet_ctc", "maskctc", "pit_espnet", "mt", "discrete_asr", "lm", "lm_multitask"),
        *("diverse", "flow", "vae"),
    },
    **dict.fromkeys(("token_type", "src_token_type"), _TOKENS | {"hugging_face"}),  # reads one file, downloads nothing
    # Other values fetch data, or need programs of the machine.
    "g2p": {"pypinyin_g2p", "pypinyin_g2p_phone", "pypinyin_g2p_phone_without_prosody", "korean_jaso"},
}
"""Allowed values by key; null is always allowed."""
FUSED = ("default", "huggingface")
"""Frontends that a fused one may have."""

FILES_OF_TRAINING = ("non_linguistic_symbols", "rir_scp", "noise_scp")
"""Keys with paths of files that ESPnet opens to prepare the data of a training."""
OF_THE_MACHINE = {
    **dict.fromkeys(FILES_OF_TRAINING),
    "output_dir": None,
    "config": None,
    "pretrain_path": None,
    "init_param": [],
    "train_data_path_and_name_and_type": [],
    "valid_data_path_and_name_and_type": [],
    "train_shape_file": [],
    "valid_shape_file": [],
}
"""Keys of config.yaml with paths that only training uses, and their values in a packed model."""
_PARTS = tuple(f"{part}_conf" for part in _ALLOWED if part != "g2p" and not part.endswith("token_type"))
_TASKS = ("asr", "st", "mt", "lm", "cls", "electra", "s2t", "s2t_ctc")
_TRANSDUCER = "asr_transducer"
_TOKEN_LISTS = ("token_list", "src_token_list")
_MOST = 1_000_000
_NUMBERS = {
    "n_fft": (16, 1 << 16),
    "win_length": (16, 1 << 16),
    "hop_length": (16, 1 << 16),
    "n_mels": (1, 1024),
    "block_size": (0, _MOST),
    "hop_size": (1, _MOST),
    "look_ahead": (0, _MOST),
    "num_blocks": (0, 1000),
    "num_layers": (0, 1000),
    "nlayers": (0, 1000),
    "layer": (0, 1000),
    "max_positions": (1, 100_000),
    **dict.fromkeys(("num_time_mask", "num_freq_mask"), (0, 100)),  # masks of SpecAugment, drawn for each utterance
}
"""Least and greatest value by option; other numbers of a part are at most 1,000,000."""


def check_config(config: Mapping, source: Path, packed: bool = True) -> None:
    """Refuse a configuration that could download or open something or exhaust the machine, or that is malformed.

    Args:
        config: The configuration.
        source: Path of the archive, or of config.yaml, for messages.
        packed: Whether it belongs to a packed model; otherwise to the directory of a run, where the user can allow more
            parts by setting the environment variable `TRUST`.

    Raises:
        ModelError: A value is not allowed, or a section is not a mapping.
    """
    for key, section in config.items():
        if str(key).endswith("_conf") and not isinstance(section, dict | None):
            reason = f"{shortened(key)} of config.yaml is {shortened(section)}"
            raise ModelError(f"{source}: {reason}; it must be a mapping of options")
    if strange := [key for key in config if not isinstance(key, str)]:
        raise ModelError(f"{source}: key {shortened(repr(strange[0]))} of config.yaml is not text; correct it")
    if (task := config.get("task", told_task(config))) == _TRANSDUCER:
        reason = f"a model of task {task} is not possible here"
        raise ModelError(f"{source}: {reason}; use espnet2.bin.asr_transducer_inference of ESPnet, which trained it")
    if task not in _TASKS:
        raise ModelError(f"{source}: task of config.yaml is {shortened(task)}; it must be one of {' '.join(_TASKS)}")
    for section, key in named_files(config):
        if not isinstance(section[key], str):
            raise ModelError(f"{source}: {key} of config.yaml is {shortened(section[key])}; it must be a path")
    for key in _TOKEN_LISTS:
        tokens = config.get(key)
        if tokens is not None and not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            reason = f"{key} of config.yaml is {shortened(tokens)}"
            raise ModelError(f"{source}: {reason}; it must be the list of tokens itself, each of them text")
        if tokens is not None and not isinstance(config.get(kind := key.replace("list", "type"), ""), str):
            reason = f"{kind} of config.yaml is {shortened(config.get(kind))}"
            raise ModelError(f"{source}: {reason}; it must be one of {' '.join(sorted(_ALLOWED[kind]))}")
    if packed or os.environ.get(TRUST) != "1":
        _check_parts(config, source, packed)
        _check_frontends(config, source, packed)
    for part in _PARTS:
        for option, value in _numbers(config.get(part), part):
            least, most = _NUMBERS.get(option.rpartition(".")[2], (-_MOST, _MOST))
            if not least <= value <= most:  # NaN is refused too
                reason = f"{shortened(option)} of config.yaml is {shortened(value)}"
                raise ModelError(f"{source}: {reason}; allowed are {least} to {most}")


def told_task(config: Mapping) -> str:
    """The task of a model whose config.yaml has none, by its parts; ESPnet's own programs do not write the task."""
    model, preprocessor = config.get("model"), config.get("preprocessor")
    if "joint_network_conf" in config:  # transducers of task asr have joint_net_conf
        return _TRANSDUCER
    if model == "espnet_ctc" or config.get("promptencoder") or preprocessor == "s2t_ctc":
        return "s2t_ctc"
    if preprocessor == "s2t":
        return "s2t"
    if model in ("lm", "lm_multitask") or ("lm" in config and "encoder" not in config):
        return "lm"
    if "extra_asr_decoder" in config:
        return "st"
    return "mt" if "src_token_list" in config else "asr"


def named_files(config: Mapping) -> list[tuple[dict, str]]:
    """Entries of the config.yaml of a run that name files that the model needs: section and key of each."""
    normalise = config.get("normalize_conf") or {}
    entries = (config, "bpemodel"), (config, "src_bpemodel"), (normalise, "stats_file")
    return [(section, key) for section, key in entries if section.get(key)]


def _check_parts(config: Mapping, source: Path, packed: bool) -> None:
    for key, allowed in _ALLOWED.items():
        chosen = config.get(key)
        if chosen is not None and str(chosen).lower() not in allowed:
            reason = f"{key} {shortened(repr(chosen))} is not allowed"
            why = "in a packed model, because it may download and run code"
            todo = f"allowed: {' '.join(sorted(allowed))}"
            if not packed:
                why = "in a run, because it may download code or load files that config.yaml names"
                todo += f"; set {TRUST}=1 if you have trained this run yourself"
                if chosen == "whisper":
                    todo = "adopt makes a run of it that downloads nothing"
            raise ModelError(f"{source}: {reason} {why}; {todo}")


def _check_frontends(config: Mapping, source: Path, packed: bool) -> None:
    """Check the frontends in a fused frontend, and the models that pretrained encoders name."""
    kind, options = str(config.get("frontend")).lower(), config.get("frontend_conf") or {}
    parts = [{**options, "frontend_type": kind}]
    if kind == "fused":
        parts = options.get("frontends")
        if not (isinstance(parts, list) and parts and all(isinstance(part, dict) for part in parts)):
            reason = f"frontends in frontend_conf of config.yaml is {shortened(parts)}"
            raise ModelError(f"{source}: {reason}; it must be a list of frontends, each a mapping of options")
        for part in parts:
            if (frontend := part.get("frontend_type")) not in FUSED:
                reason = f"frontend_type {shortened(repr(frontend))} of a fused frontend is not allowed"
                raise ModelError(f"{source}: {reason}; allowed: {' '.join(FUSED)}")
    for part in parts:
        model = part.get("model") if part["frontend_type"] == "huggingface" else None
        named = isinstance(model, str) and (not packed or is_name(model.removeprefix(PREFIX)))
        if model is not None and not named:
            where = "owner/name of the Hugging Face Hub" + ("" if packed else ", or a folder")
            raise ModelError(
                f"{source}: model {shortened(repr(model))} of a frontend is not allowed; it must be {where}"
            )


def _numbers(value: object, name: str) -> Iterator[tuple[str, float]]:
    """The numbers of a section, at any depth, each with its path of keys."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _numbers(below, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _numbers(below, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
