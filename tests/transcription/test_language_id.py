"""Language identification with a search of given scores, and with a model that has one word for each language."""

import itertools
import math

import numpy as np
import pytest
import torch

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.tasks import ASRTask
from espnet_diverse.transcription.language_id import identify_language

LANGUAGES = ["ar", "de", "zh"]
SEGMENT = np.zeros((100, 4), dtype=np.float32)


class Given:
    """A search that scores a segment by the index of its language, and remembers its conditions."""

    names_language = False

    def __init__(self, scores, names, task="asr", batch_frames=1000, tokens=(3, 3, 3)):
        self.scores, self.tokens, self.task, self.batch_frames = scores, tokens, task, batch_frames
        self.conditions, self.asked, self.options = KnownConditions(names), [], SearchOptions()

    def batch(self, sources, conditions, options=None):
        self.asked.append(conditions)
        return [self.text(each.get("lang", each.get("tgtlang"))) for each in conditions]

    def text(self, language):
        score, tokens = self.scores[language], ["a"] * self.tokens[language]
        return [] if score is None else [Text("".join(tokens), tokens, score)]


def test_the_likeliest_language_comes_first_and_all_add_up_to_one():
    found = identify_language(Given([-12.0, -11.0, -10.5], {"lang": LANGUAGES}), [SEGMENT], {})
    assert list(found) == ["zh", "de", "ar"] and sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_segments_add_up_and_repeating_them_changes_nothing():
    search = Given([-12.0, -11.0, -14.0], {"lang": LANGUAGES})
    once, twice = (identify_language(search, [SEGMENT] * count, {}) for count in (1, 2))
    assert twice == pytest.approx(once)
    other, mean = (Given(scores, {"lang": LANGUAGES}) for scores in ([-10.0, -12.0, -14.0], [-11.0, -11.5, -14.0]))
    search.batch = lambda sources, *more: Given.batch(other if sources[0].any() else search, sources, *more)
    both = identify_language(search, [SEGMENT, SEGMENT + 1], {})
    assert both == pytest.approx(identify_language(mean, [SEGMENT], {}))


def test_texts_are_compared_by_token():
    # of three languages alike in each token and <sos/eos>, none is likelier, however long its text is
    found = identify_language(Given([-4.0, -2.0, -8.0], {"lang": LANGUAGES}, tokens=(3, 1, 7)), [SEGMENT], {})
    assert list(found.values()) == pytest.approx([1 / 3] * 3)
    better = identify_language(Given([-4.0, -2.0, -7.9], {"lang": LANGUAGES}, tokens=(3, 1, 7)), [SEGMENT], {})
    assert next(iter(better)) == "zh"
    assert math.log(better["zh"] / better["ar"]) == pytest.approx(0.1 / 8 / 0.1)


def test_a_language_without_a_text_is_out_of_question():
    found = identify_language(Given([None, -11.0, -11.0], {"lang": LANGUAGES}), [SEGMENT], {})
    assert found == {"de": 0.5, "zh": 0.5, "ar": 0.0}


def test_languages_that_do_not_fit_into_a_batch_are_scored_in_several():
    whole, split = (Given([-3.0, -1.0, -2.0], {"lang": LANGUAGES}, batch_frames=size) for size in (1000, 250))
    assert identify_language(split, [SEGMENT], {}) == identify_language(whole, [SEGMENT], {})
    assert [len(conditions) for conditions in split.asked] == [2, 1] and len(whole.asked) == 1


@pytest.mark.parametrize(
    ("task", "names", "given", "asked"),
    [
        ("asr", {"lang": ["ar", "de"]}, {}, [{"lang": 0}, {"lang": 1}]),
        ("asr", {"tgtlang": ["ar", "de"]}, {}, [{"tgtlang": 0}, {"tgtlang": 1}]),
        # the text is in the language that is spoken, and "en" is never spoken
        (
            *("asr", {"lang": ["ar", "de"], "tgtlang": ["de", "en", "ar"]}, {}),
            [{"lang": 0, "tgtlang": 2}, {"lang": 1, "tgtlang": 0}],
        ),
        # a translation is in the language that is asked for
        (
            *("st", {"lang": ["ar", "de"], "tgtlang": ["en"], "domain": ["a", "b"]}, {"tgtlang": 0, "domain": 1}),
            [{"lang": 0, "tgtlang": 0, "domain": 1}, {"lang": 1, "tgtlang": 0, "domain": 1}],
        ),
    ],
)
def test_every_language_is_tried_with_the_known_conditions(task, names, given, asked):
    search = Given([-2.0, -1.0, -3.0], names, task)
    assert set(identify_language(search, [SEGMENT], given)) == {"ar", "de"}
    assert search.asked == [asked]


@pytest.mark.parametrize(
    ("task", "names", "given"),
    [("asr", {}, {}), ("st", {"tgtlang": ["en", "fr"]}, {}), ("asr", {"lang": ["ar", "de"]}, {"lang": 1})],
)
def test_there_is_nothing_to_find_where_the_language_is_known_or_makes_no_difference(task, names, given):
    search = Given([], names, task)
    assert identify_language(search, [SEGMENT], given) == {} and not search.asked


WORDS = {"xx": "a", "yy": "b", "zz": "c"}
TOKENS = ["<blank>", "<unk>", *WORDS.values(), "<sos/eos>"]


@pytest.fixture
def bilingual():
    """A search by a model whose decoder writes one word, that of the language, for any speech, and its CTC."""
    parser = ASRTask.get_parser()
    tag = f"decoder_conf.start_tag={{by: lang, conditions: {{lang: {[*WORDS]}}}}}"
    parts = [tag, f"model_conf.conditions={{lang: {[*WORDS]}}}", "token_type=char", "normalize=utterance_mvn"]
    parser.set_defaults(**merge(["model/tiny"], parts))
    args = parser.parse_args([])
    args.token_list = TOKENS
    torch.manual_seed(0)
    model = ASRTask.build_model(args)
    embedding, size = model.decoder.embed[0], args.encoder_conf["output_size"]
    for layer in model.decoder.decoders:  # what a token is followed by depends on that token alone
        for last in (layer.self_attn.linear_out, layer.src_attn.linear_out, layer.feed_forward.w_2):
            last.weight.data.zero_(), last.bias.data.zero_()
    rows = 10 * torch.linalg.qr(torch.randn(size, size)).Q[: len(TOKENS) + len(WORDS)]
    embedding.weight.data, embedding.start.weight.data = rows[: len(TOKENS)], rows[len(TOKENS) :]
    output = torch.zeros(len(TOKENS), size)
    for word, start in zip(WORDS.values(), embedding.start.weight.data, strict=True):
        output[TOKENS.index(word)] += start / 10
        output[-1] += embedding.weight.data[TOKENS.index(word)] / 10
    model.decoder.output_layer.weight.data, model.decoder.output_layer.bias.data = output, torch.zeros(len(TOKENS))
    model.ctc.ctc_lo.weight.data.zero_()
    return Predictor(model, args, "asr", SearchOptions(beam_size=4, ctc_weight=0.5)), model.ctc.ctc_lo.bias.data


@pytest.mark.parametrize(("heard", "next_best"), itertools.permutations(WORDS, 2))
def test_the_language_whose_text_is_heard_is_found(bilingual, heard, next_best):
    search, bias = bilingual
    logits = {"<blank>": 2.0, WORDS[heard]: 0.0, WORDS[next_best]: -2.0}
    bias.copy_(torch.tensor([logits.get(token, -4.0) for token in TOKENS]))
    features = [search.features(np.random.default_rng(seed).standard_normal(8000, np.float32)) for seed in range(2)]
    found = identify_language(search, features, {})
    assert list(found)[:2] == [heard, next_best] and found[heard] > 0.5
    assert (
        identify_language(search, features, {}, SearchOptions(beam_size=4, ctc_weight=0.5, length_penalty=2.0)) == found
    )
    assert identify_language(search, features, {}, SearchOptions(beam_size=4, ctc_weight=0.5, penalty=3.0)) == found
    for language, word in WORDS.items():
        assert (
            search.batch(features[:1], [{"lang": search.conditions.names["lang"].index(language)}])[0][0].text == word
        )


def test_hotwords_do_not_choose_the_language(bilingual):
    search, bias = bilingual
    bias.copy_(torch.tensor([{"<blank>": 2.0, "a": 0.0, "b": -2.0}.get(token, -4.0) for token in TOKENS]))
    features = [search.features(np.random.default_rng(0).standard_normal(8000, np.float32))]
    found = identify_language(search, features, {})
    search.search.hotwords = search.hotwords_of(["b"])
    assert identify_language(search, features, {}) == found
