"""A small autoencoder of text, built by the task, and a batch of two sentences."""

import pytest
import torch
from references import text_nets
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.runs.tasks import MTTask

CONFIG = text_nets.CONFIG | {
    "decoder": "vae",
    "decoder_conf": text_nets.PLAIN | {"linear_units": 64, "latent": {"size": 6, "vectors": 3}},
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
