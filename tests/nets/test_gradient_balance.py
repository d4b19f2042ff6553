import pytest
import torch
from torch import nn

from espnet_diverse.attention import build_attention
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.encoder import DiverseTransformerEncoder
from espnet_diverse.nets.gradient_balance import STRONG, gradient_ratios, shared_matrices
from espnet_diverse.nets.models import Diverse
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import Step, current, scope
from espnet_diverse.training.loop.diagnosis import findings, monitored_parts


class Plain(nn.Module):
    """Stands in for a model of ESPnet: a task whose gradient has norm 5, and a loss of SDMA's kind."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, 2.0]]))

    def forward(self, slope):
        current().add_loss("kl", 0.5 * (slope * self.weight).sum())
        current().add_loss("constant", torch.tensor(7.0))
        loss = (torch.tensor([[3.0, 4.0]]) * self.weight).sum()[None]
        return loss, {"loss": loss.detach()}, torch.tensor([2])


class DiversePlain(Diverse, Plain):
    pass


SLOPE = torch.tensor([6.0, 8.0])


def ratios_of(model, accumulated, optimizer, slopes):
    """The ratio that each batch reports, or None, with an update after each `accumulated` batches."""
    seen = []
    for number, slope in enumerate(slopes, start=1):
        step = Step((number - 1) // accumulated, number - 1, (number - 1) % accumulated == 0)
        with scope(step=step):
            loss, stats, _ = model(slope * SLOPE)
        loss.backward()
        if number % accumulated == 0:
            optimizer.step()
        seen.append(stats["gradient_kl"].item() if "gradient_kl" in stats else None)
        assert ("gradient_constant" in stats) == ("gradient_kl" in stats)
    return seen


@pytest.mark.parametrize("accumulated", [1, 3])
def test_ratios_come_from_the_first_batch_after_a_number_of_updates(accumulated):
    model = DiversePlain(balance_interval=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = ratios_of(model, accumulated, optimizer, [1, 2, 3, 4, 5, 6] * accumulated)
    measured = [number for number, ratio in enumerate(seen) if ratio is not None]
    assert measured == [0, 2 * accumulated, 4 * accumulated]
    slopes = [1, 2, 3, 4, 5, 6] * accumulated
    assert [seen[number] for number in measured] == pytest.approx([slopes[number] for number in measured])


def measures(model):
    with scope(step=Step(0, 0)):
        return "gradient_kl" in model(SLOPE)[1]


def test_nothing_is_measured_without_an_interval_a_step_or_gradients_or_in_evaluation():
    assert measures(DiversePlain()) and "gradient_kl" not in DiversePlain()(SLOPE)[1]
    assert not measures(DiversePlain(balance_interval=0))
    assert not measures(DiversePlain().eval())
    with torch.no_grad():
        assert not measures(DiversePlain())
    compiled = DiversePlain()
    compiled.layer = nn.Linear(1, 1)
    compiled.layer.compile(backend="eager")
    assert not measures(compiled)


@pytest.mark.parametrize("interval", [-1, 2.5])
def test_an_interval_is_a_whole_number(interval):
    with pytest.raises(ConfigError, match=f"balance_interval must be .* but is {interval}"):
        DiversePlain(balance_interval=interval)


def test_measuring_changes_no_gradient():
    gradients = []
    for interval in (0, 1):
        model = DiversePlain(balance_interval=interval)
        with scope(step=Step(0, 0)):
            loss, stats, _ = model(SLOPE)
        assert ("gradient_kl" in stats) == (interval == 1)
        loss.backward()
        gradients.append(model.weight.grad)
    assert torch.equal(*gradients)


def test_measuring_changes_no_gradient_of_sdma():
    torch.manual_seed(0)
    attention = build_attention("sdma", 16, 4, noise_std=0.0)
    x = torch.randn(2, 5, 16)
    gradients = []
    for measured in (False, True):
        attention.zero_grad()
        with scope() as shared:
            task = attention(x, x, x, None).square().sum()
        if measured:
            ratios = gradient_ratios(attention, task, shared.losses())
            assert set(ratios) == {"kl_z", "diversity_z", "kl_q", "diversity_q", "head_mi", "query_mi"}
            assert ratios["head_mi"] > 0
        (task + shared.total_loss()).backward()
        gradients.append([parameter.grad.clone() for parameter in attention.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def matrices(module):
    return dict(zip(map(id, (found := shared_matrices(module))[1]), found[0], strict=True))


def test_matrices_of_cores_and_vectors_are_not_shared():
    attention = build_attention("sdma", 16, 4)
    attention.linear_v.requires_grad_(False)
    names = ["linear_q", "linear_k", "linear_out"]
    assert matrices(attention) == {id(getattr(attention, name).weight): f"{name}.weight" for name in names}


def test_matrices_of_memories_are_not_shared_and_layers_have_one_kind():
    net = DiverseTransformerEncoder(20, output_size=8, attention_heads=2, num_blocks=2, memory={"kind": "cdt"})
    shared = matrices(net)
    assert set(shared) == {id(p) for name, p in net.named_parameters() if ".memory." not in name and p.dim() > 1}
    assert {shared[id(layer.self_attn.linear_q.weight)] for layer in net.encoders} == {"linear_q.weight"}
    assert len(set(shared.values())) < len(shared)


class TwoLayers(nn.Module):
    """Two layers of two matrices, and an output layer that no auxiliary loss reaches."""

    def __init__(self):
        super().__init__()
        pairs = ({"q": nn.Linear(4, 4), "v": nn.Linear(4, 4)} for _ in range(2))
        self.layers = nn.ModuleList(nn.ModuleDict(pair) for pair in pairs)
        self.out = nn.Linear(4, 100)
        self.still, self.alone = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.ones(2, 2))

    def losses(self, x):
        """The task's loss, and auxiliary losses: of both layers, of the first, of a matrix alone, of a still one."""
        tensors = []
        for layer in self.layers:
            tensors.append(layer["q"](x))
            x = x + tensors[-1] * layer["v"](x)
        task = self.out(x).square().sum() + 0 * self.still.sum()
        both = tensors[0].pow(3).sum() + tensors[1].abs().sum()
        return task, {"both": both, "first": tensors[0].pow(4).sum()} | {
            "alone": self.alone.square().sum(),
            "still": self.still.sum(),
            "constant": torch.tensor(7.0),
        }


def test_the_ratio_is_of_the_matrices_on_which_a_loss_is_strongest():
    """Against norms by hand: the task's in the matrices that a loss reaches, of one kind in all layers, no others."""
    torch.manual_seed(0)
    model = TwoLayers()
    task, auxiliary = model.losses(torch.randn(3, 4))
    ratios = gradient_ratios(model, task, auxiliary)
    (q0, v0), (q1, _) = [(layer["q"].weight, layer["v"].weight) for layer in model.layers]

    def norm(loss, *parameters):
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, retain_graph=True)]).norm()

    of_q, of_v = ([norm(loss, *of) for loss in (auxiliary["both"], task)] for of in ((q0, q1), (v0,)))
    torch.testing.assert_close(ratios["both"], torch.stack([of_q[0] / of_q[1], of_v[0] / of_v[1]]).max())
    torch.testing.assert_close(ratios["first"], norm(auxiliary["first"], q0) / norm(task, q0))
    assert ratios["alone"] == ratios["still"] == ratios["constant"] == 0


def text_model(factor):
    """Text translation with SDMA everywhere and the weights of losses/sdma_text_half, as it begins training."""
    tokens = ["<blank>", "<unk>", *(f"w{number}" for number in range(97)), "<sos/eos>"]
    paper = {"core": "sdma", "n_clusters_z": 4, "n_clusters_q": 4}
    paper |= {"lambda_k": 0.01, "lambda_q": 50.0, "lambda_x": 5.0, "lambda_d": 1.0}
    size = {"attention_heads": 4, "linear_units": 128, "num_blocks": 2, "normalize_before": True, "attention": paper}
    parser = TASKS["mt"].get_parser()
    parser.set_defaults(
        **{"token_list": tokens, "src_token_list": tokens, "frontend": "embed", "frontend_conf": {"embed_dim": 64}},
        **{"encoder": "diverse_transformer", "encoder_conf": size | {"output_size": 64, "input_layer": None}},
        **{"decoder": "diverse_transformer", "decoder_conf": size | {"cross_attention": paper}, "model": "diverse"},
        model_conf={"length_normalized_loss": True, "lsm_weight": 0.1, "auxiliary_factor": factor},
    )
    torch.manual_seed(0)
    return TASKS["mt"].build_model(parser.parse_args([]))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_warns_of_losses_as_strong_as_they_once_were_and_not_at_the_strength_of_the_paper(seed):
    """16.9 target tokens in a sentence were what the losses were too strong by."""
    strongest, warned = {}, {}
    for factor in (1.0, 16.9):
        model = text_model(factor)
        random = torch.Generator().manual_seed(seed)
        lengths = torch.randint(8, 25, (16,), generator=random)
        text = torch.randint(2, 99, (16, int(lengths.max())), generator=random)
        text[torch.arange(text.size(1)) >= lengths[:, None]] = -1
        batch = {name: text.clone() for name in ("text", "src_text")}
        torch.manual_seed(seed)
        with scope(step=Step(0, 0)):
            stats = model(**batch, text_lengths=lengths, src_text_lengths=lengths.clone())[1]
        ratios = {name: float(value) for name, value in stats.items() if name.startswith("gradient_")}
        strongest[factor], warned[factor] = max(ratios.values()), findings(ratios, monitored_parts(model))
    assert strongest[1.0] < STRONG / 3 and not warned[1.0], strongest
    assert strongest[16.9] > STRONG and "of the auxiliary loss head_mi is" in warned[16.9][0], strongest
    assert "lower lambda_q or auxiliary_factor" in warned[16.9][0]
    assert strongest[16.9] == pytest.approx(16.9 * strongest[1.0], rel=1e-3)


def test_a_model_without_matrices_has_no_ratios():
    loss = torch.tensor(1.0, requires_grad=True)
    assert gradient_ratios(nn.LayerNorm(3), loss, {"kl": loss}) == {}
