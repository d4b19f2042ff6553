"""GPUs: published figures, and the shares of them that a training is assumed to reach."""

from typing import NamedTuple

from espnet_diverse.runs.operations import Counts


class Device(NamedTuple):
    """Published figures of a GPU.

    Attributes:
        memory: Bytes of memory.
        bandwidth: Bytes of memory a second.
        float32, bfloat16: Operations a second; of bfloat16 those of dense matrices.
        link: Bytes a second that it sends to another GPU of its machine.
    """

    memory: float
    bandwidth: float
    float32: float
    bfloat16: float
    link: float

    def seconds(self, counts: Counts, half: bool) -> float:
        """Estimate the seconds of what was counted: the processor that starts the operations, or the GPU itself.

        Args:
            counts: Counts of a batch.
            half: Whether products are in bfloat16.
        """
        rate = self.bfloat16 if half else self.float32
        computing = counts.products / (OF_PRODUCTS * rate) + counts.traffic / (OF_BANDWIDTH * self.bandwidth)
        return max(counts.calls * START, computing)


OF_PRODUCTS, OF_BANDWIDTH, START, CONTEXT = 0.4, 0.7, 8e-6, 1e9
"""Assumptions, not measured: shares of the published rates, seconds until PyTorch has started an operation, and bytes
that CUDA and its libraries take."""

DEVICES = {
    "h200": Device(141e9, 4.8e12, 67e12, 989e12, 450e9),  # SXM; NVIDIA's datasheet, half of 1,979 with sparsity
    "a100": Device(80e9, 2.039e12, 19.5e12, 312e12, 300e9),  # SXM, 80 GB; NVIDIA's datasheet
    "4090": Device(24e9, 1.008e12, 82.6e12, 165.2e12, 32e9),  # NVIDIA's whitepaper of Ada; PCIe 4.0
}
