"""Collective operations of the processes of a training, by the process group that ESPnet has made."""

from io import BytesIO

import torch
from espnet2.train.trainer import TrainerOptions
from torch import Tensor, distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class Ranks:
    """The processes that train together; all of them call a method at the same place.

    Args:
        device: Device of the tensors that are exchanged; None for a process that trains alone.

    Attributes:
        own: Rank of this process.
        count: Number of processes.
    """

    def __init__(self, device: torch.device | None = None):
        self._device = device
        self.own = 0 if device is None else distributed.get_rank()
        self.count = 1 if device is None else distributed.get_world_size()

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.count == 1

    def largest(self, value: int) -> int:
        """The largest value of a process."""
        return self._reduced(value, distributed.ReduceOp.MAX)

    def total(self, value: int) -> int:
        """The sum of the values of all processes; it must be below 2^63."""
        return self._reduced(value, distributed.ReduceOp.SUM)

    def gathered(self, value: object) -> list:
        """The value of each process, by rank; it consists of tensors, numbers, texts and plain containers."""
        if self.alone:
            return [value]
        torch.save(value, content := BytesIO())
        encoded = torch.frombuffer(bytearray(content.getvalue()), dtype=torch.uint8)
        sizes = [int(size) for size in self._of_all(torch.tensor([len(encoded)]))]
        padded = torch.cat([encoded, encoded.new_zeros(max(sizes) - len(encoded))])
        contents = (part[:size] for part, size in zip(self._of_all(padded), sizes, strict=True))
        return [torch.load(BytesIO(part.cpu().numpy().tobytes()), "cpu", weights_only=True) for part in contents]

    def _reduced(self, value: int, operation: distributed.ReduceOp) -> int:
        if self.alone:
            return value
        tensor = torch.tensor([value], device=self._device)
        distributed.all_reduce(tensor, operation)
        return int(tensor)

    def _of_all(self, tensor: Tensor) -> list[Tensor]:
        tensor = tensor.to(self._device)
        outputs = [torch.empty_like(tensor) for _ in range(self.count)]
        distributed.all_gather(outputs, tensor)
        return outputs


def parallel(model: nn.Module, ranks: Ranks, options: TrainerOptions) -> nn.Module:
    """The model, with gradients that are averaged over the processes if there are several.

    Args:
        model: The model.
        ranks: The processes.
        options: ESPnet's options: `unused_parameters`, `gradient_as_bucket_view` and `ddp_comm_hook`.
    """
    if ranks.alone:
        return model
    devices = [torch.cuda.current_device()] if options.ngpu else None
    averaged = DistributedDataParallel(
        model,
        device_ids=devices,
        find_unused_parameters=options.unused_parameters,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
    )
    if options.ddp_comm_hook is not None:  # fp16_compress_hook or bf16_compress_hook
        averaged.register_comm_hook(None, getattr(default_hooks, options.ddp_comm_hook))
    return averaged
