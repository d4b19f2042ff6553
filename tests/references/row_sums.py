"""Matrix products whose order of summation depends on the number of rows, as it does on some CPUs.

MKL and oneDNN choose a kernel by the shapes of its operands, and which shapes share a kernel differs between CPUs. On
one CPU an utterance may give the same last digits alone and in a batch, on another it does not. Here every number of
rows has its own order, so a claim of exact equality that holds under `row_sums` needs no luck: the same shapes reached
the same kernels.

    with row_sums(): ...              a part of a test
    pytest --row-sums tests/decoding  a whole run (without the processes that it starts again)
"""

import contextlib
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

_mm, _bmm = torch.ops.aten.mm.out, torch.ops.aten.bmm.out  # which are not replaced


def _place(rows: int, length: int) -> int:
    """Where a sum of `length` products is cut in two; 0 where there is nothing to cut."""
    return 1 + rows * 7919 % (length - 1) if length > 1 and rows else 0


def _product(multiply, a: Tensor, b: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum of the products of two parts of the inner dimension; operands (..., N, K) and (..., K, M)."""
    place = _place(a.numel() // max(a.size(-1), 1), a.size(-1))
    parts = [(a, b)] if not place else [(a[..., :place], b[..., :place, :]), (a[..., place:], b[..., place:, :])]
    first, *second = [multiply(x, y, out=a.new_empty(shape)) for x, y in parts]
    return first + second[0] if second else first


def _matrices(a: Tensor, b: Tensor) -> Tensor:
    return _product(_mm, a, b, (a.size(0), b.size(1)))


def _batches(a: Tensor, b: Tensor) -> Tensor:
    return _product(_bmm, a, b, (a.size(0), a.size(1), b.size(2)))


def _scaled(bias: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    product = product if alpha == 1 else alpha * product
    return product if beta == 0 else product + (bias if beta == 1 else beta * bias)


def _added(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _scaled(bias, _matrices(a, b), beta, alpha)


def _batches_added(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _scaled(bias, _batches(a, b), beta, alpha)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, attr: str, scalars: list, algorithm: str | None) -> Tensor:
    """oneDNN's linear map; `attr` is "none" or "relu" in this package."""
    assert attr in ("none", "relu"), attr
    weight = weight.to_dense() if weight.is_mkldnn else weight
    y = _matrices(x.reshape(-1, x.size(-1)), weight.t())
    y = (y if bias is None else y + bias).reshape(*x.shape[:-1], weight.size(0))
    return y.relu() if attr == "relu" else y


_REPLACED = {"mm": _matrices, "bmm": _batches, "addmm": _added, "baddbmm": _batches_added}


def _replace() -> list[torch.library.Library]:
    libraries = [torch.library.Library("aten", "IMPL"), torch.library.Library("mkldnn", "IMPL")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced
        for name, function in _REPLACED.items():
            libraries[0].impl(name, function, "CPU", allow_override=True)
        for key in ("CPU", "MkldnnCPU"):
            libraries[1].impl("_linear_pointwise", _linear, key, allow_override=True)
    return libraries


@contextlib.contextmanager
def row_sums() -> Iterator[None]:
    """Replace PyTorch's matrix products on the CPU, in all threads and in processes that are forked inside."""
    libraries = _replace()
    try:
        yield
    finally:
        for library in libraries:
            library._destroy()


@pytest.fixture
def other_sums() -> Iterator[None]:
    """`row_sums` for one test."""
    with row_sums():
        yield


@pytest.fixture(params=[False, True], ids=["sums of this CPU", "row sums"])
def any_sums(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test runs with the sums of this CPU and with `row_sums`."""
    with row_sums() if request.param else contextlib.nullcontext():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--row-sums", action="store_true", help="order of summation depends on the number of rows")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--row-sums"):
        config.row_sums = _replace()
