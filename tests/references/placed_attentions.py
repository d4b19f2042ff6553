"""Attentions in the places that ESPnet's nets have them."""

import torch
from torch import nn

from espnet_diverse.attention import build_attention

SIZE, HEADS = 8, 4
PATHS = ("encoders.0.self_attn", "decoders.0.self_attn", "decoders.0.src_attn", "decoders.1.src_attn")


class Net(nn.Module):
    """Four attentions, one after another, as a model of ESPnet's trainer."""

    def __init__(self, heads=HEADS, **options):
        super().__init__()
        torch.manual_seed(0)

        def attention(**kind):
            return build_attention("softmax", SIZE, heads, **kind)

        self.encoders = nn.ModuleList([nn.ModuleDict({"self_attn": attention(**options)})])
        first = {"self_attn": attention(causal=True), "src_attn": attention(cross=True)}
        self.decoders = nn.ModuleList([nn.ModuleDict(first), nn.ModuleDict({"src_attn": attention(cross=True)})])
        self.double()

    def attentions(self):
        return {name: self.get_submodule(name) for name in PATHS}

    def forward(self, x, **_):
        loss = self.loss(x).view(1)
        return loss, {"loss": loss.detach()}, torch.tensor([float(len(x))])

    def loss(self, x):
        earlier = torch.ones(1, x.size(1), x.size(1), dtype=torch.bool).tril()
        for attention in self.attentions().values():
            x = x + attention(x, x, x, earlier if attention.core.causal else None)
        return x.square().mean()
