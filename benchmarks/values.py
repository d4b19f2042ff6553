"""Check the values of what kernels may break, before anything is timed; 15 s of a CPU with its kernels.

    python benchmarks/values.py --device cuda    # as `gpu.sh --check`
    python benchmarks/values.py                  # the kernels of the CPU

Prints one table in Markdown: the greatest difference from the CPU in double precision, as a share of the greatest
value, in float32 and in bfloat16. The exit status is 1 if one is too large.

    rows without keys   context and gradients of attention by each kernel, exactly 0 where a query sees no key
    attention           output and gradients of each core, of a batch with padding and with a sample of padding alone
    memory              the same where memory that is not written to holds NaN
    tf32                distances of a mixture with TF32 on, from those with TF32 off
"""

import argparse
import copy
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import measuring
import results
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from espnet_diverse.attention import CORES, build_attention
from espnet_diverse.functional.fused_attention import fused_attention
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.functional.mixture import log_density
from espnet_diverse.scope import scope

ALLOWED = {torch.float32: 1e-4, torch.bfloat16: 0.02}
KERNELS = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
"""Those that training uses: `training/loop/precision.py` excludes cuDNN's."""
MASKS = ("padding", "pairs", "logits", "position")
SIZE, HEADS = 64, 4


@dataclass
class Checked:
    """Differences of a case by type; none where a kernel does not take it."""

    check: str
    case: str
    differences: dict[torch.dtype, float]

    @property
    def passed(self) -> bool:
        """Whether all differences are small enough; NaN is not."""
        return all(found <= ALLOWED[dtype] for dtype, found in self.differences.items())

    def row(self) -> str:
        """The line of the table."""
        cells = [f"{self.differences[dtype]:.0e}" if dtype in self.differences else "" for dtype in ALLOWED]
        return f"| {' | '.join([self.check, self.case, *cells, 'passed' if self.passed else 'FAILED'])} |"


def main(argv: list[str] | None = None) -> int:
    """Check everything and print the table."""
    args = arguments(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("nothing was checked: PyTorch sees no GPU on this machine")
    device = torch.device(args.device)
    conditions = measuring.conditions("differences", device)
    print(*conditions, "", "| check | case | float32 | bfloat16 | |", "|---|---|---|---|---|", sep="\n", flush=True)
    rows = []
    for row in itertools.chain(rows_without_keys(device), attentions(device), [tf32(device)]):
        print(row.row(), flush=True)
        rows.append(row)
    failed = sum(not row.passed for row in rows)
    print(f"\n{len(rows)} rows, {failed} failed")
    if args.output and not failed:
        results.write(args.output, conditions, [])
    return int(failed > 0)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--output", type=Path, metavar="FILE", help="write a JSON file when all rows have passed")
    return parser.parse_args(argv)


def rows_without_keys(device: torch.device) -> Iterator[Checked]:
    """Compare `fused_attention` by each kernel and form of the mask."""
    for (name, kernel), form in itertools.product(KERNELS.items(), MASKS):
        found = {}
        for dtype in ALLOWED:
            try:
                with sdpa_kernel(kernel):
                    each = [_of_kernel(device, dtype, form, keys) for keys in (64, 192, 250)]
            except RuntimeError as error:
                if not str(error).startswith(("No available kernel", "No viable backend")):
                    raise
                continue
            found[dtype] = float(torch.tensor(each).max())
        if found:
            yield Checked("rows without keys", f"{name}, {form}", found)


def _of_kernel(device: torch.device, dtype: torch.dtype, form: str, keys: int) -> float:
    random = torch.Generator().manual_seed(keys)
    tensors = [torch.randn(3, HEADS, keys, 32, generator=random).to(dtype) for _ in "qkvg"]
    allowed = lengths_to_mask(torch.tensor([keys, keys - 30, 0]), keys)[:, None, None]
    if form != "padding":
        allowed = allowed & (torch.rand(3, 1, keys, keys, generator=random) < 0.1)
        allowed[:, :, ::7] = False
    bias = torch.randn(3, HEADS, keys, keys, generator=random) if form == "position" else torch.zeros(())
    mask = allowed if form in MASKS[:2] else bias.to(dtype).masked_fill(~allowed, -torch.inf)
    found = _context_and_gradients(fused_attention, [x.to(device) for x in tensors], mask.to(device))
    expected = _context_and_gradients(_by_definition, [x.double() for x in tensors], mask)
    closed = ~allowed.any(-1).expand(-1, HEADS, keys)
    if any(x.cpu()[closed].count_nonzero() for x in found[:2]):  # the context, and the gradient of queries
        return torch.inf
    return _difference(found, expected)


def _by_definition(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    terms = torch.zeros(()).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask
    weights = (q @ k.mT / q.size(-1) ** 0.5 + terms.clamp(min=-1e6)).softmax(-1)  # uniform without keys
    return weights.masked_fill((terms == -torch.inf).all(-1, keepdim=True), 0.0) @ v


def _context_and_gradients(attend, tensors: list[Tensor], mask: Tensor) -> list[Tensor]:
    q, k, v = (x.detach().requires_grad_() for x in tensors[:3])
    context = attend(q, k, v, mask)
    return [context.detach(), *torch.autograd.grad(context, (q, k, v), tensors[3])]


def attentions(device: torch.device) -> Iterator[Checked]:
    """Compare output and gradients of every core; with memory of NaN too."""
    for name, core in CORES.items():
        torch.manual_seed(0)
        module, x = build_attention(name, SIZE, HEADS).eval(), torch.randn(3, 100, SIZE)
        expected = _output_and_gradients(copy.deepcopy(module).double(), x.double())
        on_device, x = copy.deepcopy(module).to(device), x.to(device)
        for check in ("attention", "memory"):
            found = {}
            for dtype in ALLOWED:
                if dtype == torch.bfloat16 and not core.continuous:
                    continue
                filled = check == "memory"
                torch.use_deterministic_algorithms(filled, warn_only=True)  # fills what `torch.empty` returns
                try:
                    values = _output_and_gradients(on_device, x, dtype)
                finally:
                    torch.use_deterministic_algorithms(False)
                found[dtype] = _difference(values, expected)
            yield Checked(check, name, found)


def _output_and_gradients(module: torch.nn.Module, x: Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    x = x.detach().requires_grad_()
    mask = lengths_to_mask(torch.tensor([100, 61, 0], device=x.device), 100).unsqueeze(1)
    with scope(), torch.autocast(x.device.type, dtype, enabled=dtype == torch.bfloat16):
        output = module(x, x, x, mask)
    weights = torch.linspace(-1, 1, output.numel(), device=x.device).view_as(output)
    inside = (output.double() * weights * mask.mT).sum()  # values at padding mean nothing
    gradients = torch.autograd.grad(inside, [x, *module.parameters()], allow_unused=True)
    # Together, as some are 0 but for rounding.
    joined = torch.cat([each.flatten() for each in gradients if each is not None])
    return [output.detach() * mask.mT, joined]


def tf32(device: torch.device) -> Checked:
    """Compare the distances of a mixture, and their gradients, with TF32 and without."""
    random = torch.Generator().manual_seed(0)
    x, mean, prior = (torch.randn(*shape, generator=random) for shape in ((2, 200, 64), (2, 8, 64), (2, 8)))
    tensors = [each.to(device).requires_grad_() for each in (x, prior, mean, torch.full_like(mean, -6.0))]
    found, matmul = [], torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        for matmul.fp32_precision in ("tf32", "ieee"):
            density = log_density(*tensors)
            found.append([density.detach(), *torch.autograd.grad(density.sum(), tensors)])
    finally:
        matmul.fp32_precision = before
    return Checked("tf32", "mixture", {torch.float32: _difference(*found) * 100})


def _difference(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return the greatest difference as a share of the greatest value; NaN where a value is NaN."""
    pairs = [(one.cpu().double(), other.cpu().double()) for one, other in zip(found, expected, strict=True)]
    shares = [(one - other).abs().max() / other.abs().max().clamp(min=1e-12) for one, other in pairs]
    return float(torch.stack(shares).max())


if __name__ == "__main__":
    sys.exit(main())
