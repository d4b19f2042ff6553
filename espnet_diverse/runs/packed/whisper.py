"""A trained Whisper model of Hugging Face's layout as the directory of a run, with the same weights and outputs.

Only data are read: config.json, generation_config.json, tokenizer.json and model.safetensors. No code of the model is
run, and no other package is needed.

Tokens keep their order: token i of Whisper is i + 2 here, after <blank> and <unk>. <sos/eos>, the last one, has the
weights of <|endoftext|>, and the decoder replaces it by the prompt where it begins a text. The keys of Whisper's
attention have no bias; a bias of 0 is the same.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.nets.frontends.pretrained import read_json
from espnet_diverse.nets.whisper.decoder import heads_that_align
from espnet_diverse.nets.whisper.features import RATE
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import save
from espnet_diverse.runs.model_files import FOREIGN_CONFIG, weights_name
from espnet_diverse.runs.tasks import PRETRAINED, TASKS
from espnet_diverse.text.foreign_tokenizer import FILE as TOKENIZER
from espnet_diverse.text.foreign_tokenizer import MOST_BYTES, read_content
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.untrusted.whole_files import read_bytes

_GENERATION = "generation_config.json"
_MOST_HEADS = 1 << 16
_AGAIN = "download the model again"
FILES = (FOREIGN_CONFIG, _GENERATION, TOKENIZER, "model*.safetensors", "README.md")
"""Patterns of the files of a repository that are needed."""
SHIFT = 2
"""Tokens before those of Whisper: <blank> and <unk>."""
NEVER = -100.0
"""Score of <blank>, <unk> and the second <|endoftext|>: a probability below 1e-40."""
_MULTILINGUAL = 51_865  # tokens of the first multilingual model; models of English alone have one less
_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
_SPECIAL = ("<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>")
_NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")
_NOTES = "♩♪♫♬♭♮♯"
_BRACKETS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
_SEQUENCES = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
"""Signs that openai-whisper never writes, used where generation_config.json has no list."""
_TIMESTAMP_STEP, _MOST_TIMES = 0.02, 10_000  # seconds, and tokens
_NAMES = (
    (r"model\.encoder\.conv([12])\.", lambda m: f"encoder.embed.conv.{int(m[1]) - 1}."),
    (r"model\.encoder\.embed_positions\.weight", "encoder.embed.positions"),
    (r"model\.encoder\.layer_norm\.", "encoder.after_norm."),
    (r"model\.encoder\.layers\.(\d+)\.final_layer_norm\.", r"encoder.encoders.\1.norm2."),
    (r"model\.encoder\.layers\.", "encoder.encoders."),
    (r"model\.decoder\.embed_positions\.weight", "decoder.embed.1.weight"),
    (r"model\.decoder\.layer_norm\.", "decoder.after_norm."),
    (r"model\.decoder\.layers\.(\d+)\.encoder_attn_layer_norm\.", r"decoder.decoders.\1.norm2."),
    (r"model\.decoder\.layers\.(\d+)\.final_layer_norm\.", r"decoder.decoders.\1.norm3."),
    (r"model\.decoder\.layers\.", "decoder.decoders."),
    (r"\.self_attn_layer_norm\.", ".norm1."),
    (r"\.encoder_attn\.", ".src_attn."),
    (r"\.([qkv]|out)_proj\.", r".linear_\1."),
    (r"\.fc([12])\.", r".feed_forward.w_\1."),
)
"""Names of parameters: Whisper's in transformers, and ours."""
_EMBEDDING, _OUTPUT = "model.decoder.embed_tokens.weight", "proj_out.weight"
_SIZES = ("encoder_attention_heads", "decoder_attention_heads", "encoder_layers", "decoder_layers")
_NEEDED = (*_SIZES, "d_model", "encoder_ffn_dim", "decoder_ffn_dim", "num_mel_bins", "vocab_size", "eos_token_id")
_POSITIONS = ("max_source_positions", "max_target_positions")


def write_run(folder: Path, output_dir: Path) -> None:
    """Write the directory of a run: config.yaml, weights and vocabulary.

    Args:
        folder: Folder of the Whisper model.
        output_dir: Directory to write to, which exists and is empty.

    Raises:
        ConfigError: config.json or generation_config.json cannot be read.
        ModelError: Another file is missing or damaged, or a value is not allowed.
    """
    config = read_json(folder / FOREIGN_CONFIG, _AGAIN)
    if lacking := [key for key in (*_NEEDED, *_POSITIONS) if type(config.get(key)) is not int]:
        raise ModelError(f"{folder / FOREIGN_CONFIG}: {lacking[0]} must be a whole number; restore the file")
    if config.get("activation_function", "gelu") != "gelu" or config.get("scale_embedding"):
        raise ModelError(f"{folder / FOREIGN_CONFIG}: activation_function and scale_embedding differ from Whisper's")
    generation = read_json(folder / _GENERATION, _AGAIN) if (folder / _GENERATION).is_file() else {}
    try:
        tokenizer = _with_timestamps(read_content(read_bytes(folder / TOKENIZER, MOST_BYTES)), config["vocab_size"])
        vocabulary = vocabulary_of(tokenizer)
        run = run_config(config, generation, tokenizer, vocabulary)
    except (DataError, OSError) as error:
        raise ModelError(f"{folder / TOKENIZER}: {getattr(error, 'strerror', None) or error}") from error
    except (AttributeError, KeyError, TypeError) as error:  # an entry of another form
        reason = f"cannot be read as a Whisper's ({type(error).__name__}: {error})"
        raise ModelError(f"{folder / TOKENIZER}: {reason}; {_AGAIN}") from error
    named = (token for key in ("suppress", "suppress_first") for token in run["decoder_conf"][key])
    if strange := [token for token in named if not 0 <= token < len(vocabulary)]:
        raise ModelError(f"{folder}: suppresses token {strange[0] - SHIFT}, which does not exist; restore the files")
    layers, heads = config["decoder_layers"], config["decoder_attention_heads"]
    try:
        if layers * heads > _MOST_HEADS:
            raise ConfigError(
                f"decoder_layers and decoder_attention_heads of config.json give over {_MOST_HEADS} heads"
            )
        heads_that_align(run["decoder_conf"]["alignment_heads"], layers, heads)
    except (ConfigError, TypeError) as error:
        raise ModelError(f"{folder / _GENERATION}: {error}; {_AGAIN}") from error
    save_run(run, vocabulary, dict(renamed(_weights(folder), config)), output_dir)


def save_run(run: dict, vocabulary: Vocabulary, state: Mapping[str, Tensor], output_dir: Path) -> None:
    """Write the directory of a run.

    Args:
        run: Its configuration, from `run_config`.
        vocabulary: Its vocabulary.
        state: The state dict of the model, from `renamed`.
        output_dir: Directory to write to, which exists and is empty.
    """
    vocabulary.save(output_dir)
    checkpoint.save(dict(state), output_dir / weights_name(run))
    save(run, output_dir / "config.yaml")


def vocabulary_of(tokenizer: dict) -> Vocabulary:
    """The vocabulary of the content of a tokenizer.json.

    Raises:
        DataError: The content has a value that is not allowed.
    """
    return Vocabulary.of_tokenizer(json.dumps(tokenizer, ensure_ascii=False).encode(), "whisper")


def _with_timestamps(tokenizer: dict, count: int) -> dict:
    """The tokenizer with a token for each of `count` rows, and a space before each text, as Whisper was trained.

    The tokenizers of some repositories end before the tokens of times.
    """
    added, split = tokenizer.get("added_tokens"), tokenizer.get("pre_tokenizer")
    if not (isinstance(added, list) and isinstance(split, dict) and isinstance(tokenizer["model"]["vocab"], dict)):
        raise DataError(f"{TOKENIZER} is not one of Whisper, which has added_tokens and splits into bytes")
    known = {token["id"] for token in added} | set(tokenizer["model"]["vocab"].values())
    first = max(known) + 1
    if lacking := [name for name in _SPECIAL if name not in {token["content"] for token in added}]:
        raise DataError(f"{TOKENIZER} has no token {lacking[0]}, which every Whisper has")
    if not first <= count < first + _MOST_TIMES:
        raise DataError(f"{TOKENIZER} has {first} tokens, and the model {count}; they do not belong together")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    times = ((index, (index - first) * _TIMESTAMP_STEP) for index in range(first, count))
    added += [{"id": index, "content": f"<|{seconds:.2f}|>", **flags} for index, seconds in times]
    split["add_prefix_space"] = True
    return tokenizer


def run_config(
    config: Mapping[str, Any], generation: Mapping[str, Any], tokenizer: dict, vocabulary: Vocabulary
) -> dict[str, Any]:
    """Content of the config.yaml of a run.

    Args:
        config: Content of config.json, of which sizes, positions and `eos_token_id` are read.
        generation: Content of generation_config.json.
        tokenizer: Content of tokenizer.json, with a token for each row of the model.
        vocabulary: The vocabulary of the tokenizer.
    """
    width = config["d_model"]
    special = {token["content"]: token["id"] + SHIFT for token in tokenizer["added_tokens"]}
    prompt, conditions = _prompt(special, generation.get("is_multilingual", config["vocab_size"] >= _MULTILINGUAL))
    end, last = config["eos_token_id"] + SHIFT, len(vocabulary) - 1
    lists = [generation.get(name, config.get(name)) for name in ("suppress_tokens", "begin_suppress_tokens")]
    suppress, first = ([index + SHIFT for index in listed or ()] for listed in lists)
    if lists == [None, None]:
        suppress, first = _signs(vocabulary), [*vocabulary.encode(" ")[:1], last]
    first = [last if index == end else index for index in first]
    times = range(prompt["no_timestamps"] + 1, last)  # the decoder suppresses them itself
    suppress = sorted({0, 1, end, *special.values(), *suppress}.difference(times))
    defaults = vars(TASKS["asr"].get_parser().parse_args([]))
    return defaults | {
        "model": "diverse",
        "model_conf": {"ctc_weight": 0.0, "ctc_labels": "bytes", "lsm_weight": 0.0}
        | ({"conditions": conditions} if conditions else {}),
        "frontend": "whisper_mel",
        "frontend_conf": {"fs": RATE, "n_mels": config["num_mel_bins"], "pad": 5.0},
        "specaug": None,
        "normalize": None,
        "preencoder": None,
        "postencoder": None,
        "encoder": "diverse_whisper",
        "encoder_conf": {
            "output_size": width,
            "attention_heads": config["encoder_attention_heads"],
            "linear_units": config["encoder_ffn_dim"],
            "num_blocks": config["encoder_layers"],
            "max_positions": config["max_source_positions"],
        },
        "decoder": "diverse_whisper",
        "decoder_conf": {
            "attention_heads": config["decoder_attention_heads"],
            "linear_units": config["decoder_ffn_dim"],
            "num_blocks": config["decoder_layers"],
            "max_positions": config["max_target_positions"],
            "prompt": prompt,
            "suppress": suppress,
            "suppress_first": first,
            "alignment_heads": generation.get("alignment_heads"),
        },
        "token_type": PRETRAINED,
        "bpemodel": TOKENIZER,
        "token_list": list(vocabulary.tokens),
    }


def _signs(vocabulary: Vocabulary) -> list[int]:
    """Tokens of signs that transcripts have for sounds, such as brackets and notes, alone and after a word."""
    word_tokens = len(vocabulary.encode("a"))
    token_ids = {vocabulary.encode(word)[0] for word in ("-", "'")}  # with a space before it; others belong to words
    for sign in (*_BRACKETS, *_SEQUENCES.split(), *_NOTES):
        for tokens in (vocabulary.encode(sign), vocabulary.encode(f"a{sign}")[word_tokens:]):
            if len(tokens) == 1 or sign in _NOTES:
                token_ids.add(tokens[0])
    return sorted(token_ids)


def _prompt(special: Mapping[str, int], multilingual: bool) -> tuple[dict, dict]:
    """Options of the prompt, and the values of its conditions."""
    prompt: dict = {"start": special["<|startoftranscript|>"], "no_timestamps": special["<|notimestamps|>"]}
    prompt["no_speech"] = next((special[name] for name in _NO_SPEECH if name in special), None)
    if not multilingual:
        return prompt, {}
    matches = ((_LANGUAGE.fullmatch(name), index) for name, index in special.items())
    languages = {match[1]: index for match, index in matches if match}
    conditions = {"lang": list(languages), "tgtlang": list(languages)}
    tasks = {"transcribe": special["<|transcribe|>"], "translate": special["<|translate|>"]}
    return prompt | tasks | {"languages": languages, "by": list(conditions), "conditions": conditions}, conditions


def _weights(folder: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(f"{folder}: has no model.safetensors; {_AGAIN}")
    for file in files:
        try:
            with safe_open(file, "pt") as opened:
                for name in opened.keys():  # noqa: SIM118  it is no mapping
                    yield name, opened.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{file}: cannot be read ({' '.join(str(error).split())}); download it again") from error


def renamed(weights: Iterable[tuple[str, Tensor]], config: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The state dict of our model.

    Args:
        weights: Parameters by their names in transformers.
        config: Content of config.json.
    """
    for name, value in weights:
        if name == _OUTPUT:
            continue  # the embedding
        if name == _EMBEDDING:
            rows = rows_of(value.float(), config["eos_token_id"])
            yield "decoder.embed.0.weight", rows
            yield "decoder.output_layer.weight", rows
            yield "decoder.output_layer.bias", _bias(len(rows), config["eos_token_id"])
            continue
        ours = name if name.startswith("model.") else f"model.{name}"
        for pattern, replacement in _NAMES:
            ours = re.sub(pattern, replacement, ours)
        yield ours, value.float()
        if ours.endswith("linear_k.weight"):
            yield ours.replace("weight", "bias"), torch.zeros(len(value))


def rows_of(embedding: Tensor, end: int, fill: float = 0.0) -> Tensor:
    """Rows of our vocabulary (V, ...): blank and unknown, all tokens without the end, and <sos/eos>, the end.

    Args:
        embedding: Rows of Whisper's vocabulary (V', ...).
        end: Index of its end of a text.
        fill: Value of the rows that it does not have.
    """
    none = torch.full_like(embedding[:1], fill)
    return torch.cat([none, none, embedding[:end], none, embedding[end + 1 :], embedding[end : end + 1]])


def _bias(count: int, end: int) -> Tensor:
    bias = torch.zeros(count)
    bias[[0, 1, end + SHIFT]] = NEVER
    return bias
