"""The encoder output of a batch against ESPnet's models for each utterance alone."""

import numpy as np
import pytest
import torch

from espnet_diverse.decoding.encoder.encoding import Encoding
from espnet_diverse.errors import ModelError
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import ASRTask
from espnet_diverse.scope import scope
from espnet_diverse.upstream.layers import TooShortUttError

SMALL = ["encoder_conf.output_size=16", "encoder_conf.linear_units=16", "encoder_conf.num_blocks=2"]
SMALL += ["frontend_conf.n_mels=20", "normalize=utterance_mvn"]
TABLES = "{lang: [ar, de]}"


def build(*changes):
    parser = ASRTask.get_parser()
    parser.set_defaults(**merge(["model/tiny"], [*SMALL, *changes]))
    args = parser.parse_args([])
    args.token_list = ["<blank>", "<unk>", "a", "b", "<sos/eos>"]
    torch.manual_seed(0)
    return ASRTask.build_model(args).eval()


@pytest.fixture
def recordings():
    random = np.random.default_rng(0)
    return [random.standard_normal(length).astype(np.float32) for length in (9600, 16000, 12345)]


@pytest.mark.parametrize(
    "changes",
    [
        ["encoder_conf.input_layer=conv2d"],
        ["encoder_conf.input_layer=conv2d2"],
        ["encoder_conf.input_layer=conv1d2"],
        ["encoder_conf.input_layer=linear"],
        ["encoder_conf.input_layer=conv1d4_glu", "encoder_conf.conv_channels=8"],
        ["encoder_conf.attention.core=sdma", "encoder_conf.normalize_before=false"],
        ["encoder=transformer"],
        ["encoder_conf.memory.kind=cdt", "encoder_conf.memory.segment=4"],
        ["encoder_conf.memory.kind=cdt", "encoder_conf.memory.segment=4", "encoder_conf.memory.scope=shared"],
        ["encoder_conf.attention.core=luna"],
        ["encoder=diverse_conformer"],
        [
            *("encoder=diverse_conformer", "encoder_conf.memory.kind=cdt", "encoder_conf.memory.segment=4"),
            *("encoder_conf.pos_enc_layer_type=abs_pos", "encoder_conf.selfattention_layer_type=selfattn"),
        ],
        [f"encoder_conf.attention.selection={{strategy: group, pool: 4, by: lang, conditions: {TABLES}}}"],
    ],
    ids=lambda changes: " ".join(changes)[:60],
)
@pytest.mark.usefixtures("any_sums")
def test_a_batch_equals_single_utterances(recordings, changes):
    model = build(*changes)
    encoding, conditions = Encoding(model, "cpu"), {"lang": torch.tensor([1, 0, 1])}
    output, lengths = encoding.encode([encoding.features(samples) for samples in recordings], conditions)
    for row, samples in enumerate(recordings):
        speech = torch.from_numpy(samples).unsqueeze(0)
        with torch.no_grad(), scope({"lang": conditions["lang"][row : row + 1]}, collect=False):
            alone, count = model.encode(speech, torch.tensor([speech.size(1)]))
        assert int(lengths[row]) == int(count)
        torch.testing.assert_close(output[row, : int(count)], alone[0], rtol=0, atol=1e-5)


def test_an_utterance_that_is_too_short_is_refused():
    with pytest.raises(TooShortUttError, match="4 frames are too short; the encoder needs 7"):
        Encoding(build(), "cpu").features(np.zeros(600, np.float32))
    with pytest.raises(TooShortUttError, match="256 samples are too short; the frontend needs 257"):
        Encoding(build(), "cpu").features(np.zeros(256, np.float32))
    model = build()
    model.frontend.stft.center = False
    with pytest.raises(TooShortUttError, match="511 samples are too short; the frontend needs 512"):
        Encoding(model, "cpu").features(np.zeros(511, np.float32))


def test_parts_that_are_not_known_are_refused():
    model = build()
    model.postencoder = torch.nn.Identity()
    with pytest.raises(
        ModelError, match="a model with a postencoder has no batched search; use decode --search espnet"
    ):
        Encoding(model, "cpu")


@pytest.mark.parametrize(
    ("changes", "linear"),
    [
        (["encoder=transformer"], False),
        (["encoder_conf.attention.core=sdma"], False),
        (["encoder_conf.attention.core=window"], True),
        (["encoder_conf.attention.core=luna"], True),
        (["encoder_conf.attention={core: softmax, head_patterns: [[window: 8], [window: 2]]}"], True),
        (["encoder_conf.attention={core: softmax, head_patterns: [[window: 8], [global]]}"], False),
        (["encoder_conf.memory.kind=xl"], True),
        (["encoder=diverse_contextual_block_transformer"], True),
        (["encoder=diverse_contextual_block_conformer"], True),
        (["encoder=diverse_conformer", "encoder_conf.attention.core=window"], False),
        (["encoder=diverse_conformer", "encoder_conf.attention.core=window", "encoder_conf.rel_pos_type=latest"], True),
    ],
    ids=str,
)
def test_encoders_of_linear_cost_are_known(changes, linear):
    assert Encoding(build(*changes), "cpu").is_linear is linear


@pytest.mark.parametrize(("layer", "least"), [("conv2d", 7), ("conv2d6", 11), ("conv2d8", 15)])
def test_too_few_frames_for_a_contextual_block_encoder_are_named(layer, least):
    """Fewer than its convolutions need, of which ESPnet's check of other encoders knows nothing."""
    blocks = ["encoder=contextual_block_transformer", "encoder_conf.block_size=8", "encoder_conf.hop_size=4"]
    changes = ["encoder_conf.look_ahead=2", f"encoder_conf.input_layer={layer}"]
    encoding, hop = Encoding(build(*blocks, *changes), "cpu"), 160
    samples = np.random.default_rng(0).standard_normal(hop * (least - 1)).astype(np.float32)
    with pytest.raises(TooShortUttError, match=f"^{least - 1} frames are too short; the encoder needs {least}$"):
        encoding.features(samples[:-1])
    output, lengths = encoding.encode([encoding.features(samples)], {})
    assert lengths.tolist() == [output.size(1)] == [1]
