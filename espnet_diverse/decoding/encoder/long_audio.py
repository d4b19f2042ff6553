"""Features of a recording of any length, computed while it is read.

ESPnet's mask of padding takes memory that grows with the square of the number of frames, and its spectrum takes many
times the memory of the features. Here features are computed for a few seconds at a time, with enough samples before and
after that the cuts affect no frame. Only the features are kept in memory; they equal the features of the whole
recording computed at once.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from espnet2.asr.frontend.default import DefaultFrontend
from espnet2.layers.global_mvn import GlobalMVN
from espnet2.layers.utterance_mvn import UtteranceMVN
from numpy.typing import NDArray
from torch import Tensor, nn

from espnet_diverse.errors import ModelError
from espnet_diverse.functional.copies import copied

_SAMPLES = 480_000
"""Number of samples whose features are computed at a time: 30 seconds at 16 kHz."""


def check_long_audio(model: nn.Module) -> None:
    """Refuse a model whose features of a frame depend on more than the samples near it.

    Raises:
        ModelError: A part of the model needs the whole recording.
    """
    for part in _parts_of_the_whole(model):
        kind = type(getattr(model, part)).__name__
        raise ModelError(f"{part} {kind} needs a recording at once, too much for a long one; use segmentation")


def is_long(model: nn.Module, data: NDArray) -> bool:
    """Return whether features of `data`, samples (L,) or another input of the model, are better computed in parts."""
    return data.ndim == 1 and len(data) > _SAMPLES and not _parts_of_the_whole(model)


def _parts_of_the_whole(model: nn.Module) -> list[str]:
    """The parts of a model that need a recording at once."""
    frontend, normalize = getattr(model, "frontend", None), getattr(model, "normalize", None)
    enhancement = getattr(frontend, "frontend", None)
    enhances = enhancement is not None and (enhancement.use_wpe or enhancement.use_beamformer)
    needs = {
        "frontend": type(frontend) is not DefaultFrontend or not frontend.apply_stft or enhances,
        "normalize": not isinstance(normalize, GlobalMVN | UtteranceMVN | None),
        "preencoder": model.preencoder is not None,
    }
    return [part for part, needs_all in needs.items() if needs_all]


def features_in_parts(model: nn.Module, samples: NDArray, device: str) -> NDArray:
    """Compute features (T, F) of samples (L,) float32 that are in memory, as `features_of_blocks`."""
    blocks = (samples[start : start + _SAMPLES] for start in range(0, len(samples), _SAMPLES))
    return features_of_blocks(model, blocks, device)


def features_of_blocks(model: nn.Module, blocks: Iterable[NDArray], device: str) -> NDArray:
    """Compute features (T, F) of a recording, normalised as by `Encoding.features`.

    Args:
        model: Model of speech recognition or translation that `check_long_audio` allows.
        blocks: Samples of the recording in order, each block (L,) float32, together more than half an FFT.
        device: Device of the model.
    """
    normalize = model.normalize
    parts: list[Tensor] = []
    for part in _frames(model.frontend, blocks, device):
        parts.append((normalize(*batch_of_one(part))[0][0] if isinstance(normalize, GlobalMVN) else part).cpu())
    parts.reverse()
    features, start = parts[-1].new_empty(sum(map(len, parts)), parts[-1].size(1)), 0
    while parts:  # each is freed once it is copied
        part = parts.pop()
        features[start : start + len(part)] = part
        start += len(part)
    if isinstance(normalize, UtteranceMVN):
        _normalize(features, normalize)
    return features.numpy()


def _frames(frontend: DefaultFrontend, blocks: Iterable[NDArray], device: str) -> Iterator[Tensor]:
    """Features (T, F) of the parts of a recording. ESPnet centres frame i on sample i * hop."""
    hop, half = frontend.hop_length, frontend.stft.n_fft // 2 if frontend.stft.center else frontend.stft.n_fft
    margin = half // hop + 2  # frames of a part that see its beginning, and more than half a window
    samples, computed = np.zeros(0, np.float32), 0  # number of the samples' frames that were computed before
    for block in blocks:
        samples = np.concatenate([samples, block])
        if len(samples) < _SAMPLES:
            continue
        known = (len(samples) - half) // hop + 1  # frames that do not see the end
        yield _features(frontend, samples, device)[computed:known]
        samples, computed = samples[(known - margin) * hop :], margin
    yield _features(frontend, samples, device)[computed:]


def _features(frontend: DefaultFrontend, samples: NDArray, device: str) -> Tensor:
    return frontend(*batch_of_one(copied(samples, device)))[0][0]


def batch_of_one(x: Tensor) -> tuple[Tensor, Tensor]:
    """A batch of one: x (T, ...) -> (1, T, ...), and its length (1,)."""
    return x.unsqueeze(0), copied([len(x)], x.device)


def _normalize(x: Tensor, options: UtteranceMVN) -> None:
    """Normalise x (T, F) in place, as ESPnet's `utterance_mvn` does, but without its mask of padding."""
    mean, std = x.mean(0), x.std(0, correction=0).clamp(min=options.eps)
    if options.norm_means:
        x -= mean
    if options.norm_vars:
        x /= std
