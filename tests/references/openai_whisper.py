"""A small stand-in for the package openai-whisper, with the names of its modules and parameters, for ESPnet's classes.

The network is that of Radford et al. 2023: layer norms before each part, keys without bias, and an output that shares
the embedding. ESPnet's encoder and decoder copy the nets that `load_model` returns.
"""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from espnet2.tasks.asr import ASRTask
from torch import nn
from transformers.audio_utils import mel_filter_bank

from references.whisper import tokenizer

WIDTH, LAYERS, POSITIONS = 128, 2, (1500, 448)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, source=None, mask=None):
        source = x if source is None else source
        q, k, v = (
            layer(given).unflatten(-1, (WIDTH // 64, 64)).transpose(1, 2)
            for layer, given in ((self.query, x), (self.key, source), (self.value, source))
        )
        scores = q @ k.transpose(-1, -2) / 8
        if mask is not None:
            scores = scores + mask[: x.size(1), : x.size(1)]
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, cross=False):
        super().__init__()
        self.attn, self.attn_ln = Attention(), nn.LayerNorm(WIDTH)
        if cross:
            self.cross_attn, self.cross_attn_ln = Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.mlp_ln = nn.LayerNorm(WIDTH)

    def forward(self, x, source=None, mask=None):
        x = x + self.attn(self.attn_ln(x), mask=mask)
        if source is not None:
            x = x + self.cross_attn(self.cross_attn_ln(x), source)
        return x + self.mlp(self.mlp_ln(x))


class Encoder(nn.Module):
    def __init__(self, mels):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(mels, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, padding=1)
        self.register_buffer("positional_embedding", torch.randn(POSITIONS[0], WIDTH) * 0.1)
        self.blocks, self.ln_post = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)


class Decoder(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.token_embedding = nn.Embedding(tokens, WIDTH)
        self.positional_embedding = nn.Parameter(torch.randn(POSITIONS[1], WIDTH) * 0.1)
        self.blocks, self.ln = nn.ModuleList(Block(cross=True) for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        mask = torch.full((POSITIONS[1], POSITIONS[1]), -torch.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)


def stand_in(tokens, mels=80):
    """Modules by name, for `sys.modules`.

    Args:
        tokens: Number of tokens of the models.
        mels: Number of mel bands.
    """
    audio, package = ModuleType("whisper.audio"), ModuleType("whisper")
    vars(audio).update(HOP_LENGTH=160, N_FFT=400, N_MELS=mels, N_SAMPLES=480_000)
    filters = mel_filter_bank(201, mels, 0.0, 8000.0, 16_000, norm="slaney", mel_scale="slaney")
    audio.mel_filters = lambda device, count: torch.from_numpy(filters.T.astype(np.float32))

    def load_model(name, download_root=None, device=None):
        return SimpleNamespace(encoder=Encoder(mels), decoder=Decoder(tokens))

    vars(package).update(audio=audio, available_models=lambda: ["tiny"], load_model=load_model)
    return {"whisper": package, "whisper.audio": audio}


def listed():
    """Tokens as ESPnet lists them: with times, and as `line.rstrip()` of spaces for "Ġ"."""
    made = tokenizer()
    tokens = [made.id_to_token(index).replace("Ġ", " ").rstrip() for index in range(made.get_vocab_size())]
    return [*tokens, *(f"<|{second / 50:.2f}|>" for second in range(1501))]


def write_espnets(folder, mels=80, encoder_conf=None, model_conf=None, **changed):
    """Write a run of ESPnet with random weights; return the folder and the model.

    Args:
        folder: The folder, which is made.
        mels: Number of mel bands.
        encoder_conf, model_conf: Options of these parts.
        changed: Other keys of its configuration.
    """
    args, named = ASRTask.get_parser().parse_args([]), {"whisper_model": "tiny"}
    vars(args).update(encoder="whisper", decoder="whisper", frontend=None, input_size=1, normalize=None, specaug=None)
    vars(args).update(token_type="whisper_multilingual", bpemodel="whisper_multilingual", token_list=listed())
    vars(args).update(preprocessor_conf={"whisper_language": "de", "whisper_task": "transcribe"}, decoder_conf=named)
    args.model_conf = {"ctc_weight": 0.0, "sym_sos": "<|startoftranscript|>", "sym_eos": "<|endoftext|>"}
    args.model_conf |= model_conf or {}
    vars(args).update(encoder_conf=named | (encoder_conf or {}), **changed)
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(devices=[]):
        for name, module in stand_in(len(args.token_list), mels).items():
            patch.setitem(sys.modules, name, module)
        torch.manual_seed(0)
        model = ASRTask.build_model(args).eval()
    folder.mkdir(parents=True)
    torch.save(model.state_dict(), folder / "valid.acc.ave.pth")
    (folder / "config.yaml").write_text(yaml.safe_dump(vars(args)))
    return folder, model
