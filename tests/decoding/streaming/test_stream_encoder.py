"""Encoders part by part: outputs equal the whole utterance, in bounded memory; unsupported encoders are named."""

import re

import pytest
import torch

from espnet_diverse.decoding.streaming.stream_encoder import SegmentEncoder, stream_encoder, unfit_for_streams
from espnet_diverse.nets import ENCODERS

MEMORIES = {
    "cdt": {"kind": "cdt", "slots": 3},
    "cdt_shared": {"kind": "cdt", "slots": 3, "scope": "shared"},
    "xl": {"kind": "xl", "slots": 5},
    "compressive": {"kind": "compressive", "slots": 2, "compressed_slots": 3, "ratio": 2},
}
SMALL = {"output_size": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 2}
MEMORY = {"memory": {"kind": "xl"}}


def encoder(memory, core="softmax"):
    torch.manual_seed(0)
    return ENCODERS["diverse_transformer"](20, memory={"segment": 4} | memory, attention={"core": core}, **SMALL).eval()


def parts_of(streaming, features, size):
    """Outputs of all parts of an utterance (1, T, F)."""
    count = features.size(1)
    return [streaming.add(features[:, at : at + size], at + size >= count) for at in range(0, count, size)]


@pytest.mark.parametrize("core", ["softmax", "sdma"])
@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
@torch.inference_mode()
def test_outputs_of_all_parts_match_the_whole(memory, core):
    net, random = encoder(memory, core), torch.Generator().manual_seed(1)
    streaming = stream_encoder(net)
    for frames in (7, 24, 67, 83):
        features = torch.randn(1, frames, 20, generator=random)
        whole, (count,), _ = net(features, torch.tensor([frames]))
        for size in (1, 5, 16, frames):
            streaming.reset()
            found = parts_of(streaming, features, size)
            assert [part.size(1) % 4 for part in found[:-1]] == [0] * (len(found) - 1)
            assert (out := torch.cat(found, 1)).shape == whole.shape == (1, count, 8)
            torch.testing.assert_close(out, whole, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_a_segment_is_encoded_when_its_last_frame_is_there():
    """Frame t after subsampling needs the features to 4 t + 6, so that the second segment of 4 needs 35 of them."""
    streaming, features = stream_encoder(encoder(MEMORIES["xl"])), torch.randn(1, 36, 20)
    found = [streaming.add(features[:, [at]], False).size(1) for at in range(36)]
    assert [at + 1 for at, count in enumerate(found) if count] == [19, 35]


@torch.inference_mode()
def test_kept_state_does_not_grow():
    streaming, kept = stream_encoder(encoder(MEMORIES["cdt"])), []
    for _ in range(60):
        streaming.add(torch.randn(1, 16, 20), False)
        heard = streaming._heard
        states = sum(tensor.numel() for state in heard.carried.values() for tensor in state) if heard.carried else 0
        kept.append(heard.features.numel() + heard.frames.numel() + states)
    assert max(kept[10:40]) == max(kept[40:])


@torch.inference_mode()
def test_an_utterance_without_a_frame_has_no_output():
    streaming = SegmentEncoder(encoder(MEMORIES["xl"]))
    assert streaming.add(torch.randn(1, 5, 20), True).shape == (1, 0, 8)


@pytest.mark.parametrize(
    ("encoder", "conf", "said"),
    [
        (
            "conformer",
            {},
            "encoder conformer does not stream; those that do are .*, and diverse_transformer with",
        ),
        ("diverse_transformer", {}, "encoder diverse_transformer does not stream"),
        (
            "diverse_transformer",
            MEMORY | {"input_layer": "conv2d6"},
            "input_layer conv2d6 needs .* input_layer conv2d$",
        ),
        ("diverse_transformer", MEMORY | {"positionwise_layer_type": "conv1d"}, "positionwise_layer_type conv1d needs"),
        ("diverse_transformer", MEMORY | {"pos_enc_layer_type": "conv"}, "pos_enc_layer_type conv needs a whole"),
        ("diverse_transformer", MEMORY | {"interctc_use_conditioning": True}, "interctc_use_conditioning True needs"),
        ("contextual_block_transformer", {"block_size": 0}, "block_size 0 is a single block"),
    ],
    ids=str,
)
def test_encoders_that_need_a_whole_utterance_are_told_apart(encoder, conf, said):
    assert re.match(said, unfit_for_streams(encoder, conf))


def test_encoders_that_fit():
    assert unfit_for_streams("diverse_transformer", MEMORY) is None
    assert unfit_for_streams("contextual_block_conformer", {"input_layer": "conv2d8", "block_size": 40}) is None
