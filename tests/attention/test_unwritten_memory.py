"""An invariant of all cores: memory that was not written to has no effect."""

import torch
from references.core_variants import inputs, make, supporting

from espnet_diverse.scope import scope


@supporting("padding")
def test_no_result_reads_memory_that_was_not_written(core):
    """PyTorch fills it with NaN in its deterministic mode; a product of 0 and NaN is NaN."""
    module, (x, _) = make(core), inputs()
    mask = torch.arange(7) < torch.tensor([[[7]], [[0]]])
    found = []
    for filled in (False, True):
        module.zero_grad()
        torch.use_deterministic_algorithms(filled, warn_only=True)
        try:
            with scope() as shared:
                output = module(x, x, x, mask)
                (output.square().sum() + shared.total_loss()).backward()
        finally:
            torch.use_deterministic_algorithms(False)
        found.append([output, *(parameter.grad for parameter in module.parameters() if parameter.grad is not None)])
    for before, after in zip(*found, strict=True):
        torch.testing.assert_close(after, before)
