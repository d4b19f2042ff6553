"""CTC prefix probabilities against the sum over all alignments."""

import itertools
import math

import pytest
import torch

from espnet_diverse.decoding.search.ctc_prefix import IMPOSSIBLE, CTCPrefixScorer, SpelledPrefixScorer, _logsumexp

EOS = 3


def collapsed(path):
    """The labels of an alignment: repetitions merged, blanks taken out."""
    return [label for label, _ in itertools.groupby(path) if label != 0]


def probability(log_probs, prefix, whole=False):
    """p(labels begin with `prefix`), or p(labels are `prefix`), as a sum over all alignments."""
    total = 0.0
    for path in itertools.product(range(log_probs.size(1)), repeat=len(log_probs)):
        labels = collapsed(path)
        if labels == prefix if whole else labels[: len(prefix)] == prefix:
            total += math.exp(sum(float(log_probs[t, label]) for t, label in enumerate(path)))
    return total


@pytest.fixture
def log_probs():
    """Two utterances of five and four frames over blank, two labels and <eos>, which CTC knows as a label."""
    torch.manual_seed(0)
    return (2 * torch.randn(2, 5, 4)).log_softmax(-1)


def grown(log_probs, lengths, *tokens, eos=EOS):
    """A scorer after `tokens` in every hypothesis, and the sum of their scores."""
    scorer, total = CTCPrefixScorer(log_probs, lengths, eos), torch.zeros(len(log_probs), 1, dtype=torch.double)
    for token in tokens:
        scores = scorer.score(None)[..., token]
        scorer.extend(torch.zeros(len(log_probs), 1, dtype=torch.long), torch.full((len(log_probs), 1), token), scores)
        total += scores
    return scorer, total


@pytest.mark.parametrize("prefix", [[], [1], [1, 1], [2, 1], [1, 2, 2], [1, 2, 1, 2]], ids=str)
def test_scores_are_sums_over_all_alignments(log_probs, prefix):
    lengths = torch.tensor([5, 4])
    scorer, total = grown(log_probs, lengths, *prefix)
    scores = scorer.score(None) + total.unsqueeze(-1)
    for row, length in enumerate(lengths.tolist()):
        frames = log_probs[row, :length]
        for label in (1, 2):
            expected = probability(frames, [*prefix, label])
            assert math.exp(scores[row, 0, label]) == pytest.approx(expected, rel=1e-5, abs=1e-12)
        assert math.exp(scores[row, 0, EOS]) == pytest.approx(probability(frames, prefix, whole=True), rel=1e-5)
    assert (scores[..., 0] == IMPOSSIBLE).all()


def test_some_candidates_score_as_they_do_among_all(log_probs):
    scorer, _ = grown(log_probs, torch.tensor([5, 4]), 1)
    everything = scorer.score(None)
    candidates = torch.tensor([[[2, 1, 0, EOS]], [[1, EOS, 0, 2]]])
    torch.testing.assert_close(scorer.score(candidates), everything.gather(-1, candidates), rtol=0, atol=1e-5)


def test_more_labels_than_frames_are_impossible(log_probs):
    scorer, total = grown(log_probs[:, :3], torch.tensor([3, 2]), 1, 2)
    scores = scorer.score(None) + total.unsqueeze(-1)
    assert scores[1, 0, 1] == IMPOSSIBLE < -100 < scores[0, 0, 1]
    scorer, total = grown(log_probs[:, :3], torch.tensor([3, 2]), 1, 2, 1)
    assert torch.isfinite(scorer.score(None)).all() and (scorer.score(None) + total.unsqueeze(-1))[1].max() < -1e9


def test_long_utterances_keep_their_precision():
    torch.manual_seed(1)
    log_probs = (8 * torch.randn(1, 600, 40)).log_softmax(-1)
    tokens = [*torch.randint(1, 39, (58,)).tolist(), 7, 7]
    scorer, total = grown(log_probs, torch.tensor([600]), *tokens, eos=39)
    ours = float((scorer.score(None)[..., 39] + total).squeeze())
    lengths = torch.tensor([600]), torch.tensor([60])
    expected = -torch.nn.functional.ctc_loss(log_probs.double().transpose(0, 1), torch.tensor([tokens]), *lengths)
    assert ours == pytest.approx(60 * float(expected), abs=1e-4)  # ctc_loss divides by the number of labels


def test_hypotheses_and_utterances_continue_as_they_are_told():
    torch.manual_seed(2)
    log_probs = torch.randn(3, 9, 6).log_softmax(-1)
    scorer = CTCPrefixScorer(log_probs, torch.tensor([9, 9, 9]), 5)
    first = scorer.score(None)
    tokens = torch.tensor([[1, 2], [3, 4], [2, 1]])
    scores = first.expand(-1, 2, -1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    scorer.extend(torch.zeros(3, 2, dtype=torch.long), tokens, scores)
    both = scorer.score(None)
    scorer.keep(torch.tensor([2, 0]))
    torch.testing.assert_close(scorer.score(None), both[[2, 0]])
    scorer.extend(
        torch.tensor([[1, 1, 0], [0, 1, 0]]), torch.tensor([[3, 4, 3], [3, 3, 4]]), torch.zeros(2, 3).double()
    )
    alone = CTCPrefixScorer(log_probs[2:], torch.tensor([9]), 5)
    for token in (1, 3):
        alone.extend(torch.zeros(1, 1, dtype=torch.long), torch.tensor([[token]]), torch.zeros(1, 1).double())
    torch.testing.assert_close(scorer.paths.r[0, 0], alone.paths.r[0, 0])
    torch.testing.assert_close(scorer.paths.r_b[0, 0], alone.paths.r_b[0, 0])


SPELLINGS = torch.tensor([[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 2, 0], [2, 2, 1], [0, 0, 0]])
COUNTS = torch.tensor([0, 1, 1, 2, 3, 0])
END = 5


def spelled(tokens, most):
    counts = COUNTS[tokens]
    return SPELLINGS[tokens, : most or max(1, counts.max())], counts


@pytest.mark.parametrize("prefix", [[], [1], [1, 1], [3], [2, 4], [3, 1, 1], [4, 2]], ids=str)
def test_tokens_have_the_probability_of_their_labels(prefix):
    torch.manual_seed(3)
    log_probs, lengths = (2 * torch.randn(2, 6, 3)).log_softmax(-1), torch.tensor([6, 5])
    scorer, total = SpelledPrefixScorer(log_probs, lengths, END, spelled), torch.zeros(2, 1, dtype=torch.double)
    candidates = torch.tensor([[[2, END, 0, 4, 1, 3]]]).expand(2, -1, -1)
    for token in prefix:
        scores = scorer.score(torch.full((2, 1, 1), token))[..., 0]
        scorer.extend(torch.zeros(2, 1, dtype=torch.long), torch.full((2, 1), token), scores)
        total += scores
    scores = scorer.score(candidates) + total.unsqueeze(-1)
    before = [label for token in prefix for label in SPELLINGS[token, : COUNTS[token]].tolist()]
    for row, length in enumerate(lengths.tolist()):
        for place, token in enumerate(candidates[row, 0].tolist()):
            labels = [*before, *SPELLINGS[token, : COUNTS[token]].tolist()]
            expected = probability(log_probs[row, :length], labels, whole=token == END) if token else 0.0
            assert math.exp(scores[row, 0, place]) == pytest.approx(expected, rel=1e-4, abs=1e-12)


def test_hypotheses_of_different_spellings_continue_as_alone():
    torch.manual_seed(4)
    log_probs, lengths = (2 * torch.randn(2, 9, 3)).log_softmax(-1), torch.tensor([9, 7])
    parents, tokens = torch.tensor([[0, 0, 0]]).expand(2, -1), torch.tensor([[1, 3, 4]]).expand(2, -1)
    candidates = torch.tensor([[[1, 4, END]]])
    both = SpelledPrefixScorer(log_probs, lengths, END, spelled)
    both.extend(parents, tokens, both.score(tokens.unsqueeze(1))[:, 0])
    both.keep(torch.tensor([1]))
    found = both.score(candidates.expand(1, 3, -1))
    for place, token in enumerate((1, 3, 4)):
        alone = SpelledPrefixScorer(log_probs[1:, :7], lengths[1:], END, spelled)
        alone.extend(torch.tensor([[0]]), torch.tensor([[token]]), alone.score(torch.tensor([[[token]]]))[..., 0])
        torch.testing.assert_close(found[:, place], alone.score(candidates)[:, 0], rtol=0, atol=1e-4)


def test_logsumexp_of_values_that_vanish_and_of_none():
    torch.manual_seed(0)
    x = -300 * torch.rand(4, 5, 200)
    x[0] = -torch.inf
    x[1, :, 1:] = -torch.inf
    found, expected = _logsumexp(x.clone()), x.double().logsumexp(-1)
    assert (found[0] <= IMPOSSIBLE).all() and not found.isnan().any()
    torch.testing.assert_close(found[1:].double(), expected[1:], rtol=1e-6, atol=1e-5)
