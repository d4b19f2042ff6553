"""The loss is the bound, with a rising weight of the divergence; a task is learned; errors by their text."""

import pytest
import torch
from references import text_nets
from torch.nn.utils.rnn import pad_sequence

from espnet_diverse.attention import set_updates_of_run
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.search.one_pass import OnePassSearch
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.label_smoothing import smoothed_divergence
from espnet_diverse.runs.tasks import MTTask

CONFIG = text_nets.CONFIG | {
    "decoder": "flow",
    "decoder_conf": text_nets.PLAIN | {"linear_units": 64, "flow": {"latent": 8, "steps": 1, "posterior_blocks": 1}},
    "model": "flow",
    "model_conf": {"kl_updates": 0},
}


def build(**changes):
    torch.manual_seed(0)
    parser = MTTask.get_parser()
    parser.set_defaults(**(CONFIG | changes))
    return MTTask.build_model(parser.parse_args([]))


def batch_of(sources, targets):
    batch = {}
    for name, texts in (("src_text", sources), ("text", targets)):
        batch[name] = pad_sequence([torch.tensor(text) for text in texts], batch_first=True, padding_value=-1)
        batch[f"{name}_lengths"] = torch.tensor([len(text) for text in texts])
    return batch


TWO = batch_of([[2, 3, 4], [5, 6]], [[4, 3], [7, 2, 2, 5]])


def losses(model, seed=1):
    torch.manual_seed(seed)
    loss, stats, _ = model(**TWO)
    return loss, stats


def test_consistency_of_two_passes_is_refused():
    with pytest.raises(ConfigError, match="^consistency does not fit FlowMTModel or its decoder"):
        build(model_conf={"consistency": {"r_drop": 1.0}})


@pytest.mark.parametrize("by_token", [True, False])
def test_the_loss_is_minus_the_bound(by_token):
    conf = {"kl_updates": 0, "lsm_weight": 0.1, "length_normalized_loss": by_token}
    model = build(model_conf=conf).eval()
    loss, stats = losses(model)
    encoded = model.encode(TWO["src_text"], TWO["src_text_lengths"])
    torch.manual_seed(1)
    bound = model.decoder(*encoded, TWO["text"], TWO["text_lengths"])
    written = torch.cat([bound.scores[0, :2], bound.scores[1]])
    total = smoothed_divergence(written, torch.tensor([4, 3, 7, 2, 2, 5]), 0.1).sum()
    total = total + bound.divergence.sum() - bound.length.sum()
    torch.testing.assert_close(loss.squeeze(), total / (6 if by_token else 2))
    torch.testing.assert_close(stats["kl"].squeeze(), bound.divergence.sum() / 6)
    torch.testing.assert_close(stats["nll_length"].squeeze(), -bound.length.mean())


def test_validation_reports_the_accuracy_of_the_translation():
    model = build(model_conf={"report_bleu": True}).eval()
    best = model.decoder.translate(*model.encode(TWO["src_text"], TWO["src_text_lengths"]), TWO["text_lengths"])
    text = best.argmax(-1).masked_fill(TWO["text"] < 0, -1)
    text[1, 0] = 9 - text[1, 0]  # one of six tokens is wrong
    _, stats, _ = model(**TWO | {"text": text})
    torch.testing.assert_close(stats["acc"].squeeze(), torch.tensor(5 / 6))
    assert stats["bleu"] is not None and 0 <= stats["acc_posterior"] <= 1


def test_the_weight_of_the_divergence_rises_with_the_updates():
    model = build(model_conf={"kl_updates": 0.5})
    set_updates_of_run(model, 8)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    tokens = TWO["text_lengths"].sum()
    for step in range(6):
        encoded = model.train().encode(TWO["src_text"], TWO["src_text_lengths"])
        torch.manual_seed(step)
        bound = model.decoder(*encoded, TWO["text"], TWO["text_lengths"])
        loss, stats = losses(model, step)
        assert stats["acc"] is None
        expected = model.criterion_mt(bound.scores, TWO["text"])
        number = tokens if model.loss_per_token else len(TWO["text"])
        expected = expected + (min(1, step / 4) ** 2 * bound.divergence - bound.length).sum() / number
        torch.testing.assert_close(loss.squeeze(), expected)
        loss.backward()
        optimizer.step()
    full, _ = losses(model.eval(), 5)
    torch.testing.assert_close(full, loss)  # the weight of validation is 1


def test_losses_of_attention_are_per_token_without_an_end():
    attention = {"attention": {"core": "sma"}}
    conf = [{"kl_updates": 0, "length_normalized_loss": by_token} for by_token in (True, False)]
    encoder = {"encoder_conf": CONFIG["encoder_conf"] | attention}
    by_token, by_sentence = (losses(build(model_conf=each, **encoder).eval())[1] for each in conf)
    torch.testing.assert_close(by_token["aux_diversity_z"] * 6, by_sentence["aux_diversity_z"] * 2)


def test_losses_of_attention_match_the_bound():
    """Translation during validation adds no losses; they are means over the attention modules."""
    torch.manual_seed(0)
    decoder = CONFIG["decoder_conf"] | {"attention": {"core": "sma", "noise_std": 0.0}}
    model = build(decoder_conf=decoder, encoder_conf=CONFIG["encoder_conf"])
    in_validation, in_training = (losses(model.train(training))[1] for training in (False, True))
    torch.testing.assert_close(in_validation["aux_diversity_z"], in_training["aux_diversity_z"])


def test_latent_variables_decide_between_translations():
    """Each source token has two translations, one of two tokens four times. Tokens that are independent mix them."""
    model, random = build(model_conf={"kl_updates": 100}), torch.Generator().manual_seed(0)

    def batch(number):
        sources, modes = (torch.randint(0, size, (number,), generator=random).tolist() for size in (2, 2))
        pairs = zip(sources, modes, strict=True)
        return batch_of([[2 + source] for source in sources], [[2 + 2 * source + mode] * 4 for source, mode in pairs])

    optimizer = torch.optim.Adam(model.train().parameters(), 0.01)
    for _ in range(120):
        loss, stats, _ = model(**batch(16))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    test = batch(64)
    with torch.no_grad():
        encoded = model.eval().encode(test["src_text"], test["src_text_lengths"])
        _, stats, _ = model(**test)
    assert stats["acc_posterior"] > 0.8  # without knowing the mode it is 0.5
    first = (2 * test["src_text"][:, 0] - 2).tolist()
    for beam_size in (1, 3):
        found = OnePassSearch(model.decoder, model.eos)(*encoded, SearchOptions(beam_size=beam_size))
        right = sum(best[0].tokens in ([x] * 4, [x + 1] * 4) for best, x in zip(found, first, strict=True))
        assert right >= 58, f"{right} of 64 with {beam_size} lengths"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"decoder": "diverse_transformer", "decoder_conf": {}}, r"model flow has no use for decoder Diverse.*; set"),
        ({"model": "diverse", "model_conf": {}}, r"decoder flow does not fit model diverse; set model: flow"),
        ({"model_conf": {"kl_updates": -1}}, r"kl_updates must be at least 0, but is -1"),
        ({"model_conf": {"kl_updates": "x"}}, r"kl_updates must be a number, but is 'x'"),
        ({"decoder_conf": {"start_tag": {}}}, r"start_tag"),
    ],
)
def test_invalid_or_incompatible_options_are_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        build(**changes)


def test_only_text_translation_has_it():
    from espnet2.tasks import asr, mt

    assert "flow" in mt.decoder_choices.classes and "flow" in mt.model_choices.classes
    assert "flow" not in asr.decoder_choices.classes and "flow" not in asr.model_choices.classes
