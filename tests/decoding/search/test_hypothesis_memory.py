"""Cached scores of a net that works by segments equal its pass over each whole prefix, however beams are reordered."""

from types import SimpleNamespace

import pytest
import torch
from references.memories import MEMORIES

from espnet_diverse.attention import CORES
from espnet_diverse.attention.modifiers.position import POSITIONS
from espnet_diverse.decoding.espnet.espnet_beam import ESPnetBeamSearch
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search import prefix_tree
from espnet_diverse.decoding.search.beam_search import BeamSearch
from espnet_diverse.decoding.search.scorers import DecoderScorer, LanguageModelScorer
from espnet_diverse.nets.language_model import DiverseTransformerLM

EOS = 29
SOURCE = {"segment": 4, "slots": 3, "kind": "cdt"}
WITH_MEMORY = [name for name, core in CORES.items() if core.supports.cross_attention and core.supports.causal]


def compare(scorer, full, mask=None, least=1):
    """Compare scores of random beams of three utterances with `full(prefixes, utterance)`, over four segments."""
    source, rows, tokens = torch.randn(3, 11, 32, dtype=torch.double), torch.arange(3), torch.full((3, 1), EOS)
    prefixes = tokens.unsqueeze(-1)
    scorer.begin(source, mask)
    for step in range(14):
        scores = scorer.score(tokens)
        for row, utterance in enumerate(rows.tolist()):
            expected = full(prefixes[row], source[utterance], utterance)
            torch.testing.assert_close(scores[row], expected, rtol=0, atol=1e-10)
        parents = torch.randint(tokens.size(1), (len(rows), 1 + step % 4))
        first = (step + 1) % 4 == 0  # of a segment, which the whole pass takes for padding if all of its tokens are
        tokens = torch.randint(1 if first else least, EOS, parents.shape)
        prefixes = prefixes.gather(1, parents.unsqueeze(-1).expand(-1, -1, step + 1))
        prefixes = torch.cat([prefixes, tokens.unsqueeze(-1)], -1)
        if step in (2, 7):  # once within a segment, once at its end
            kept = torch.arange(len(rows)).flip(0)[:-1]
            scorer.keep(kept)
            rows, parents, tokens, prefixes = rows[kept], parents[kept], tokens[kept], prefixes[kept]
        scorer.extend(parents)


def compare_decoder(net, mask=None):
    def full(prefixes, source, utterance):
        count = len(prefixes)
        frames = 11 if mask is None else int(mask[utterance].sum())
        lengths = torch.full((count,), frames), torch.full((count,), prefixes.size(1))
        return net(source.expand(count, -1, -1), lengths[0], prefixes, lengths[1])[0][:, -1].log_softmax(-1)

    with torch.no_grad():
        compare(DecoderScorer(net), full, mask)


@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
def test_a_decoder_with_every_memory(build, memory, monkeypatch):
    monkeypatch.setattr(prefix_tree, "_TIDY_EVERY", 3)
    compare_decoder(build(memory={"segment": 4} | memory)[0].double())


@pytest.mark.parametrize("core", WITH_MEMORY)
def test_a_decoder_with_every_core_and_memories_of_both_sides(build, core):
    given = {"attention": {"core": core}, "cross_attention": {"core": core}}
    compare_decoder(build(memory={"segment": 4} | MEMORIES["cdt"], cross_memory=SOURCE, **given)[0].double())


@pytest.mark.parametrize("position", POSITIONS)
def test_a_decoder_with_positions_by_distance(build, position):
    attention = {"core": "softmax", "position": position}
    compare_decoder(build(memory={"segment": 4} | MEMORIES["compressive"], attention=attention)[0].double())


def test_a_step_reads_a_bounded_number_of_nodes(build):
    scorer, most = DecoderScorer(build(memory={"segment": 4} | MEMORIES["xl"])[0]), 0
    with torch.no_grad():
        scorer.begin(torch.randn(2, 11, 32), None)
        for _ in range(40):
            scorer.score(torch.ones(2, 3, dtype=torch.long))
            scorer.extend(torch.arange(3).expand(2, -1))
            most = max(most, *(nodes.count for nodes in scorer.nodes))
    assert most == 3 * (5 + 4)  # slots and positions of a segment, of three hypotheses


@pytest.mark.parametrize("kind", ["cdt", "xl"])
def test_padding_of_the_source(build, kind):
    mask = (torch.arange(11) < torch.tensor([[11], [6], [3]])).unsqueeze(1)
    compare_decoder(build(cross_memory=SOURCE | {"kind": kind})[0].double(), mask)


@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
def test_a_language_model(memory):
    """A token with the index of padding, which ESPnet's language models leave out, is left out of memories too."""
    torch.manual_seed(0)
    sizes = {"embed_unit": 16, "att_unit": 32, "head": 2, "unit": 64, "layer": 2}
    net = DiverseTransformerLM(30, "sinusoidal", memory={"segment": 4} | memory, **sizes).double().eval()

    def full(prefixes, _source, _utterance):
        return net(prefixes, None)[0][:, -1].log_softmax(-1)

    with torch.no_grad():
        compare(LanguageModelScorer(net), full, least=0 if memory["kind"] != "compressive" else 1)


def test_beam_search_matches_espnet(build, sources):
    decoder, ctc = build(memory={"segment": 4} | MEMORIES["cdt"], cross_memory=SOURCE)
    options = SearchOptions(beam_size=4, ctc_weight=0.0, maxlenratio=0.5, nbest=3)
    theirs = ESPnetBeamSearch(SimpleNamespace(decoder=decoder, eos=EOS, sos=EOS, token_list=["a"] * 30), None)
    lengths = torch.tensor([len(x) for x in sources])
    padded = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True)
    found = BeamSearch(decoder, None, EOS)(padded, lengths, options)
    for row, (source, hypotheses) in enumerate(zip(sources, found, strict=True)):
        (expected,) = theirs(source.unsqueeze(0), lengths[row : row + 1], options)
        assert [each.tokens for each in hypotheses] == [each.tokens for each in expected]
