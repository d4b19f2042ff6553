from types import SimpleNamespace

import pytest
import torch

from espnet_diverse.functional.precision import in_autocast, in_full_precision, without_tf32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype):
    assert in_full_precision(torch.ones(2, dtype=dtype)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool])
def test_anything_else_stays_as_it_is(dtype):
    x = torch.ones(2, dtype=dtype)
    assert in_full_precision(x) is x


def test_autocast_converts_float32_and_keeps_float64():
    single, double = torch.ones(2), torch.ones(2, dtype=torch.float64)
    assert in_autocast(single) is single
    with torch.autocast("cpu", torch.bfloat16):
        assert (in_autocast(single).dtype, in_autocast(double).dtype) == (torch.bfloat16, torch.float64)


@pytest.fixture
def matmul():
    """The settings of products on a GPU, with TF32 on."""
    settings = torch.backends.cuda.matmul
    before, settings.fp32_precision = settings.fp32_precision, "tf32"
    yield settings
    settings.fp32_precision = before


@pytest.mark.parametrize(("is_cuda", "inside"), [(True, "ieee"), (False, "tf32")])
def test_tf32_is_off_on_a_gpu_while_the_block_runs(matmul, is_cuda, inside):
    with pytest.raises(ZeroDivisionError), without_tf32(SimpleNamespace(is_cuda=is_cuda)):
        assert matmul.fp32_precision == inside
        raise ZeroDivisionError
    assert matmul.fp32_precision == "tf32"
