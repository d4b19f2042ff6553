"""Times of an encoder's output frames, from the strides of its subsampling."""

from typing import NamedTuple

from torch import nn

from espnet_diverse.errors import ModelError


class FrameTimes(NamedTuple):
    """Times of the frames of an encoder: the middle of the first frame and the step to the next, in seconds."""

    first: float
    step: float

    def boundary(self, frame: int) -> float:
        """The boundary between `frame` and the frame before it, in seconds."""
        return self.first + (frame - 0.5) * self.step

    def boundary_within(self, frame: int, start: float, end: float) -> float:
        """The same boundary in a recording whose part from `start` to `end`, in seconds, was encoded."""
        return min(max(start, start + self.boundary(frame)), end)


def frame_times(model: nn.Module, rate: int, todo: str = "turn word_timestamps off") -> FrameTimes:
    """Times of the frames of a model's encoder, from the hop of its frontend and the strides of its subsampling.

    Args:
        model: A model of speech recognition or translation; its frontend centres frame t on sample t * hop,
            or its `first_sample` after that.
        rate: Sampling rate of its audio in Hz.
        todo: Advice for messages where frame times are unknown.

    Raises:
        ModelError: The frontend has no hop length, or the encoder is recurrent.
    """
    hop = getattr(model.frontend, "hop_length", None)
    if not hop:
        raise ModelError(f"frontend {type(model.frontend).__name__} has no hop_length; {todo}")
    if not hasattr(model.encoder, "embed"):  # of a recurrent encoder, which subsamples elsewhere
        raise ModelError(f"encoder {type(model.encoder).__name__} has no known frame rate; {todo}")
    first, step = 0.0, 1  # in feature frames
    for module in getattr(model.encoder.embed, "conv", nn.Identity()).modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d):
            first += ((module.kernel_size[0] - 1) / 2 - module.padding[0]) * step
            step *= module.stride[0]
    start = getattr(model.frontend, "first_sample", 0)
    return FrameTimes((start + first * hop) / rate, step * hop / rate)


def known_frame_times(model: nn.Module, rate: int | None) -> FrameTimes | None:
    """Times from `frame_times`; None where frames have no times: for texts, after prompts, and for unknown nets."""
    if rate is None or hasattr(model, "prompt"):
        return None
    try:
        return frame_times(model, rate)
    except ModelError:
        return None
