"""The attention that gets windows, and what is refused by name."""

import numpy as np
import pytest
import torch

from espnet_diverse.analysis.windows.encoder_heads import as_option, check_heads, encoder_heads, set_windows
from espnet_diverse.errors import ModelError
from espnet_diverse.nets import ENCODERS

SIZES = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 2}


class Model(torch.nn.Module):
    """A model with an encoder alone."""

    def __init__(self, name="diverse_transformer", attention=None, **options):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = ENCODERS[name](20, **SIZES, attention=attention, **options).eval()


def test_windows_are_those_of_the_configuration():
    widths = np.array([[1, 8], [4, 2]])
    model, speech = Model(), (torch.randn(1, 90, 20), torch.tensor([90]))
    plain = model.encoder(*speech)[0]
    set_windows(encoder_heads(model), widths)
    built = Model(attention={"core": "softmax", "head_patterns": as_option(widths)})
    assert torch.equal(model.encoder(*speech)[0], built.encoder(*speech)[0])
    assert not torch.equal(model.encoder(*speech)[0], plain)
    set_windows(encoder_heads(model), None)
    assert torch.equal(model.encoder(*speech)[0], plain)


@pytest.mark.parametrize("name", ["diverse_transformer", "diverse_conformer"])
@pytest.mark.parametrize("seconds", [2, 12], ids=["short", "long"])
def test_windows_as_wide_as_the_sequence_change_nothing(name, seconds):
    model = Model(name, **({"rel_pos_type": "latest"} if "conformer" in name else {}))
    speech = torch.randn(1, 100 * seconds, 20), torch.tensor([100 * seconds])
    plain = model.encoder(*speech)[0]
    set_windows(encoder_heads(model), np.full((2, 2), 25 * seconds))
    torch.testing.assert_close(model.encoder(*speech)[0], plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        ({"core": "sdma"}, "layer 1 of the encoder has attention sdma; windows are for softmax over all positions"),
        ({"core": "softmax", "head_patterns": ["previous"]}, "layer 1 of the encoder has head_patterns"),
        ({"core": "window", "layers": [2]}, "layer 2 of the encoder has attention window"),
        (
            {"core": "softmax", "selection": {"strategy": "group", "pool": 4, "conditions": {"lang": ["de", "en"]}}},
            "layer 1 of the encoder has head selection",
        ),
    ],
    ids=str,
)
def test_other_attention_is_refused(attention, said):
    with pytest.raises(ModelError, match=said):
        check_heads(Model(attention=attention))
    check_heads(Model())


def test_an_encoder_without_attention_is_refused():
    with pytest.raises(ModelError, match="the encoder has no multi-head self-attention, whose heads could get windows"):
        check_heads(torch.nn.Linear(1, 1))


def test_a_legacy_position_that_saves_no_time_is_told(caplog):
    check_heads(Model("diverse_conformer", rel_pos_type="legacy"))
    assert "rel_pos_type is legacy: windows save no time" in caplog.text
    caplog.clear()
    check_heads(Model("diverse_conformer", rel_pos_type="latest"))
    assert not caplog.text
