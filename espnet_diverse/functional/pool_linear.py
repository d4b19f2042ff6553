"""Linear maps of heads that each sample selects from a pool, without gathering the heads' weights.

    y_bh = x_b W_p^T + b_p    for head p = picks_bh

A gathered copy of the weights would be larger than the input of a short sequence, and its gradient as well. Here every
product reads the weights of one head where they are, and adds their gradient there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from espnet_diverse.functional.precision import in_autocast


class Product(NamedTuple):
    """A product of one head's weights with the inputs of some samples.

    Attributes:
        head: Index of the head in the pool.
        samples: Index of one sample, or indices of n samples (n,).
        places: Where the results belong: for place h of sample b, b * H + h; one index, or (n,).
    """

    head: int
    samples: int | Tensor
    places: int | Tensor


def pool_products(picks: Tensor, pool: int, joined: bool) -> list[Product]:
    """Plan the products of `pool_linear`.

    Args:
        picks: Heads of each sample, (B, H) int64.
        pool: Number of heads P in the pool.
        joined: Whether all samples of a head are in one product, which copies their inputs and results; otherwise each
            head of each sample has its own product, without copies.
    """
    heads, flat = picks.size(1), picks.flatten()
    order = flat.argsort(stable=True)
    if joined:
        by_head = enumerate(order.split(flat.bincount(minlength=pool).tolist()))
        return [Product(head, places // heads, places) for head, places in by_head if len(places)]
    of_place = flat.tolist()
    return [Product(of_place[place], place // heads, place) for place in order.tolist()]


def pool_linear(x: Tensor, weight: Tensor, bias: Tensor, products: Sequence[Product]) -> Tensor:
    """Apply to each sample the linear maps of its heads, without gathering their weights.

    Args:
        x: Input (B, T, M).
        weight: Weights of the P heads of the pool, (P, K, M).
        bias: Biases of the P heads, (P, K).
        products: `pool_products` of the heads of the B samples.

    Returns:
        (B, H, T, K).
    """
    return _PoolLinear.apply(*map(in_autocast, (x, weight, bias)), products).unflatten(0, (len(x), -1))


class _PoolLinear(torch.autograd.Function):
    """y_i = x_s W_p^T + b_p at each place i, head p of sample s, (B * H, T, K); sums over the places give gradients.

    The backward pass is differentiable, as it has no operation with `out`.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, products):
        ctx.save_for_backward(x, weight)
        ctx.products = products
        places = sum(1 if isinstance(product.places, int) else len(product.places) for product in products)
        y = x.new_empty(places, x.size(1), weight.size(1))
        for head, samples, at in products:
            rows = torch.addmm(bias[head], _rows(x, samples), weight[head].t())
            if isinstance(at, int):
                y[at] = rows
            else:
                y.index_copy_(0, at, rows.view(-1, *y.shape[1:]))
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        full = torch.promote_types(x.dtype, torch.float32)  # sums of many products would be coarse in half precision
        dx, dweight = (torch.zeros_like(tensor, dtype=full) for tensor in (x, weight))
        dbias = torch.zeros_like(dweight[..., 0])
        for head, samples, at in ctx.products:
            rows = _rows(grad, at)
            _add_product(dweight[head], rows.t(), _rows(x, samples))
            dbias[head].add_(rows.sum(0))
            if isinstance(samples, int):
                _add_product(dx[samples], rows, weight[head])
            else:
                dx.index_add_(0, samples, (rows @ weight[head]).view(-1, *x.shape[1:]).to(full))
        return dx.to(x.dtype), dweight.to(x.dtype), dbias.to(x.dtype), None


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a b to `total`, whose type may be more precise."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total.add_(a @ b)


def _rows(x: Tensor, at: int | Tensor) -> Tensor:
    """Return the rows of one or several of N matrices, (N, T, M) -> (T, M) or (n * T, M)."""
    return x[at] if isinstance(at, int) else x.index_select(0, at).flatten(0, 1)
