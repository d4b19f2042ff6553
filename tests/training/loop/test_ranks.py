"""Collective operations, in two forks of this process that meet by a file."""

import multiprocessing
from types import SimpleNamespace

import pytest
import torch

from espnet_diverse.attention import build_attention
from espnet_diverse.training.loop.ranks import Ranks, parallel


def in_two(function, folder):
    """What `function(ranks)` returns in each of two processes."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def process(rank):
        torch.set_num_threads(1)
        store = f"file://{folder}/store"
        torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        queue.put((rank, function(Ranks(torch.device("cpu")))))
        torch.distributed.destroy_process_group()

    processes = [context.Process(target=process, args=(rank,)) for rank in range(2)]
    for each in processes:
        each.start()
    found = dict(queue.get(timeout=60) for _ in processes)
    for each in processes:
        each.join(60)
    return found[0], found[1]


def test_a_process_alone_agrees_with_itself():
    ranks = Ranks()
    assert (ranks.own, ranks.count, ranks.alone) == (0, 1, True)
    assert (ranks.largest(15), ranks.total(2**62), ranks.gathered("a")) == (15, 2**62, ["a"])


def test_two_processes_agree(tmp_path):
    def talk(ranks):
        return ranks.own, ranks.count, ranks.alone, ranks.largest(15 * ranks.own), ranks.total(2**61 + ranks.own)

    assert in_two(talk, tmp_path) == ((0, 2, False, 15, 2**62 + 1), (1, 2, False, 15, 2**62 + 1))


@pytest.mark.parametrize("values", [(["a"], ["b" * 5000]), ([], {"x": (1, None)})])
def test_values_of_different_sizes_are_gathered(tmp_path, values):
    gathered = in_two(lambda ranks: ranks.gathered(values[ranks.own]), tmp_path)
    assert gathered == (list(values), list(values))


def test_several_processes_train_heads_that_all_have_one_key(tmp_path):
    options = SimpleNamespace(ngpu=0, unused_parameters=False, gradient_as_bucket_view=False, ddp_comm_hook=None)

    def train(ranks):
        torch.manual_seed(0)
        module = build_attention("softmax", 8, 4, head_patterns=["previous", "next", "start", "end"])
        model, optimizer = parallel(module, ranks, options), torch.optim.SGD(module.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.randn(2, 5, 8) + ranks.own
            model(x, x, x).square().mean().backward()
            optimizer.step()
        return [parameter.tolist() for parameter in module.parameters()]

    first, second = in_two(train, tmp_path)
    assert first == second


def test_the_norm_before_heads_that_all_have_one_key_has_a_gradient():
    module, norm = build_attention("softmax", 8, 4, head_patterns=["end"]), torch.nn.LayerNorm(8)
    source = torch.randn(2, 5, 8)
    module(norm(torch.randn(2, 3, 8)), source, source).sum().backward()  # as cross-attention, whose values are others
    assert [parameter.grad.abs().max().item() for parameter in norm.parameters()] == [0, 0]
