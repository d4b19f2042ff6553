"""The classifier of sentences: padding, order of the batch, both directions, classes."""

import math

import pytest
import torch
from torch import nn

from espnet_diverse.nets.classification.sentence_classifier import (
    Classified,
    SelfAttentiveClassifier,
    SelfAttentivePairClassifier,
)
from espnet_diverse.nets.models import DiverseClassificationModel
from espnet_diverse.scope import Step, scope

SIZE = {"embed_dim": 6, "hidden_size": 5, "pooling_width": 4, "heads": 3, "linear_units": 8}
CLASSES = {"by": ["lang"], "conditions": {"lang": ["de", "en"]}}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return SelfAttentiveClassifier(9, **CLASSES, **SIZE).double().eval()


def test_shapes_and_classes(net):
    assert (net.by, net.labels) == ("lang", ["de", "en"])
    found = net(torch.tensor([[3, 4, 5, 6]]), torch.tensor([4]))
    assert found.scores.shape == (1, 2) and found.heads.shape == (1, 1, 3, 10)


def test_a_sentence_is_classified_alike_in_any_batch(net):
    texts = torch.tensor([[3, 4, 0, 0], [5, 6, 7, 8], [2, 2, 2, 0]])
    lengths = torch.tensor([2, 4, 3])
    together = net(texts, lengths)
    for row, length in enumerate(lengths):
        alone = net(texts[row : row + 1, :length], lengths[row : row + 1])
        for ours, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[row : row + 1], expected)
    other = net(texts.masked_fill(texts == 0, 1), lengths)
    assert all(torch.equal(ours, expected) for ours, expected in zip(other, together, strict=True))


def test_the_lstm_reads_both_directions(net):
    changed = [torch.tensor([each]) for each in ([3, 4, 5], [7, 4, 5], [3, 4, 7])]
    outputs = [net.lstm(net.embed(each))[0][0, 1] for each in changed]
    forward, backward = (slice(5), slice(5, 10))
    assert torch.equal(outputs[0][backward], outputs[1][backward]) and torch.equal(
        outputs[0][forward], outputs[2][forward]
    )
    assert not torch.equal(outputs[0][forward], outputs[1][forward])
    assert not torch.equal(outputs[0][backward], outputs[2][backward])


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ({}, "by None is not one condition; write by: lang, for example, to classify by utt2lang"),
        ({"by": ["lang", "domain"]}, r"by \['lang', 'domain'\] is not one condition"),
        ({"by": "lang"}, "lang has 0 values in the training data; a classifier needs 2 or more"),
        ({"by": "lang", "conditions": {"lang": ["de"]}}, "lang has 1 values in the training data"),
    ],
)
def test_classes_that_are_missing_are_refused(classes, said):
    with pytest.raises(ValueError, match=said):
        SelfAttentiveClassifier(9, **classes, **SIZE)


def test_a_pair_is_classified_by_both_its_texts():
    torch.manual_seed(0)
    net = SelfAttentivePairClassifier(9, **CLASSES, **SIZE).double().eval()
    first, second = (
        (torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([3, 2])),
        (torch.tensor([[2], [8]]), torch.ones(2)),
    )
    found = net(*second, *first)
    u, v = net.encode(*first), net.encode(*second)
    assert torch.equal(found.heads, torch.stack([u, v], 1)) and found.heads.shape == (2, 2, 3, 10)
    weight = net.hidden.weight.unflatten(1, (4, 30))
    parts = (u.flatten(1), v.flatten(1), (u - v).flatten(1).abs(), (u * v).flatten(1))
    hidden = sum(part @ weight[:, place].T for place, part in enumerate(parts)) + net.hidden.bias
    torch.testing.assert_close(found.scores, net.output(hidden.relu()))
    assert not torch.allclose(net(*first, *second).scores, found.scores)  # the order counts
    padded = net(*second, torch.tensor([[3, 4, 5, 1], [6, 7, 1, 1]]), first[1])
    torch.testing.assert_close(padded.scores, found.scores)


TEXT, LENGTHS = torch.tensor([[1, 2], [3, 4], [5, 0]]), torch.tensor([2, 2, 1])


class Fixed(nn.Module):
    """A net that gives every sentence probabilities of 1/4 and 3/4."""

    by, labels, pairs = "domain", ["news", "talk"], False

    def forward(self, text, lengths):
        scores = torch.tensor([[1.0, 3.0]]).log().expand(len(text), 2)
        return Classified(scores, torch.zeros(len(text), 2, 1))


def test_the_loss_is_the_mean_cross_entropy_of_the_condition():
    model = DiverseClassificationModel(Fixed(), conditions={"domain": Fixed.labels})
    given = {"domain": torch.tensor([[1], [0], [1]]), "domain_lengths": torch.tensor([1, 1, 1])}
    loss, stats, weight = model(TEXT, LENGTHS, utt_id=["a", "b", "c"], **given)
    expected = -(2 * math.log(0.75) + math.log(0.25)) / 3
    assert loss.item() == pytest.approx(expected) == stats["loss"].item() == stats["loss_task"].item()
    assert stats["acc"].item() == pytest.approx(2 / 3) and weight.item() == 3
    assert model.collect_feats(TEXT, LENGTHS) == {}


def test_a_batch_without_classes_is_refused():
    with pytest.raises(ValueError, match=r"the domain of each sample is needed and was not given \(given: none\)"):
        DiverseClassificationModel(Fixed())(TEXT, LENGTHS)
    with scope(conditions={"domain": torch.tensor([0])}):
        assert DiverseClassificationModel(Fixed())(TEXT, LENGTHS)[0].item() == pytest.approx(-math.log(0.25))


def test_the_penalty_of_the_heads_is_an_auxiliary_loss():
    torch.manual_seed(0)
    size = {"embed_dim": 6, "hidden_size": 5, "pooling_width": 4, "heads": 3, "linear_units": 8, "dropout_rate": 0.0}
    classes = {"domain": ["news", "talk"]}
    net = SelfAttentiveClassifier(9, by="domain", conditions=classes, frobenius=2.0, **size)
    model = DiverseClassificationModel(net, conditions=classes)
    with scope(step=Step(0, 0)):
        loss, stats, _ = model(TEXT, LENGTHS, domain=torch.tensor([[0]] * 3))
    assert loss.item() == pytest.approx(stats["loss_task"].item() + stats["aux_frobenius"].item())
    assert stats["aux_frobenius"] > 0 and stats["gradient_frobenius"] > 0
