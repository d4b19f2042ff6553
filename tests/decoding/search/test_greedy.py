import pytest
import torch
from espnet2.asr.ctc import CTC

from espnet_diverse.attention import parts
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.greedy import GreedySearch
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC


class Given(torch.nn.Module):
    """A CTC module whose log probabilities are given."""

    def log_softmax(self, x):
        return x


def test_repeated_labels_are_merged_and_blanks_taken_out():
    paths = [[0, 1, 1, 0, 1, 2, 2], [2, 2, 0, 0, 2, 1, 1], [0, 0, 0, 0, 1, 1, 1]]
    lengths = torch.tensor([7, 5, 4])
    log_probs = torch.full((3, 7, 3), -3.0).scatter(-1, torch.tensor(paths).unsqueeze(-1), -0.5)
    found = GreedySearch(Given())(log_probs, lengths, SearchOptions(search="greedy"))
    assert [[hyp.tokens for hyp in best] for best in found] == [[[1, 1, 2]], [[2, 2]], [[]]]
    assert [best[0].score for best in found] == [-3.5, -2.5, -2.0]


def test_a_batch_matches_espnets_argmax():
    torch.manual_seed(0)
    ctc = CTC(6, 8).eval()
    ctc.ctc_lo.weight.data *= 5
    source = torch.randn(4, 30, 8)
    found = GreedySearch(ctc)(source, torch.tensor([30, 12, 7, 1]), SearchOptions(search="greedy"))
    for row, frames in enumerate((30, 12, 7, 1)):
        path = ctc.argmax(source[row : row + 1, :frames])[0].unique_consecutive()
        assert found[row][0].tokens == [int(label) for label in path if label]
        top = ctc.log_softmax(source[row : row + 1, :frames]).max(-1).values.sum()
        assert found[row][0].score == pytest.approx(float(top), abs=1e-5)


def test_a_long_utterance_gives_the_same_in_parts(monkeypatch):
    torch.manual_seed(0)
    ctc, source, lengths = CTC(6, 8).eval(), torch.randn(2, 30, 8), torch.tensor([30, 12])
    ctc.ctc_lo.weight.data *= 5
    whole = GreedySearch(ctc)(source, lengths, SearchOptions(search="greedy"))
    seen = []
    ctc.ctc_lo.register_forward_hook(lambda _, given, __: seen.append(given[0].size(1)))
    monkeypatch.setattr(parts, "PART", 7)
    found = GreedySearch(ctc)(source, lengths, SearchOptions(search="greedy"))
    assert seen == [7, 7, 7, 7, 2]
    for (one,), (other,) in zip(found, whole, strict=True):
        assert one.tokens == other.tokens and one.score == pytest.approx(other.score, abs=1e-5)


def test_bytes_are_tokens_of_one_byte():
    torch.manual_seed(0)
    ctc = ByteCTC(CTC(5, 8), ["<blank>", "<unk>", *map(chr, range(33, 127)), "<sos/eos>"]).eval()
    ctc.ctc_lo.weight.data *= 5
    source = torch.randn(1, 30, 8)
    ((found,),) = GreedySearch(ctc)(source, torch.tensor([30]), SearchOptions(search="greedy"))
    labels = ctc.log_softmax(source).argmax(-1)[0].unique_consecutive()
    assert found.tokens == ctc.token_of_label[labels[labels > 0]].tolist() and max(found.tokens) > 1
