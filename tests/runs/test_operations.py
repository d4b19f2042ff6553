"""Counts: known operations, bytes and peaks; they are the same with and without fused attention."""

from argparse import Namespace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from espnet_diverse.attention.build import build_attention
from espnet_diverse.attention.registry import CORES
from espnet_diverse.runs.operations import Counter, Counts, forward_counts, resident
from espnet_diverse.runs.tasks import TASKS, load_model, read_config

B, T, M = 2, 48, 16


def counted(compute):
    with Counter() as counter:
        compute()
    return counter.counts()


def attend(core, gradient=False):
    torch.manual_seed(0)
    attention, x = build_attention(core, M, 2), torch.randn(B, T, M, requires_grad=gradient)
    mask = torch.ones(B, 1, T, dtype=torch.bool)

    def compute():
        out = attention(x, x, x, mask)
        if gradient:
            out.sum().backward()

    return compute


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_softmax_attention_has_the_products_of_its_equation(backend):
    with sdpa_kernel(backend):
        forward, both = counted(attend("softmax")), counted(attend("softmax", gradient=True))
    assert forward.products == 4 * 2 * B * T * M * M + 2 * 2 * B * T * T * M
    fused = backend == SDPBackend.FLASH_ATTENTION  # its backward pass computes the scores again
    assert both.products == 3 * 4 * 2 * B * T * M * M + (2 + 4 + fused) * 2 * B * T * T * M


@pytest.mark.parametrize("core", sorted(CORES))
def test_every_core_is_counted(core):
    found = counted(attend(core))
    assert found.products > 2 * B * T * M * M and found.elements > 0
    assert found.flops == found.products + found.elements
    assert found.traffic > 4 * found.peak / 2 > 0


def test_what_is_no_product_is_counted_by_elements():
    x = torch.ones(3, 100)
    assert counted(lambda: x.cumsum(1)) == Counts(0, 300, 2 * 1200, 1, 1200)
    assert counted(lambda: x.sum()).elements == 300  # what is read, not the one element that is made
    assert counted(lambda: x.view(100, 3).t()) == Counts()
    assert counted(lambda: x.add_(1)) == Counts(0, 300, 2 * 1200, 1, 0)
    assert counted(lambda: x[:, :1].expand(3, 100).sum()).traffic == 1200 + 4  # an expanded tensor: read once


def test_the_peak_is_of_tensors_that_live_at_the_same_time():
    def compute():
        first = torch.zeros(1000)
        second = first + 1
        del first
        return second.view(10, 100) + torch.zeros(500).sum()

    assert counted(compute).peak == 4 * (1000 + 1000 + 1)


def test_resident_tensors_count_once():
    weight = torch.zeros(10)
    assert resident([weight, {"tied": weight.view(5, 2)}, "text"], torch.zeros(1)) == 44


def test_counts_are_added():
    assert Counts(10, 0, 4, 7, 1).plus(Counts(6, 1, 0, 0, 2), 0.5) == Counts(13, 0.5, 4, 7, 2)


@pytest.mark.parametrize("run", ["tiny_run", "tiny_translation", "tiny_autoencoder", "tiny_classifier"])
def test_an_example_of_every_task_is_counted(run, request):
    folder = request.getfixturevalue(run).model_dir
    config = read_config(folder / "config.yaml")
    model = TASKS[config["task"]].build_whole_model(Namespace(**config))
    found = forward_counts(model, config)
    assert found.products > 1e4 and found.peak > 4e3
    loaded, _ = load_model(folder, task=config["task"])
    assert forward_counts(loaded, config).products == found.products
