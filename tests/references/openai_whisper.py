"""A small stand-in for the package openai-whisper, with the names of its modules and parameters, for ESPnet's classes.

The network is that of Radford et al. 2023: layer norms before each part, keys without bias, and an output that shares
the embedding. ESPnet's encoder and decoder copy the nets that `load_model` returns.
"""

from types import ModuleType, SimpleNamespace

import numpy as np
import torch
from torch import nn
from transformers.audio_utils import mel_filter_bank

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
