"""The features of Whisper: log mel energies with its own normalisation (Radford et al. 2023, section 2.2).

Whisper was trained on audio padded with silence to 30 seconds, and other programs always compute 30 seconds. A few
seconds of silence after the audio are enough for the same error rate, and the encoder's time falls with the rest.
Without enough silence the texts of a model that was trained on 30 seconds end in repetitions.
"""

import torch
import torchaudio
from espnet2.asr.frontend.abs_frontend import AbsFrontend
from torch import Tensor

from espnet_diverse.errors import DataError
from espnet_diverse.functional.masks import lengths_to_mask
from espnet_diverse.option_checks import Rule, must_be

RATE = 16_000
SECONDS = 30
"""Length of the audio that the encoder reads at most."""
_WINDOW, _HOP = 400, 160
_STEP = 2 * _HOP  # samples of a frame of the encoder
_LEAST = RATE // 10  # in less, the models write what they learned for silence, such as "you"
_FLOOR, _RANGE = 1e-10, 8.0  # least energy, and greatest difference to the loudest in powers of 10
_SILENCE = 0.1  # seconds: with more, windows that begin in a recording end in its silence
_PAD = Rule(float, words=("full",), least=0, most=SECONDS)


class WhisperFrontend(AbsFrontend):
    """Computes the features of Whisper; `frontend: whisper_mel` in configurations.

    Args:
        fs: Sampling rate in Hz, which must be 16,000.
        n_mels: Number of mel bands: 80, and 128 of large-v3 and the models after it.
        pad: Seconds of silence after the audio, or "full" to pad to 30 seconds. 0 adds none, as ESPnet does by default.

    Attributes:
        seconds: Greatest length of a recording.
        least_samples: Least length of a recording in samples; it is a tenth of a second.
        hop_length: Number of samples between frames.

    Raises:
        OptionError: A value is not allowed.
    """

    seconds = SECONDS
    filters: Tensor
    window: Tensor

    def __init__(self, fs: int = RATE, n_mels: int = 80, pad: float | str = 5.0):
        super().__init__()
        if fs != RATE:
            raise must_be("fs", f"{RATE}, as Whisper reads no other rate", fs)
        Rule(int, least=1, most=1024).check("n_mels", n_mels)
        _PAD.check("pad", pad)
        self.pad, self.hop_length, self.least_samples = pad, _HOP, _LEAST
        scale = {"norm": "slaney", "mel_scale": "slaney"}
        filters = torchaudio.functional.melscale_fbanks(_WINDOW // 2 + 1, 0.0, RATE / 2, n_mels, RATE, **scale)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("window", torch.hann_window(_WINDOW), persistent=False)

    def forward(self, input: Tensor, input_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features: samples (B, L) and their numbers (B,) -> features (B, T, n_mels), numbers of frames (B,).

        Frames after the end of a recording and its silence are 0.

        Raises:
            DataError: A recording is longer than 30 seconds.
        """
        longest = input.size(1) if input_lengths.is_cuda else int(input_lengths.max())  # would wait for a GPU
        if longest > SECONDS * RATE:
            has = f"{longest / RATE:.1f} s are more than the {SECONDS} s that Whisper reads"
            raise DataError(f"{has}; use transcribe, or split the recording")
        lengths = self._with_silence(input_lengths)
        valid = lengths_to_mask(input_lengths, input.size(1)).to(input.device)
        samples = input.new_zeros(len(input), int(self._with_silence(torch.tensor(longest))))
        samples[:, : input.size(1)] = input.masked_fill(~valid, 0.0)[:, : samples.size(1)]
        with torch.autocast(input.device.type, enabled=False):
            logs = self._log_mel(samples.float(), lengths)
            frames = lengths // _HOP
            outside = ~lengths_to_mask(frames, logs.size(1)).to(logs.device).unsqueeze(-1)
            loudest = logs.masked_fill(outside, -torch.inf).amax((1, 2), keepdim=True)
            features = (logs.maximum(loudest - _RANGE) + 4) / 4
        return features.masked_fill(outside, 0.0), frames

    def output_size(self) -> int:
        """Return the number of features of a frame."""
        return self.filters.size(1)

    def _with_silence(self, lengths: Tensor) -> Tensor:
        """Return the numbers of samples with silence, whole frames of the encoder."""
        if self.pad == "full":
            return torch.full_like(lengths, SECONDS * RATE)
        if self.pad == 0:
            return lengths
        wanted = lengths + round(float(self.pad) * RATE)
        return ((wanted + _STEP - 1) // _STEP * _STEP).clamp(max=SECONDS * RATE)

    def _log_mel(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Compute log mel energies (B, T, n_mels) of samples (B, L) and their numbers (B,)."""
        inner = self.pad != "full" and float(self.pad) < _SILENCE
        if inner:  # torch.stft reflects samples at the end of the batch alone
            samples = _reflected(samples, lengths)
        spectrum = torch.stft(samples, _WINDOW, _HOP, window=self.window, center=not inner, return_complex=True)
        energies = spectrum[..., :-1].abs().square().transpose(1, 2) @ self.filters
        return energies.clamp(min=_FLOOR).log10()


def _reflected(samples: Tensor, lengths: Tensor) -> Tensor:
    """Samples (B, L) with half a window of reflected samples before and after each recording, (B, L + window)."""
    half, last = _WINDOW // 2, (lengths - 1).unsqueeze(1).to(samples.device)
    place = torch.arange(-half, samples.size(1) + half, device=samples.device)
    mirrored = last - (last - place.abs()).abs()
    return samples.gather(1, mirrored.clamp(min=0)).masked_fill(place > last + half, 0.0)
