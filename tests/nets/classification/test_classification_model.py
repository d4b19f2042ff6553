"""The loss, statistics and classes of the classification model."""

import math

import pytest
import torch
from torch import nn

from espnet_diverse.nets.classification.sentence_classifier import Classified, SelfAttentiveClassifier
from espnet_diverse.nets.models import DiverseClassificationModel
from espnet_diverse.scope import Step, scope

TEXT, LENGTHS = torch.tensor([[1, 2], [3, 4], [5, 0]]), torch.tensor([2, 2, 1])


class Fixed(nn.Module):
    """A net that gives every sentence probabilities of 1/4 and 3/4."""

    by, labels = "domain", ["news", "talk"]

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
