"""Encoders that take an utterance part by part, with one interface.

A contextual block encoder reads overlapping blocks that hand on a context vector (Tsunoo et al. 2019, "Transformer ASR
with contextual block processing"); ESPnet's class does this. An encoder with a memory reads segments, and hands on the
state of its memories (`nets/memory`): a segment is encoded as soon as its last frame is there, and the concatenated
outputs of all parts equal the output of the whole utterance.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.nets.memory import Carried

BLOCKWISE = tuple(
    f"{whose}contextual_block_{net}" for whose in ("", "diverse_") for net in ("transformer", "conformer")
)
"""Encoders that read blocks."""
SEGMENTED = "diverse_transformer"
"""Encoder that reads segments where it has a memory."""
_SUBSAMPLINGS = ("conv2d", "conv2d6", "conv2d8")
_BLOCKS = {"block_size": 40, "hop_size": 16, "look_ahead": 16}  # sizes that ESPnet takes where none are given


class BlockEncoder:
    """A contextual block encoder.

    Args:
        encoder: ESPnet's encoder, or ours.

    Attributes:
        encoder: The encoder.
        block_size, hop_size, look_ahead: Frames in a block, from one block to the next, and at its end as look-ahead.
        subsample: Frames of features in a frame of the output.
    """

    def __init__(self, encoder: Any):
        self.encoder = encoder
        self.block_size, self.hop_size, self.look_ahead = encoder.block_size, encoder.hop_size, encoder.look_ahead
        self.subsample = encoder.subsample

    def reset(self) -> None:
        """Discard the utterance that has begun."""
        self._states: Any = None

    def add(self, features: Tensor, last: bool) -> Tensor:
        """Encode the next features of an utterance.

        Args:
            features: (1, T, F), of any length.
            last: Whether the utterance ends with them.

        Returns:
            The next frames of the output (1, T', M), perhaps none.
        """
        lengths = features.new_full([1], features.size(1), dtype=torch.long)
        out, _, self._states = self.encoder(features, lengths, self._states, is_final=last, infer_mode=True)
        return out


class _Heard(NamedTuple):
    """State of a `SegmentEncoder` within an utterance; its size does not depend on the length.

    Attributes:
        features: Features that the next frame after subsampling needs (1, T, F).
        frames: Frames of the segment that is not complete (1, T, M).
        count: Number of frames that were subsampled.
        carried: What the segments before have left.
    """

    features: Tensor
    frames: Tensor
    count: int
    carried: Carried | None


class SegmentEncoder:
    """A transformer encoder with a memory; a segment is a block, without look-ahead.

    Args:
        encoder: The encoder, with ESPnet's subsampling by 4.

    Attributes:
        encoder: The encoder.
        block_size, hop_size, look_ahead, subsample: See `BlockEncoder`.
    """

    look_ahead, subsample = 0, 4

    def __init__(self, encoder: DiverseTransformerEncoder):
        self.encoder = encoder
        self.block_size = self.hop_size = encoder.encoders[0].self_attn.segment
        self.reset()

    def reset(self) -> None:
        """Discard the utterance that has begun."""
        self._heard: _Heard | None = None

    def add(self, features: Tensor, last: bool) -> Tensor:
        """Encode the next features of an utterance; see `BlockEncoder.add`."""
        size = self.encoder.output_size()
        before = self._heard or _Heard(features[:, :0], features.new_empty(1, 0, size), 0, None)
        features = torch.cat([before.features, features], 1)
        new = self.encoder.embed.part(features, before.count)
        frames = torch.cat([before.frames, new], 1)
        ready = frames.size(1) if last else frames.size(1) // self.block_size * self.block_size
        out, carried = frames[:, :0], before.carried
        if ready:
            out, carried = self.encoder.encode_segments(frames[:, :ready], carried, last=last)
        count = new.size(1)
        self._heard = _Heard(features[:, self.subsample * count :], frames[:, ready:], before.count + count, carried)
        return out


def stream_encoder(encoder: nn.Module) -> BlockEncoder | SegmentEncoder:
    """The encoder of a model, to be called part by part; `unfit_for_streams` must have found no fault with it."""
    return SegmentEncoder(encoder) if isinstance(encoder, DiverseTransformerEncoder) else BlockEncoder(encoder)


def unfit_for_streams(encoder: str | None, conf: Mapping[str, Any]) -> str | None:
    """The reason why an encoder cannot take an utterance part by part; None if it can.

    Args:
        encoder: Its name.
        conf: Its options, `encoder_conf` in config.yaml.
    """
    has_memory = encoder == SEGMENTED and conf.get("memory") is not None
    if encoder not in BLOCKWISE and not has_memory:
        return (
            f"encoder {encoder} does not stream; those that do are {' '.join(BLOCKWISE)}, and {SEGMENTED} with memory"
        )
    allowed: dict[str, tuple[Any, tuple]] = {"input_layer": ("conv2d", ("conv2d",) if has_memory else _SUBSAMPLINGS)}
    if has_memory:
        allowed |= {
            "positionwise_layer_type": ("linear", ("linear",)),
            "pos_enc_layer_type": ("abs_pos", ("abs_pos",)),
            "interctc_use_conditioning": (False, (False,)),
        }
    for option, (usual, possible) in allowed.items():
        if (value := conf.get(option, usual)) not in possible:
            return (
                f"{option} {value} needs a whole utterance; streaming needs {option} {' or '.join(map(str, possible))}"
            )
    return None if has_memory else _unfit_blocks(*(conf.get(name, usual) for name, usual in _BLOCKS.items()))


def _unfit_blocks(block: Any, hop: Any, ahead: Any) -> str | None:
    """Fault of sizes of blocks that cannot be read one after another, or None."""
    if block == 0:
        return "block_size 0 is a single block; streaming needs encoder_conf.block_size > 0"
    if any(type(size) is not int for size in (block, hop, ahead)) or not 0 < hop <= block - ahead <= block:
        sizes = f"block_size {block!r:.50}, hop_size {hop!r:.50} and look_ahead {ahead!r:.50}"
        return f"{sizes} are no blocks; streaming needs whole numbers with 0 < hop_size <= block_size - look_ahead"
    return None
