"""Scorers against ESPnet's pass over whole prefixes, in the variants of ESPnet's layers. The tree is tested apart."""

import pytest
import torch
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.lm.seq_rnn_lm import SequentialRNNLM

from espnet_diverse.decoding.search.scorers import DecoderScorer, LanguageModelScorer
from espnet_diverse.errors import ModelError
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.nets.language_model import DiverseTransformerLM

VOCABULARY, WIDTH, FRAMES = 12, 16, 7
SMALL = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2}


def stepwise(scorer, prefix, source, mask=None):
    """log p (B, L, V) of the next token after each beginning of a prefix (L,), for each row of source (B, T, M)."""
    scores = []
    with torch.no_grad():
        scorer.begin(source, mask)
        for token in prefix.tolist():
            scores.append(scorer.score(torch.full((len(source), 1), token))[:, 0])
            scorer.extend(torch.zeros(len(source), 1, dtype=torch.long))
    return torch.stack(scores, 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize_before": False},
        {"concat_after": True},
        {"concat_after": True, "normalize_before": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [DiverseTransformerDecoder, TransformerDecoder])
def test_a_decoder_in_every_form_of_its_layers(cls, options):
    torch.manual_seed(0)
    net = cls(VOCABULARY, WIDTH, **SMALL, **options).eval()
    source, prefix = torch.randn(2, FRAMES, WIDTH), torch.tensor([11, 3, 4, 5])
    with torch.no_grad():
        lengths = torch.full((2,), FRAMES), torch.full((2,), len(prefix))
        expected, _ = net(source, lengths[0], prefix.expand(2, -1), lengths[1])
    found = stepwise(DecoderScorer(net), prefix, source)
    torch.testing.assert_close(found, expected.log_softmax(-1), rtol=0, atol=1e-5)


def test_padding_of_the_source_changes_nothing():
    torch.manual_seed(0)
    scorer = DecoderScorer(DiverseTransformerDecoder(VOCABULARY, WIDTH, **SMALL).eval())
    source, prefix = torch.randn(2, FRAMES, WIDTH), torch.tensor([11, 3, 4])
    mask = torch.ones(2, 1, FRAMES, dtype=torch.bool)
    mask[1, :, 4:] = False
    found = stepwise(scorer, prefix, source, mask)
    torch.testing.assert_close(found[1:], stepwise(scorer, prefix, source[1:, :4]), rtol=0, atol=1e-5)
    with torch.no_grad():
        scorer.begin(source, mask)
        scorer.score(prefix[:1].expand(2, 1))
        scorer.extend(torch.zeros(2, 1, dtype=torch.long))
        scorer.keep(torch.tensor([1]))
        kept = scorer.score(prefix[1:2].view(1, 1))[:, 0]
    torch.testing.assert_close(kept, found[1:, 1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pos_enc", ["sinusoidal", None])
def test_a_language_model_with_and_without_positions(pos_enc):
    torch.manual_seed(0)
    net = DiverseTransformerLM(VOCABULARY, pos_enc, embed_unit=8, att_unit=WIDTH, head=2, unit=24, layer=2).eval()
    prefix = torch.tensor([11, 3, 4, 5])
    with torch.no_grad():
        expected = net(prefix[None], None)[0].log_softmax(-1)
    found = stepwise(LanguageModelScorer(net), prefix, torch.randn(1, FRAMES, WIDTH))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_nets_of_another_class_are_refused():
    with pytest.raises(ModelError, match="^RNNDecoder has no batched search; use search=espnet$"):
        DecoderScorer(RNNDecoder(VOCABULARY, WIDTH, hidden_size=8))
    with pytest.raises(ModelError, match="^DiverseTransformerDecoder has no batched search; use search=espnet$"):
        DecoderScorer(DiverseTransformerDecoder(VOCABULARY, WIDTH, **SMALL, input_layer="linear"))
    with pytest.raises(ModelError, match="^SequentialRNNLM has no batched search; use search=espnet$"):
        LanguageModelScorer(SequentialRNNLM(VOCABULARY, unit=8))
