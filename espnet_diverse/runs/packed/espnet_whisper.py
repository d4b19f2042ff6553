"""A run of ESPnet with Whisper's encoder and decoder as a run of this package, with the same weights and outputs.

ESPnet's classes need openai-whisper to be built, also from trained weights; here the sizes are those of the weights.
The list of tokens has the text of each token in the order of their ranks, from which the merges of the tokenizer
follow: a token is the merge of the two parts that the merges before it leave of its bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import load
from espnet_diverse.runs.packed.whisper import NEVER, SHIFT, renamed, rows_of, run_config, save_run, vocabulary_of
from espnet_diverse.untrusted.foreign_config import check_config

NAME = "whisper"
"""ESPnet's name of both nets."""
_END, _SPACE = "<|endoftext|>", "Ġ"
_HEAD = 64  # channels of a head in every Whisper
_PARTS = (
    ("encoder.encoders.", "model.encoder."),
    ("decoder.decoders.", "model.decoder."),
    ("token_embedding.", "embed_tokens."),
    ("positional_embedding", "embed_positions.weight"),
    ("blocks.", "layers."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".mlp_ln.", ".final_layer_norm."),
    ("coder.ln_post.", "coder.layer_norm."),
    ("coder.ln.", "coder.layer_norm."),
    (".cross_attn.", ".encoder_attn."),
    (".attn.", ".self_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".out.", ".out_proj."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
)
"""Names of parameters: openai-whisper's in ESPnet's classes, and those of transformers."""
_CODES = {"noinfo": "en", "jpn": "ja", "kr": "ko"}
"""ESPnet's other names of languages."""


def read_whisper(config_file: Path) -> dict[str, Any] | None:
    """Read the configuration of a run of ESPnet that has Whisper's encoder and decoder; None if it has neither.

    Raises:
        ConfigError: It has one of them, or tokens of another type.
        ModelError: The file cannot be read, or has a value that is not allowed.
    """
    config = load(config_file)
    nets = [config.get("encoder"), config.get("decoder")]
    if NAME not in nets:
        return None
    # ESPnet's classes of these parts, which may download a model, are not used.
    keys = (key for key in config if key not in ("encoder", "decoder", "token_type", "bpemodel"))
    check_config({key: config[key] for key in keys}, config_file, packed=False)
    if nets != [NAME, NAME]:
        reason = f"encoder {nets[0]} with decoder {nets[1]} cannot be adopted"
        raise ConfigError(f"{reason}: Whisper's encoder and decoder can, together; give a run that has both")
    if config.get("token_type") not in ("whisper_multilingual", "whisper_en") or _END not in config["token_list"]:
        reason = f"token_type {config.get('token_type')} with decoder {NAME} cannot be adopted"
        raise ConfigError(f"{reason}: only whisper_multilingual and whisper_en can; give a run with Whisper's tokens")
    return config


def write_run(config: Mapping[str, Any], weights: Path, output_dir: Path) -> None:
    """Write the directory of a run: config.yaml, weights and vocabulary.

    Args:
        config: Configuration of ESPnet's run, from `read_whisper`.
        weights: Its weights.
        output_dir: Directory to write to, which exists and is empty.

    Raises:
        ConfigError: The language of the run is none of Whisper's.
        ModelError: The weights cannot be read, or are not those of Whisper with these tokens.
    """
    state, tokens = checkpoint.load_weights(weights), config["token_list"]
    rows = state.get("decoder.decoders.token_embedding.weight")
    if rows is None or len(rows) != len(tokens):
        raise ModelError(
            f"{weights}: has no rows of Whisper's {len(tokens)} tokens; tokens that were added, or LoRA, "
            "cannot be adopted; give a run without them"
        )
    end, tokenizer = tokens.index(_END), _tokenizer(tokens)
    sizes = _sizes(state) | {"eos_token_id": end, "vocab_size": len(tokens)}
    vocabulary = vocabulary_of(tokenizer)
    multilingual = config["token_type"] == "whisper_multilingual"
    run = run_config(sizes, {"is_multilingual": multilingual, "suppress_tokens": []}, tokenizer, vocabulary)
    if multilingual:
        _set_language(run, config.get("preprocessor_conf") or {})
    _set_training(run, config)
    ours = dict(renamed(_as_transformers(state), sizes))
    if (weight := state.get("ctc.ctc_lo.weight")) is not None:
        ours |= _ctc(weight, state["ctc.ctc_lo.bias"], end)
        run["model_conf"]["ctc_labels"] = "tokens"
    save_run(run, vocabulary, ours, output_dir)


def _sizes(state: Mapping[str, Tensor]) -> dict[str, int]:
    """Sizes of the model, as in the config.json of transformers."""
    width, mels = state["encoder.encoders.conv1.weight"].shape[:2]
    sizes = {"d_model": width, "num_mel_bins": mels}
    for net, source in (("encoder", "source"), ("decoder", "target")):
        layers = {name.split(".")[3] for name in state if name.startswith(f"{net}.{net}s.blocks.")}
        sizes[f"{net}_layers"], sizes[f"{net}_attention_heads"] = len(layers), width // _HEAD
        sizes[f"{net}_ffn_dim"] = len(state[f"{net}.{net}s.blocks.0.mlp.0.weight"])
        sizes[f"max_{source}_positions"] = len(state[f"{net}.{net}s.positional_embedding"])
    return sizes


def _as_transformers(state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, value in state.items():
        if not name.startswith("ctc."):
            for source, other in _PARTS:
                name = name.replace(source, other)
            yield name, value


def _ctc(weight: Tensor, bias: Tensor, end: int) -> dict[str, Tensor]:
    """CTC over our tokens: ESPnet's blank is its first token, which is none of the text then."""
    rows, biases = rows_of(weight, end), rows_of(bias, end, NEVER)
    rows[0], biases[0] = weight[0], bias[0]
    rows[SHIFT], biases[SHIFT] = 0.0, NEVER
    return {"ctc.ctc_lo.weight": rows, "ctc.ctc_lo.bias": biases}


def _set_language(run: dict, options: Mapping[str, Any]) -> None:
    """Leave the language and the task of a run as its only conditions, which are those of its prompt."""
    language = options.get("whisper_language") or options.get("tokenizer_language") or "en"
    spoken = _CODES.get(language, language.partition("-")[0])
    written = "en" if options.get("whisper_task") == "translate" else spoken
    prompt = run["decoder_conf"]["prompt"]
    if spoken not in prompt["languages"]:
        raise ConfigError(f"preprocessor_conf.whisper_language {language!r} is none of Whisper's languages; correct it")
    run["model_conf"]["conditions"] = prompt["conditions"] = {"lang": [spoken], "tgtlang": [written]}


def _set_training(run: dict, config: Mapping[str, Any]) -> None:
    """Take over what the features and the losses of a run depend on."""
    encoder, model = config.get("encoder_conf") or {}, config.get("model_conf") or {}
    run["frontend_conf"]["pad"] = "full" if encoder.get("do_pad_trim") else 0
    if encoder.get("use_specaug"):
        run["specaug"], run["specaug_conf"] = "specaug", encoder.get("specaug_conf") or {}
    keys = ("ctc_weight", "lsm_weight", "length_normalized_loss")
    run["model_conf"] |= {key: model[key] for key in keys if key in model}


def _tokenizer(tokens: Sequence[str]) -> dict[str, Any]:
    """Content of the tokenizer.json of Whisper's tokens.

    ESPnet writes a space for "Ġ" and takes spaces from the end, so that the first empty token is the space; others are
    runs of spaces, which texts do not have.
    """
    end, pieces, space = tokens.index(_END), [], _SPACE
    for index, token in enumerate(tokens[:end]):
        piece = token.replace(" ", _SPACE)
        if not piece:
            piece, space = space or f"<token-{index}>", ""
        pieces.append(piece)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [{"id": index, "content": tokens[index], **flags} for index in range(end, len(tokens))]
    split = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    empty: dict = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    model: dict = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False}
    model |= {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    model |= {"vocab": {piece: index for index, piece in enumerate(pieces)}, "merges": list(_merges(pieces))}
    return empty | {"version": "1.0", "added_tokens": special, "pre_tokenizer": split, "decoder": split, "model": model}


def _merges(pieces: Sequence[str]) -> Iterator[str]:
    """Merges in the order of the tokens that they make."""
    ranks = {piece: rank for rank, piece in enumerate(pieces)}
    for rank, piece in enumerate(pieces):
        parts = list(piece)
        while len(parts) > 2:
            pairs = [ranks.get(left + right, rank) for left, right in zip(parts, parts[1:], strict=False)]
            if min(pairs) >= rank:
                break
            first = pairs.index(min(pairs))
            parts[first : first + 2] = [parts[first] + parts[first + 1]]
        if len(parts) == 2:
            yield " ".join(parts)
