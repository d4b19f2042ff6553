import matplotlib.image
import numpy as np
import pytest
import torch
from references.golden import golden
from torch import nn

from espnet_diverse.analysis.figures.plots import draw_picks, draw_sharing
from espnet_diverse.analysis.measures.head_sharing import Ownership, arrays, ownerships, summary
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.nets.encoder import DiverseTransformerEncoder

NAMES = {"lang": ["ar", "de", "es"], "domain": ["news", "talk"]}
SMALL = {"num_blocks": 2, "linear_units": 8, "attention_heads": 2}


def owned(picks, pool=8):
    picks = np.array(picks)
    return Ownership("encoder", "lang", NAMES["lang"][: len(picks)], picks, pool)


@pytest.fixture
def model():
    """Encoder by language and domain, decoder by language; logits are known."""
    model = nn.Module()
    options = {"strategy": "group", "pool": 4, "by": ["lang", "domain"], "conditions": NAMES}
    model.encoder = DiverseTransformerEncoder(20, output_size=8, attention={"selection": options}, **SMALL)
    options = {"strategy": "static", "conditions": {"lang": NAMES["lang"]}}
    model.decoder = DiverseTransformerDecoder(9, 8, attention={"selection": options}, **SMALL)
    for layer in model.encoder.encoders:
        selection = layer.self_attn.selection
        # Groups of a pool of 4 are heads 0 and 2, 1 and 3. es prefers 2, and talk 3, more strongly than the others.
        selection.logits_lang.data = torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 3, 0]])
        selection.logits_domain.data = torch.tensor([[1.0, 1, 0, 0], [1, 0, 0, 3]])
    return model


@pytest.mark.parametrize("strategy", ["group", "subset"])
def test_sharing_matches_the_golden_selector(strategy):
    arrays = golden(f"head_select_{strategy}")
    sharing = owned(arrays["eval_heads_all"]).sharing()
    np.testing.assert_array_equal(sharing, arrays["sharing_matrix_eval"])
    assert sharing.diagonal().tolist() == [2 * 4] * 3  # layers times heads


def test_ownerships_of_a_model_by_language_and_domain(model):
    both, language, domain, decoder = ownerships(model)
    assert [each.name for each in (both, language, domain, decoder)] == [
        "encoder self-attention by language and domain",
        "encoder self-attention by language",
        "encoder self-attention by domain",
        "decoder self-attention by language",
    ]
    assert both.values == ["ar news", "ar talk", "de news", "de talk", "es news", "es talk"]
    assert both.picks[:, 1].tolist() == [[0, 1], [0, 3], [0, 1], [0, 3], [1, 2], [2, 3]]
    assert language.picks[:, 0].tolist() == [[0, 1], [0, 1], [1, 2]]
    assert domain.picks[:, 0].tolist() == [[0, 1], [0, 3]]
    assert decoder.picks[:, 0].tolist() == [[0, 1], [2, 3], [4, 5]] and decoder.pool == 6


def test_a_model_that_selects_no_heads():
    model = nn.Module()
    model.encoder = DiverseTransformerEncoder(20, output_size=8, **SMALL)
    assert ownerships(model) == []


def test_tables_and_numbers_say_the_same(model):
    _, language, _, decoder = found = ownerships(model)
    assert language.rows() == [["1", "1 2", "1 2", "2 3"], ["2", "1 2", "1 2", "2 3"]]
    assert language.owners().tolist() == [[2, 3, 1, 0]] * 2
    assert language.sharing().tolist() == [[4, 4, 2], [4, 4, 2], [2, 2, 4]]
    assert (decoder.sharing() == 4 * np.eye(3)).all()
    numbers, saved = summary(found), arrays(found)
    assert numbers["encoder self-attention by language"]["sharing"] == saved["encoder_lang_sharing"].tolist()
    assert numbers["decoder self-attention by language"]["picks"] == saved["decoder_lang_picks"].tolist()
    assert saved["encoder_lang+domain_values"].tolist() == found[0].values


def test_pictures_show_picks_and_sharing(tmp_path):
    apart, alike = owned([[[0, 1]], [[2, 3]]], pool=4), owned([[[0, 1]], [[0, 1]]], pool=4)
    for each, name in ((apart, "apart"), (alike, "alike")):
        draw_sharing(each, tmp_path / f"{name}.sharing.png")
        draw_picks(each, tmp_path / f"{name}.picks.png")
    for kind in ("sharing", "picks"):
        one, other = (matplotlib.image.imread(tmp_path / f"{name}.{kind}.png") for name in ("apart", "alike"))
        assert one.shape == other.shape and (one != other).any()
    dark = [matplotlib.image.imread(tmp_path / f"{name}.sharing.png")[..., 0].mean() for name in ("apart", "alike")]
    assert dark[1] < dark[0]  # heads that are shared make it darker
