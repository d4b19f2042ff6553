"""The decoder of Whisper: the prompt, cached steps, suppressed tokens; transformers' outputs are in packing."""

import inspect

import pytest
import torch

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.whisper.decoder import DiverseWhisperDecoder
from espnet_diverse.scope import scope
from espnet_diverse.upstream.layers import subsequent_mask

SIZES = {"attention_heads": 2, "linear_units": 32, "num_blocks": 2, "max_positions": 12}
CONDITIONS = {"lang": ["en", "de"], "tgtlang": ["en", "de"]}
PROMPT = {"start": 20, "no_timestamps": 25, "transcribe": 24, "translate": 23, "languages": {"en": 21, "de": 22}}
PROMPT |= {"by": ["lang", "tgtlang"], "conditions": CONDITIONS}
IDS = {"lang": torch.tensor([0, 1, 1]), "tgtlang": torch.tensor([0, 1, 0])}
END, TIMES = 29, [26, 27, 28]


def build(**options):
    torch.manual_seed(0)
    return DiverseWhisperDecoder(30, 16, PROMPT, **SIZES, **options).eval()


def given():
    source, lengths = torch.randn(3, 9, 16), torch.tensor([9, 6, 4])
    tokens = torch.tensor([[END, 3, 4, 5, 6], [END, 7, 3, 3, 3], [END, 8, 9, 3, 3]])
    return source, lengths, tokens, torch.tensor([5, 2, 3])


def test_the_prompt_takes_the_place_of_the_beginning():
    decoder, (source, lengths, tokens, counts) = build(), given()
    with scope(IDS, collect=False):
        scores, found = decoder(source, lengths, tokens, counts)
        assert scores.shape == (3, 5, 30) and found.tolist() == [5, 2, 3]
        other, _ = decoder(source, lengths, torch.where(tokens == END, 1, tokens), counts)
    assert torch.equal(scores, other)
    with scope({name: ids.flip(0) for name, ids in IDS.items()}, collect=False):
        flipped, _ = decoder(source, lengths, tokens, counts)
    assert not torch.allclose(flipped[0], scores[0])


@pytest.mark.parametrize("attention", [None, {"core": "sdma"}])
def test_cached_steps_equal_the_whole(attention):
    decoder, (source, _, tokens, _) = build(attention=attention), given()
    with scope(IDS, collect=False), torch.no_grad():
        whole, _ = decoder(source, torch.full((3,), 9), tokens, torch.full((3,), 5))
        cache = None
        for count in range(1, 6):
            mask = subsequent_mask(count).unsqueeze(0)
            scores, cache = decoder.forward_one_step(tokens[:, :count], mask, source, cache=cache)
            expected = whole[:, count - 1].index_fill(1, torch.tensor(TIMES), -torch.inf)
            torch.testing.assert_close(scores, expected.log_softmax(-1), atol=1e-5, rtol=0)


def test_suppressed_tokens_are_impossible():
    decoder = build(suppress=[3, 4], suppress_first=[5])
    first, later = (decoder.allowed(torch.zeros(30), len(decoder.prompt) + count) for count in (0, 1))
    assert (first == -torch.inf).nonzero().flatten().tolist() == [3, 4, 5, *TIMES]
    assert (later == -torch.inf).nonzero().flatten().tolist() == [3, 4, *TIMES]


def test_the_text_ends_after_as_many_tokens_as_the_decoder_reads():
    allowed = build().allowed(torch.zeros(2, 30), SIZES["max_positions"])
    assert (allowed > -torch.inf).nonzero().tolist() == [[0, END], [1, END]]


def test_options_of_a_configuration_are_its_own():
    options = inspect.signature(DiverseWhisperDecoder).parameters
    assert options["dropout_rate"].default == 0 and options["max_positions"].default == 448
    assert "cross_attention" in options and options["attention_heads"].default == 8


def test_languages_are_compared_after_the_first_token():
    decoder, (source, *_) = build(), given()
    found = decoder.languages(source[0])
    assert sorted(found) == ["de", "en"] and sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_embedding_and_output_are_one_parameter():
    decoder = build()
    assert decoder.output_layer.weight is decoder.embed[0].weight


def test_errors():
    source, lengths, tokens, counts = given()
    with scope(IDS, collect=False), pytest.raises(DataError, match="13 tokens"):
        build()(source, lengths, tokens.repeat(1, 2), counts * 2)
    with pytest.raises(ConfigError, match="prompt"):
        DiverseWhisperDecoder(30, 16, PROMPT | {"stop": 3}, **SIZES)
    with pytest.raises(ConfigError, match="memory"):
        build(memory={"kind": "xl"})
    with pytest.raises(ConfigError, match="position alibi"):
        build(attention={"core": "softmax", "position": "alibi"})
