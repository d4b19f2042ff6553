"""Halves of a batch give its loss, statistics and gradients."""

import pytest
import torch

from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import Step, scope
from espnet_diverse.training.loop.halved_batch import Halvable, in_halves

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos/eos>"]
PLAIN = {"dropout_rate": 0.0, "positional_dropout_rate": 0.0}
ENCODER = PLAIN | {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1}
ENCODER |= {"attention_dropout_rate": 0.0, "attention": {"core": "sdma", "noise_std": 0.0}}
DECODER = PLAIN | {"attention_heads": 2, "linear_units": 8, "num_blocks": 1}
DECODER |= {"self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0}
LENGTHS = torch.tensor([5, 3, 1])


def build(task, **options):
    parser = TASKS[task].get_parser()
    parser.set_defaults(**{"token_list": TOKENS, "model": "diverse", "specaug": None} | options)
    torch.manual_seed(0)
    return TASKS[task].build_model(parser.parse_args([])).double().train()


def nets(**options):
    return {"encoder": "diverse_transformer", "decoder": "diverse_transformer", "decoder_conf": DECODER, **options}


def recogniser(**model_conf):
    conf = {"encoder_conf": ENCODER, "frontend_conf": {"n_mels": 16}, "normalize": None}
    return build("asr", **nets(**conf), model_conf=model_conf)


def translator(**model_conf):
    conf = {"encoder_conf": ENCODER | {"input_layer": None}, "src_token_list": TOKENS, "frontend": "embed"}
    frontend = {"embed_dim": 8, "positional_dropout_rate": 0.0}
    return build("mt", **nets(**conf, frontend_conf=frontend), model_conf=model_conf)


def language_model():
    lm_conf = {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 8, "layer": 1, "attention_dropout_rate": 0.0} | PLAIN
    return build("lm", lm="diverse_transformer", lm_conf=lm_conf)


def batch_of(model, lengths=LENGTHS):
    torch.manual_seed(1)
    text = torch.randint(2, 4, (len(lengths), int(lengths.max())))
    for row, length in enumerate(lengths):
        text[row, length:] = 0 if "Language" in type(model).__name__ else -1
    batch = {"text": text, "text_lengths": lengths}
    if hasattr(model, "src_vocab_size"):
        return batch | {"src_text": text, "src_text_lengths": lengths}
    if not hasattr(model, "lm"):
        samples = torch.full_like(lengths, 8000)  # features depend on the padding of the batch
        batch |= {"speech": torch.randn(len(lengths), 8000, dtype=torch.float64), "speech_lengths": samples}
    return batch | {"utt_id": [f"u{row}" for row in range(len(lengths))]} if hasattr(model, "ctc") else batch


MODELS = {
    "losses per sentence": recogniser,
    "CTC per sentence and attention per token": lambda: recogniser(length_normalized_loss=True),
    "translation per token": lambda: translator(length_normalized_loss=True),
    "a language model": language_model,
}


def results(model, output):
    loss, stats, weight = output
    model.zero_grad()
    (2 * loss).sum().backward()  # as a batch of several
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**gradients, **{f"stats {name}": value for name, value in stats.items()}, "loss": loss, "weight": weight}


@pytest.mark.parametrize("kind", MODELS)
def test_halves_are_the_whole(kind):
    model = MODELS[kind]()
    batch = batch_of(model)
    with scope(step=Step(0, 0)):
        whole = results(model, Halvable(model)(batch))
        model, calls = MODELS[kind](), []
        model.register_forward_hook(lambda *_: calls.append(1))
        halves = results(model, Halvable(model)(batch, halved=True))
    assert len(calls) > 1
    assert halves.keys() == whole.keys() and len(whole) > 20
    measured = {
        name for name in whole if name.startswith(("stats gradient_", "stats clusters", "stats collapsed", "stats acc"))
    }
    for name in whole.keys() - measured:  # which are no means over sentences
        if whole[name] is None:
            assert halves[name] is None
            continue
        same = halves[name].reshape(-1).double(), whole[name].detach().reshape(-1).double()
        torch.testing.assert_close(*same, rtol=1e-5, atol=1e-7, msg=lambda said, name=name: f"{name}: {said}")


class Shared(torch.nn.Module):
    """A model in which two parameters have one tensor as their gradient, and a third has none."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))

    def forward(self, x):
        loss = ((self.a + self.b) * x).sum(dim=1).mean()[None]
        return loss, {"loss": loss.detach(), "acc": None}, torch.tensor([len(x)])


def test_gradients_that_are_one_tensor_stay_apart():
    model, batch = Shared(), {"x": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])}
    (3 * in_halves(model, batch, alone=True)[0]).backward()
    assert model.a.grad.tolist() == model.b.grad.tolist() == [9.0, 12.0] and model.unused.grad is None


def test_halves_in_bfloat16_have_gradients_for_all_parameters():
    """Autocast keeps the weights that it has cast, also those of a pass without gradients."""
    model = recogniser().float()
    batch = {key: x.float() if key == "speech" else x for key, x in batch_of(model).items()}
    with torch.autocast("cpu", torch.bfloat16):
        whole, halves = model(**batch)[0], in_halves(model, batch, alone=True)[0]
    whole_gradients, gradients = (
        torch.autograd.grad(loss, model.parameters(), allow_unused=True) for loss in (whole, halves)
    )
    for (name, _), one, other in zip(model.named_parameters(), whole_gradients, gradients, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            assert (one - other).norm() <= 0.1 * one.norm() + 1e-3, name
