"""The classifier of long texts: padding, order of the batch, attentions, options."""

import inspect

import pytest
import torch
from espnet2.torch_utils.initialize import initialize

from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.classification.transformer_classifier import TransformerClassifier
from espnet_diverse.nets.models import DiverseClassificationModel
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.config_checks import check
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.training.loop.halved_batch import Halvable

SIZE = {"output_size": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 2, "pooling_width": 4, "heads": 3}
CLASSES = {"by": ["domain"], "conditions": {"domain": ["0", "1", "2"]}}
TEXTS, LENGTHS = torch.tensor([[3, 4, 0, 0, 0, 0], [5, 6, 7, 8, 2, 3], [2, 2, 2, 0, 0, 0]]), torch.tensor([2, 6, 3])
PARTS = {
    "softmax": {},
    "luna": {"attention": {"core": "luna", "length": 3}},
    "linformer": {"attention": {"core": "linformer", "max_length": 8, "compressed_length": 4}},
    "memory": {"memory": {"kind": "xl", "segment": 2, "slots": 2}},
}


def build(part="softmax", **options):
    torch.manual_seed(0)
    return TransformerClassifier(9, **CLASSES, **SIZE | PARTS[part] | options).double().eval()


@pytest.mark.parametrize("part", PARTS)
def test_a_text_is_classified_alike_in_any_batch(part):
    net = build(part)
    together = net(TEXTS, LENGTHS)
    assert together.scores.shape == (3, 3) and together.heads.shape == (3, 1, 3, 8)
    for row, length in enumerate(LENGTHS):
        alone = net(TEXTS[row : row + 1, :length], LENGTHS[row : row + 1])
        for ours, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[row : row + 1], expected)
    torch.testing.assert_close(net(TEXTS.masked_fill(TEXTS == 0, 1), LENGTHS), together)
    weights = net.head_maps(TEXTS, LENGTHS)
    assert weights.shape == (3, 3, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3, dtype=torch.double))


def test_the_order_of_the_tokens_counts_and_every_token_is_read():
    net, text = build(), torch.tensor([[3, 4, 5, 6]])
    assert (net.embed.num_embeddings, net.embed.embedding_dim) == (9, 8)
    scores = [net(text[:, order], torch.tensor([4])).scores for order in ([0, 1, 2, 3], [1, 0, 2, 3])]
    assert not torch.allclose(*scores)
    for place in range(4):
        assert not torch.allclose(
            net(text.index_fill(1, torch.tensor([place]), 7), torch.tensor([4])).scores, scores[0]
        )


def test_embeddings_begin_at_the_scale_of_the_positions():
    torch.manual_seed(0)
    model = TransformerClassifier(2000, **CLASSES, **SIZE | {"output_size": 64}).eval()
    embed = model.encoder.embed
    with torch.no_grad():
        tokens = embed[0].weight * 64**0.5
        positions = embed(torch.zeros(1, 50, dtype=torch.long)) - tokens[0]
    assert float(tokens.std()) == pytest.approx(1, rel=0.02)
    initialize(model, "xavier_uniform")  # ESPnet's option `init`
    assert float(model.embed.weight.detach().std()) * 8 == pytest.approx(1, rel=0.02)
    assert float(positions.square().mean()) == pytest.approx(0.5)


@pytest.mark.parametrize("part", ["softmax", "luna"])
def test_every_parameter_is_trained(part):
    model = DiverseClassificationModel(build(part).float().train(), conditions=CLASSES["conditions"])
    model(TEXTS, LENGTHS, domain=torch.tensor([[0], [1], [2]]))[0].sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("part", ["softmax", "memory"])
def test_halves_of_a_batch_give_its_loss(part):
    """Where training halves a batch that needs too much memory, the second half has shorter texts alone."""
    model = DiverseClassificationModel(build(part), conditions=CLASSES["conditions"])
    batch = {"text": TEXTS, "text_lengths": LENGTHS, "domain": torch.tensor([[0], [1], [2]])}
    torch.testing.assert_close(Halvable(model)(batch, halved=True)[0], model(**batch)[0])


def test_options_match_the_encoder():
    """Named in the signature, and checked before a run: an unknown one, and one of a part."""
    known = inspect.signature(TransformerClassifier).parameters
    assert {"by", "heads", "attention", "memory", "num_blocks"} <= known.keys() and "input_layer" not in known
    wrong = {"classifier_conf.num_block=2": "num_block", "classifier_conf.attention={core: luna, lenght: 2}": "lenght"}
    for change, name in wrong.items():
        with pytest.raises(ConfigError, match=name):
            check(TASKS["cls"], merge(["model/cls_transformer"], [change]))
    check(TASKS["cls"], merge(["model/cls_transformer"], ["classifier_conf.attention.core=luna"]))


def test_classes_that_are_missing_are_refused():
    with pytest.raises(ValueError, match="by None is not one condition; write by: lang"):
        TransformerClassifier(9, **SIZE)
