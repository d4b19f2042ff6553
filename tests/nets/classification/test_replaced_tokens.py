"""Replaced-token pretraining against loops, the drawn positions, gradients, options."""

import math

import pytest
import torch

from espnet_diverse.nets.classification.replaced_tokens import MASK, ReplacementDetector, choose_positions
from espnet_diverse.nets.models import DiverseReplacedTokenModel
from espnet_diverse.option_checks import OptionError
from espnet_diverse.training.loop.halved_batch import in_halves

SIZE = {"output_size": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 1, "dropout_rate": 0.0}
SIZE |= {"positional_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
TEXTS, LENGTHS = torch.tensor([[3, 4, 0, 0, 0, 0], [5, 6, 7, 8, 2, 3], [2, 2, 2, 0, 0, 0]]), torch.tensor([2, 6, 3])


def build(**options):
    torch.manual_seed(0)
    detector = ReplacementDetector(9, by=["domain"], conditions={"domain": ["0", "1"]}, **SIZE)
    return DiverseReplacedTokenModel(detector, generator={"dropout_rate": 0.0}, **options).double().eval()


@torch.no_grad()
def test_losses_equal_loops_over_single_texts():
    model, draw = build(mask_rate=0.3, weight=7.0), torch.Generator().manual_seed(0)
    loss, stats, weight = model(TEXTS, LENGTHS)
    chosen = choose_positions(LENGTHS, 6, 0.3, draw)
    masked, distributions, originals = TEXTS.masked_fill(chosen, MASK), [], []
    for text, length, own in zip(masked, LENGTHS.tolist(), chosen, strict=True):
        embedded = model.classifier.embed(text[None, :length])
        states = model.generator.encoder(embedded, torch.tensor([length]))[0][0]
        for i in range(length):
            if own[i]:
                distributions.append(model.classifier.embed.weight @ model.generator.output(states[i]))
                distributions[-1] = (distributions[-1] + model.generator.bias).softmax(0)
    originals = TEXTS[chosen].tolist()
    expected = sum(-math.log(p[x]) for p, x in zip(distributions, originals, strict=True)) / len(originals)
    assert float(stats["loss_mlm"]) == pytest.approx(expected)
    corrupted = TEXTS.clone()
    corrupted[chosen] = torch.multinomial(torch.stack(distributions).float(), 1, generator=draw).squeeze(1)
    terms = []
    for text, original, length in zip(corrupted, TEXTS, LENGTHS.tolist(), strict=True):
        scores = model.classifier(text[None, :length], torch.tensor([length]))[0]
        for i in range(length):
            p = 1 / (1 + math.exp(-scores[i]))
            terms.append(-math.log(p if text[i] != original[i] else 1 - p))
    assert len(terms) == 11 and (corrupted != TEXTS).any()
    assert float(stats["loss_replaced"]) == pytest.approx(sum(terms) / 11)
    assert float(loss) == pytest.approx(expected + 7 * sum(terms) / 11) and float(weight) == 3
    assert float(model(TEXTS, LENGTHS)[0]) == float(loss)  # evaluation draws with a fixed seed


def test_halves_of_a_batch_have_its_gradients(monkeypatch):
    """With drawn positions and tokens that do not depend on the batch."""
    first = "espnet_diverse.nets.classification.replaced_tokens.choose_positions"
    monkeypatch.setattr(
        first, lambda lengths, time, *_: torch.arange(time) < lengths[:, None].div(2, rounding_mode="floor")
    )
    model = build()
    model.generator.bias.data[5] = 200
    gradients = []
    for output in (model(TEXTS, LENGTHS), in_halves(model, {"text": TEXTS, "text_lengths": LENGTHS}, True)):
        model.zero_grad()
        output[0].sum().backward()
        gradients.append(torch.cat([each.grad.flatten() for each in model.classifier.encoder.parameters()]))
    torch.testing.assert_close(*gradients)


@torch.no_grad()
@pytest.mark.parametrize("position", ["absolute", "rotary", "alibi"])
def test_the_generator_reads_positions(position):
    """In another order, tokens have other scores: each follows from its position, too."""
    torch.manual_seed(0)
    attention = {} if position == "absolute" else {"attention": {"core": "softmax", "position": position}}
    detector = ReplacementDetector(9, **SIZE | {"output_size": 64, "linear_units": 64})
    generator = DiverseReplacedTokenModel(detector, generator=attention).eval().generator
    text, order = torch.tensor([[2, 3, 4, 5, 6, 7]]), torch.tensor([3, 0, 5, 1, 4, 2])
    every, lengths = torch.ones(1, 6, dtype=torch.bool), torch.tensor([6])
    scores, moved = (generator(tokens, lengths, detector.embed, every) for tokens in (text, text[:, order]))
    assert not torch.isclose(scores[order], moved, rtol=1e-3).all(-1).any()


def test_convolutions_between_positions():
    detector = ReplacementDetector(9, **SIZE | {"positionwise_layer_type": "conv1d"})
    model = DiverseReplacedTokenModel(detector, generator={"positionwise_layer_type": "conv1d"})
    assert torch.isfinite(model(TEXTS, LENGTHS)[0])


def test_an_untrained_generator_guesses():
    torch.manual_seed(0)
    detector = ReplacementDetector(500, output_size=64, attention_heads=4, linear_units=64, num_blocks=2)
    _, stats, _ = DiverseReplacedTokenModel(detector)(torch.randint(1, 500, (20, 30)), torch.full((20,), 30))
    assert float(stats["loss_mlm"]) == pytest.approx(math.log(500), rel=0.1)


def test_a_share_of_the_positions_of_each_text_is_drawn():
    lengths = torch.tensor([1, 7, 20, 13])
    drawn = torch.stack([choose_positions(lengths, 20, 0.15) for _ in range(600)])
    assert drawn.sum(2).unique(dim=0).tolist() == [[1, 2, 3, 2]]  # ceil(0.15 n)
    for row, length in enumerate(lengths.tolist()):
        rate = drawn[:, row].double().mean(0)
        assert rate[length:].sum() == 0
        torch.testing.assert_close(
            rate[:length], torch.full((length,), float(rate.sum()) / length).double(), atol=0.08, rtol=0
        )


def test_a_right_guess_counts_as_original(monkeypatch):
    model = build()
    given = TEXTS[choose_positions(LENGTHS, 6, 0.15, torch.Generator().manual_seed(0))]
    monkeypatch.setattr(torch, "multinomial", lambda *_, **__: given.unsqueeze(1))
    stats = model(TEXTS, LENGTHS)[1]
    valid = torch.arange(6) < LENGTHS.unsqueeze(1)
    expected = torch.nn.functional.softplus(model.classifier(TEXTS, LENGTHS))[valid].mean()
    torch.testing.assert_close(stats["loss_replaced"].squeeze(), expected.detach())
    assert float(stats["detected"]) == 0


def test_the_generator_learns_from_its_own_loss_alone_and_all_parameters_learn():
    gradients = []
    for weight in (0.0, 50.0):
        model = build(weight=weight)
        model(TEXTS, LENGTHS)[0].sum().backward()
        gradients.append(model.generator.bias.grad)
    assert torch.equal(*gradients) and gradients[0].abs().sum() > 0
    assert all(each.grad.abs().sum() > 0 for name, each in model.named_parameters() if "linear_k.bias" not in name)


def test_the_generator_is_a_quarter_as_wide_unless_options_say_otherwise():
    torch.manual_seed(0)
    detector = ReplacementDetector(9, output_size=32, attention_heads=8, linear_units=40, num_blocks=2)
    model = DiverseReplacedTokenModel(detector, generator={"num_blocks": 1})
    layer = model.generator.encoder.encoders[0]
    assert (layer.size, layer.self_attn.h, layer.feed_forward.w_1.out_features) == (8, 2, 10)
    assert len(model.generator.encoder.encoders) == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mask_rate": 0.0}, "mask_rate must be above 0 and below 1, but is 0.0"),
        ({"weight": -1}, "weight must be at least 0, but is -1"),
    ],
)
def test_invalid_options_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        build(**options)
