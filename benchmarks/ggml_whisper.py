"""Weights of a Whisper model of Hugging Face's layout in the file format of whisper.cpp, for `whisper_speed.py`.

The file has the sizes, the mel filters, the tokens as bytes, and the tensors under OpenAI's names. Matrices and
convolutions have 16 bits, biases, norms and positions 32, as in the files that whisper.cpp publishes.
"""

import json
import re
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_MAGIC, _FLOAT32, _FLOAT16 = 0x67676D6C, 0, 1
_SIZES = (
    "max_source_positions",
    "d_model",
    "encoder_attention_heads",
    "encoder_layers",
    "max_target_positions",
    "d_model",
    "decoder_attention_heads",
    "decoder_layers",
    "num_mel_bins",
)
_NAMES = (
    (r"^model\.", ""),
    (r"embed_positions\.weight", "positional_embedding"),
    (r"embed_tokens", "token_embedding"),
    (r"^encoder\.layer_norm", "encoder.ln_post"),
    (r"^decoder\.layer_norm", "decoder.ln"),
    (r"layers\.", "blocks."),
    (r"self_attn_layer_norm", "attn_ln"),
    (r"encoder_attn_layer_norm", "cross_attn_ln"),
    (r"final_layer_norm", "mlp_ln"),
    (r"self_attn\.", "attn."),
    (r"encoder_attn\.", "cross_attn."),
    (r"q_proj", "query"),
    (r"k_proj", "key"),
    (r"v_proj", "value"),
    (r"out_proj", "out"),
    (r"fc1", "mlp.0"),
    (r"fc2", "mlp.2"),
)


def write(folder: Path, path: Path) -> None:
    """Write the model of a folder to a file.

    Args:
        folder: Folder with config.json, tokenizer.json and model.safetensors.
        path: File to write.
    """
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text())
    with path.open("wb") as file:
        file.write(struct.pack("<12i", _MAGIC, config["vocab_size"], *(config[name] for name in _SIZES), _FLOAT16))
        _write_filters(file, config["num_mel_bins"])
        tokens = _tokens(folder / "tokenizer.json")
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<i", len(token)) + token)
        for name, value in sorted(load_file(folder / "model.safetensors").items()):
            if name != "proj_out.weight":
                _write_tensor(file, name, value)


def _write_filters(file: BinaryIO, count: int) -> None:
    """Mel filters (count, bins)."""
    from espnet_diverse.nets.whisper.features import WhisperFrontend

    filters = WhisperFrontend(n_mels=count).filters.T.contiguous().numpy()
    file.write(struct.pack("<2i", *filters.shape) + filters.astype("<f4").tobytes())


def _tokens(path: Path) -> list[bytes]:
    """Tokens without the special ones, in the order of their numbers."""
    content = json.loads(path.read_text())
    special = {token["content"] for token in content["added_tokens"]}
    known = sorted(content["model"]["vocab"].items(), key=lambda one: one[1])
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in printable)
    to_byte = {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}
    return [bytes(to_byte[each] for each in token) for token, _ in known if token not in special]


def _write_tensor(file: BinaryIO, name: str, value: NDArray) -> None:
    for pattern, replacement in _NAMES:
        name = re.sub(pattern, replacement, name)
    if re.fullmatch(r"encoder\.conv[12]\.bias", name):
        value = value[:, None]
    wide = value.ndim == 1 or "positional" in name or name.startswith("encoder.conv") and name.endswith("bias")
    value = value.astype("<f4" if wide else "<f2")
    encoded = name.encode()
    kind = _FLOAT32 if wide else _FLOAT16
    file.write(struct.pack(f"<{3 + value.ndim}i", value.ndim, len(encoded), kind, *reversed(value.shape)))
    file.write(encoded + np.ascontiguousarray(value).tobytes())
