"""The classifier of sentences: padding, order of the batch, both directions, classes."""

import pytest
import torch

from espnet_diverse.nets.classification.sentence_classifier import SelfAttentiveClassifier

SIZE = {"embed_dim": 6, "hidden_size": 5, "pooling_width": 4, "heads": 3, "linear_units": 8}
CLASSES = {"by": ["lang"], "conditions": {"lang": ["de", "en"]}}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return SelfAttentiveClassifier(9, **CLASSES, **SIZE).double().eval()


def test_shapes_and_classes(net):
    assert (net.by, net.labels) == ("lang", ["de", "en"])
    found = net(torch.tensor([[3, 4, 5, 6]]), torch.tensor([4]))
    assert found.scores.shape == (1, 2) and found.heads.shape == (1, 3, 10)


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


def test_positions_depend_on_what_is_before_and_behind(net):
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
