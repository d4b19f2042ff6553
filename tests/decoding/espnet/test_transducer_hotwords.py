"""Hotwords of transducers against scores that are computed from the nets, token by token."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from espnet2.asr.decoder.transducer_decoder import TransducerDecoder
from espnet2.asr.transducer.beam_search_transducer import BeamSearchTransducer
from espnet2.asr_transducer.joint_network import JointNetwork
from espnet2.lm.seq_rnn_lm import SequentialRNNLM
from espnet2.lm.transformer_lm import TransformerLM

from espnet_diverse.decoding.espnet.espnet_beam import TransducerSearch
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.hotwords import HotwordScorer

V, M, SOS, WEIGHT = 12, 6, 11, 3.0
PHRASES = [[2, 3], [5]]
LANGUAGE_MODELS = {
    "no": lambda: None,
    "a recurrent": lambda: SequentialRNNLM(V, unit=6, nlayers=1),
    "a transformer": lambda: TransformerLM(V, pos_enc=None, embed_unit=6, att_unit=6, head=2, unit=8, layer=1),
}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    nets = {"decoder": TransducerDecoder(V, hidden_size=5, embed_pad=0), "joint_network": JointNetwork(V, M, 5, 8)}
    for parameter in itertools.chain(*(net.eval().parameters() for net in nets.values())):
        parameter.data.mul_(3.0)
    return SimpleNamespace(**nets, eos=SOS, sos=SOS, token_list=[str(index) for index in range(V)])


@torch.no_grad()
def log_prob(model, source, text):
    """Log probability of a text (sum over alignments of at most two tokens a frame)."""
    model.decoder.set_device(torch.device("cpu"))
    out, _ = model.decoder.rnn_forward(model.decoder.embed(torch.tensor([[0, *text]])), model.decoder.init_state(1))
    joint = model.joint_network(source.unsqueeze(1), out).log_softmax(-1)  # (T, U + 1, V)
    reached = {0: torch.tensor(0.0)}
    for frame in joint:
        after = {}
        for start, score in reached.items():
            for end in range(start, min(start + 2, len(text)) + 1):
                way = score + sum((frame[at, text[at]] for at in range(start, end)), frame[end, 0])
                after[end] = torch.logaddexp(after[end], way) if end in after else way
        reached = after
    return float(reached[len(text)])


def bonus(text):
    """Tokens of complete phrases: the phrases here cannot overlap."""
    text = "".join(map(str, text))
    return sum(len(phrase) * text.count("".join(map(str, phrase))) for phrase in PHRASES)


@torch.no_grad()
def lm_score(lm, text):
    total, state = 0.0, None
    for at, token in enumerate(text):
        scores, state = lm.score(torch.tensor([SOS, *text[:at]]), state, None)
        total += float(scores[token])
    return total


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_scores_match_the_nets_and_the_bonus_of_complete_phrases(model, name):
    torch.manual_seed(1)
    lm = LANGUAGE_MODELS[name]()
    if lm is not None:
        lm.eval()
    options = SearchOptions(beam_size=V, nbest=V, hotword_weight=WEIGHT, lm_weight=0.5)
    source = torch.randn(1, 1, M)
    (best,) = TransducerSearch(model, lm, HotwordScorer(PHRASES, V))(source, torch.tensor([1]), options)
    for found in best:
        exact = log_prob(model, source[0], found.tokens) + WEIGHT * bonus(found.tokens)
        exact += 0.0 if lm is None else 0.5 * lm_score(lm, found.tokens)
        assert found.score == pytest.approx(exact, abs=1e-4), found
    assert [2, 3] in [found.tokens for found in best]
    assert any(2 in found.tokens and bonus(found.tokens) == 0 for found in best)  # an unfinished phrase got nothing
    by_length = [found.score / (len(found.tokens) + 1) for found in best]
    assert by_length == sorted(by_length, reverse=True)


def test_a_small_bonus_changes_no_score_of_other_texts_and_a_large_one_wins(model):
    torch.manual_seed(2)
    source, lengths = torch.randn(1, 3, M), torch.tensor([3])
    found = {}
    for weight, beam in ((0.0, 4), (1e-6, V), (30.0, V)):  # ESPnet's usual search takes a minute with beam V
        options = SearchOptions(beam_size=beam, hotword_weight=weight)
        ((found[weight],),) = TransducerSearch(model, None, HotwordScorer([[7, 8]], V))(source, lengths, options)
    ((plain,),) = TransducerSearch(model)(source, lengths, SearchOptions(beam_size=4))
    assert found[0.0] == plain
    nets = {"decoder": model.decoder, "joint_network": model.joint_network}
    espnets = BeamSearchTransducer(**nets, beam_size=V - 1, search_type="tsd", max_sym_exp=3)
    with torch.no_grad():
        (expected,) = espnets(source[0])
    assert found[1e-6].tokens == expected.yseq[1:] and found[1e-6].score == pytest.approx(expected.score, abs=1e-3)
    assert [7, 8] in [list(each) for each in itertools.pairwise(found[30.0].tokens)]
    assert [7, 8] not in [list(each) for each in itertools.pairwise(plain.tokens)]


def test_any_bonus_ends(model):
    """In ESPnet's usual search a frame whose tokens gain more than they cost never ends."""
    options = SearchOptions(beam_size=4, hotword_weight=1000.0)
    ((found,),) = TransducerSearch(model, None, HotwordScorer([[3]], V))(
        torch.randn(1, 5, M), torch.tensor([5]), options
    )
    assert len(found.tokens) <= 2 * 5


def test_utterances_of_a_batch_are_searched_apart(model):
    torch.manual_seed(3)
    source, lengths = torch.randn(2, 4, M), torch.tensor([4, 2])
    options = SearchOptions(beam_size=4, hotword_weight=1.0)
    search = TransducerSearch(model, None, HotwordScorer(PHRASES, V))
    both = search(source, lengths, options)
    assert both == [*search(source[:1], lengths[:1], options), *search(source[1:, :2], lengths[1:], options)]
