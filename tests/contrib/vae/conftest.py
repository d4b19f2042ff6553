"""A small autoencoder of text, built by the task, and a batch of two sentences."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.runs.tasks import MTTask

TOKENS = ["<blank>", "<unk>", *"abcdefgh", "<sos/eos>"]
PLAIN = {"dropout_rate": 0.0, "positional_dropout_rate": 0.0, "attention_heads": 2, "num_blocks": 1}
CONFIG = {
    "token_list": TOKENS,
    "src_token_list": TOKENS,
    "frontend": "embed",
    "frontend_conf": {"embed_dim": 32, "positional_dropout_rate": 0.0},
    "encoder": "diverse_transformer",
    "encoder_conf": PLAIN | {"output_size": 32, "linear_units": 64, "input_layer": None, "attention_dropout_rate": 0.0},
    "decoder": "vae",
    "decoder_conf": PLAIN | {"linear_units": 64, "latent": {"size": 6, "vectors": 3}},
    "model": "vae",
    "model_conf": {"lsm_weight": 0.0},
}


@pytest.fixture
def build():
    """Build the model with changes of its configuration; those of the decoder's options are added, and None removes."""

    def built(decoder_conf=(), **changes):
        torch.manual_seed(0)
        options = {key: each for key, each in (CONFIG["decoder_conf"] | dict(decoder_conf)).items() if each is not None}
        parser = MTTask.get_parser()
        parser.set_defaults(**(CONFIG | {"decoder_conf": options} | changes))
        return MTTask.build_model(parser.parse_args([]))

    return built


@pytest.fixture
def batch_of():
    """Make a batch of token indices, each its own source."""

    def made(texts):
        text = pad_sequence([torch.tensor(each) for each in texts], batch_first=True, padding_value=-1)
        lengths = torch.tensor([len(each) for each in texts])
        return {"text": text, "text_lengths": lengths, "src_text": text, "src_text_lengths": lengths}

    return made


@pytest.fixture
def two(batch_of):
    """A batch of two sentences."""
    return batch_of([[4, 3], [7, 2, 2, 5]])
