"""Every attention of `tests/attention` on a device that only claims to be a GPU, in each of its uses."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch
from gpu_check.device import move
from references.core_variants import SIZE, VARIANTS, fits, make

from espnet_diverse.attention import CORES, KVCache, MultiHeadAttention, Stream, set_updates_of_run
from espnet_diverse.functional.copies import copied
from espnet_diverse.scope import Step, scope

B, T = 2, 8
USES = ("self", "cross", "causal", "relative")
_NEEDED = {"self": "padding", "cross": "cross_attention", "causal": "causal", "relative": "relative_position"}


def attention_cases() -> Iterator[tuple[str, Callable[[], None]]]:
    """Return a name and a function for each attention and use: training in float32 and bfloat16, evaluation."""
    for name in [*CORES, *VARIANTS]:
        for use in USES:
            if fits(name, [_NEEDED[use]]):
                yield f"{name} {use}", lambda name=name, use=use: _in_all_modes(name, use)


def _in_all_modes(name: str, use: str) -> None:
    on_host = make(name, **({} if use == "self" else {use: True})).float()
    module = move(copy.deepcopy(on_host))
    if any(hasattr(part, "share") for part in module.modules()):
        set_updates_of_run(module, 100)
    x, z = torch.randn(B, T, SIZE, device="cuda"), torch.randn(B, T + 3, SIZE, device="cuda")
    key = z if use == "cross" else x
    lengths = copied([key.size(1), key.size(1) - 3], "cuda")
    mask = (torch.arange(key.size(1), device="cuda") < lengths.unsqueeze(1)).unsqueeze(1)
    if use == "causal":
        mask = mask & torch.ones(T, T, dtype=torch.bool, device="cuda").tril()
    positions = [torch.randn(1, 2 * T - 1, SIZE, device="cuda")] if use == "relative" else []
    for values in ([0], [0, 1]) if module.selection else ([],):
        conditions = {"lang": copied(values, "cuda")} if values else {}
        lists = {"lang": values} if values else {}
        for autocast in (False, True):
            opened = partial(scope, conditions, host=lists)
            _train(module, x.clone().requires_grad_(), z, use, positions, mask, opened, autocast)
        on_host.load_state_dict({name: value.cpu() for name, value in module.state_dict().items()})
        module.eval()
        for keep in (False, True):
            with torch.no_grad(), scope(conditions, keep_attention=keep, host=lists):
                output = module(x, key, key, *positions, Stream(mask))
            of_host = {name: value.cpu() for name, value in conditions.items()}
            with torch.no_grad(), scope(of_host, keep_attention=keep):
                query = x.cpu()
                other = query if key is x else key.cpu()
                expected = on_host(query, other, other, *(p.cpu() for p in positions), Stream(mask.cpu()))
            for row, length in enumerate([T, T if use == "cross" else T - 3]):  # values at padding mean nothing
                torch.testing.assert_close(output.cpu()[row, :length], expected[row, :length])
        if use == "causal" and module.core.supports.cached_decoding:
            with torch.no_grad(), scope(conditions, collect=False, host=lists):
                _two_steps(module, x)


def _train(module, x, z, use, positions, mask, opened, autocast) -> None:
    module.train()
    key = z if use == "cross" else x
    with (
        torch.autocast("cuda", torch.bfloat16, enabled=autocast),
        opened(step=Step(5, 1, True)) as shared,
    ):
        output = module(x, key, key, *positions, Stream(mask))
        loss = output.float().sum() + shared.total_loss()
    loss.backward()
    shared.stats()
    assert x.grad is None or x.grad.is_cuda  # where each query has one key


def _two_steps(module: MultiHeadAttention, x: torch.Tensor) -> None:
    """Attend from the second of two positions, with cached keys and values of both."""
    (_, first), (q, second) = (module.project_qkv(x[:, at : at + 1]) for at in (0, 1))
    both = KVCache(*(None if old is None else torch.cat([old, new], 2) for old, new in zip(first, second, strict=True)))
    module.attend_cached(q, x[:, 1:2], both, torch.ones(B, 1, 2, dtype=torch.bool, device="cuda"))
