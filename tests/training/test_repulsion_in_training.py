"""Repulsion in updates, in one process and two, and by the command of a user."""

import copy
import socket
from dataclasses import replace
from datetime import timedelta

import pytest
import torch
import yaml
from espnet2.train.reporter import SubReporter
from references import repulsion as oracle
from references.placed_attentions import HEADS, SIZE, Net
from torch import distributed, nn

from espnet_diverse.bin.main import main
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import ASRTask
from espnet_diverse.training.loop import updates
from espnet_diverse.training.loop.ranks import Ranks
from espnet_diverse.training.loop.trainer import Loop, Trainer

TIME, CLIP = 3, 20.0


def batches(number):
    """`number` batches of 4 samples each."""
    return torch.randn(number, 4, TIME, SIZE, generator=torch.Generator().manual_seed(5), dtype=torch.double)


def trained(net, data, count=0, ranks=None, **changes):
    """Train `net` for an epoch with SGD; the trainer has seen `count` batches before."""
    args = ASRTask.get_parser().parse_args([])
    args.output_dir, args.grad_clip = "", CLIP
    args.repulsion = changes.pop("repulsion", None)
    options = replace(Trainer.build_options(args), best_model_criterion=[], **changes)
    loop = Loop(net, [torch.optim.SGD(net.parameters(), lr=0.5)], [None], options, ranks)
    batches = [([f"utterance{i}"], {"x": x}) for i, x in enumerate(data)]
    loop.train_epoch(batches, SubReporter("train", 1, count))
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def by_hand(net, data, alpha=0.5, epsilon=0.1, relative=False, sigma=None, clipped=False):
    """Weights after one step for all `data` at once, by the loops of the oracle."""
    net = copy.deepcopy(net)
    (sum(net.loss(x) for x in data) / len(data)).backward()
    for attention in net.attentions().values():
        for linear in (attention.linear_q, attention.linear_k, attention.linear_v):
            x, grad = (t.detach().view(HEADS, -1).numpy() for t in (linear.weight, linear.weight.grad))
            grad = grad if sigma is None else grad + x / sigma**2
            phi = oracle.svgd(x, grad, alpha, "paper", relative)
            linear.weight.grad = torch.tensor(-epsilon * phi).view_as(linear.weight)
    assert (nn.utils.clip_grad_norm_(net.parameters(), CLIP) > CLIP) == clipped
    torch.optim.SGD(net.parameters(), lr=0.5).step()
    return net.state_dict()


def close(ours, expected):
    assert ours.keys() == expected.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-12, msg=lambda text, name=name: name + text)


@pytest.mark.parametrize("accum", [1, 2])
@pytest.mark.parametrize(
    ("section", "changed"),
    [
        ({"alpha": 0.5}, {}),
        ({"alpha": 0.5, "alpha_mode": "relative"}, {"relative": True}),
        ({"alpha": 900.0, "prior": "gaussian", "sigma": 0.5}, {"alpha": 900.0, "sigma": 0.5, "clipped": True}),
    ],
    ids=["absolute", "relative", "clipped"],
)
def test_an_update_is_the_formula(section, changed, accum):
    """Repel, clip, step: with gradients of `accum` batches."""
    net, data = Net(), 3 * batches(accum)
    expected = by_hand(net, data, **changed)
    close(trained(net, data, accum_grad=accum, repulsion={"epsilon": 0.1} | section), expected)


@pytest.mark.parametrize("method", ["spos", "sgld"])
def test_noise_is_drawn_once_for_each_step(method):
    """Two batches accumulated, the second of which is the trainer's second, are one batch that is its second."""
    section = {"method": method, "beta": 4.0, "num_data": 10}
    two, one = Net(), Net()
    together = batches(2).flatten(0, 1).unsqueeze(0)
    accumulated = trained(two, batches(2), accum_grad=2, repulsion=section)
    close(accumulated, trained(one, together, count=1, repulsion=section))
    other, weight = trained(Net(), together, count=2, repulsion=section), "encoders.0.self_attn.linear_q.weight"
    assert not torch.equal(other[weight], accumulated[weight])


TWO_PROCESSES = [{"method": method, "alpha": 0.5, "alpha_mode": "relative"} for method in ("svgd", "spos")]


def process(rank, folder, data):
    """One of two processes, with half of the samples of each batch; writes what each method trains."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(minutes=2)
    )
    for section in TWO_PROCESSES:
        net = Net()
        ranks = Ranks(torch.device("cpu"))
        weights = trained(net, data[:, rank::2], ranks=ranks, accum_grad=2, repulsion=section)
        torch.save(weights, folder / f"{section['method']}.{rank}.pth")
    distributed.destroy_process_group()


@pytest.mark.recipes
def test_two_processes_take_the_step_of_one(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", socket.if_nameindex()[0][1])  # the loopback, whatever else is there
    # Spawned: a fork copies the locks that threads of this process hold, and may wait for them without end.
    data = batches(2)
    torch.multiprocessing.start_processes(process, (tmp_path, data), nprocs=2, start_method="spawn")
    for section in TWO_PROCESSES:
        first, second = (torch.load(tmp_path / f"{section['method']}.{rank}.pth") for rank in (0, 1))
        assert all(torch.equal(first[name], second[name]) for name in first)
        close(first, trained(Net(), data, accum_grad=2, repulsion=section))


def test_without_a_method_training_is_plain():
    plain, none = trained(Net(), batches(2)), trained(Net(), batches(2), repulsion={"method": "none", "alpha": 9.0})
    assert all(torch.equal(plain[name], none[name]) for name in plain)


def test_espnets_gradient_noise_is_still_added(monkeypatch):
    added = []

    def noise(model, iteration, **how):
        added.append((iteration, how))

    monkeypatch.setattr(updates, "add_gradient_noise", noise)
    trained(Net(), batches(2), grad_noise=True, repulsion={})
    assert [iteration for iteration, _ in added] == [1, 2] and added[0][1]["duration"] == 100
    trained(Net(), batches(2), repulsion={})
    assert len(added) == 2


def train(run, model_dir, *changes):
    """Train with softmax attention; return the exit code."""
    changes = ["encoder_conf.attention.core=softmax", "decoder_conf.attention.core=softmax", *changes]
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(model_dir)]
    allowed = ["--allow_changed", "max_epoch"]
    return main(["train", *run.config, *run.data(), *paths, *(f"--set={change}" for change in changes), *allowed])


def test_a_repelled_run_continues_as_if_it_had_not_stopped(tiny_translation, tmp_path):
    options = ["repulsion={method: spos, alpha: 1.0, num_data: 1000}", "encoder_conf.attention.disagreement={}"]
    options += ["model_conf.balance_interval=1"]
    assert train(tiny_translation, tmp_path / "resumed", *options, "max_epoch=1") == 0
    assert train(tiny_translation, tmp_path / "resumed", *options) == 0
    assert train(tiny_translation, tmp_path / "straight", *options) == 0
    resumed, straight = (checkpoint.load(tmp_path / name / "2epoch.pth") for name in ("resumed", "straight"))
    assert [name for name in straight if not torch.equal(resumed[name], straight[name])] == []
    config = yaml.safe_load((tmp_path / "straight" / "config.yaml").read_text())
    assert config["repulsion"] == {"method": "spos", "alpha": 1.0, "num_data": 1000} and config["grad_noise"] is False
    stats = checkpoint.load(tmp_path / "straight" / "checkpoint.pth")["reporter"]["stats"][2]["train"]
    assert stats["aux_disagreement"] > 0 and stats["gradient_disagreement"] > 0


def test_an_unknown_option_is_refused_with_its_origin(tiny_translation, tmp_path, capfd):
    assert train(tiny_translation, tmp_path, "repulsion={method: svgd}", "repulsion.alpa=1") == 1
    said = "--set=repulsion.alpa=1: unknown option 'repulsion.alpa'; did you mean 'alpha'?"
    assert said.replace("--set=", "--set ") in capfd.readouterr().err
