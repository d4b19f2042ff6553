"""The encoder of Whisper as a frontend, whose output is read by an encoder that is trained."""

from espnet2.asr.frontend.abs_frontend import AbsFrontend
from torch import Tensor

from espnet_diverse.nets.whisper.encoder import DiverseMelEncoder
from espnet_diverse.nets.whisper.features import RATE, WhisperFrontend


class EncodedMelFrontend(AbsFrontend):
    """Computes features of samples with the encoder of Whisper; `frontend: whisper_encoder` in configurations.

    Its weights are given by `init_param`: RUN:encoder:frontend.encoder, where RUN is an adopted Whisper model. Unlike
    `frontend: huggingface` it does not pad each recording to 30 seconds.

    Args:
        fs: Sampling rate in Hz, which must be 16,000.
        n_mels: Number of mel bands.
        pad: Seconds of silence after the audio, see `WhisperFrontend`; the features have no frames of it.
        output_size, attention_heads, linear_units, num_blocks, max_positions: As in `DiverseMelEncoder`.

    Attributes:
        needs_weights: Whether training must be given its weights.
        hop_length: Number of samples between frames.
        first_sample: Sample on which the first frame is centred.
        least_samples: Least length of a recording in samples.
        seconds: Greatest length of a recording.

    Raises:
        UserError: An option has a value that is not allowed.
    """

    needs_weights = True

    def __init__(
        self,
        fs: int = RATE,
        n_mels: int = 80,
        pad: float | str = 1.0,
        output_size: int = 512,
        attention_heads: int = 8,
        linear_units: int = 2048,
        num_blocks: int = 6,
        max_positions: int = 1500,
    ):
        super().__init__()
        self.mel = WhisperFrontend(fs, n_mels, pad)
        self.encoder = DiverseMelEncoder(n_mels, output_size, attention_heads, linear_units, num_blocks, max_positions)
        self.hop_length, self.first_sample = 2 * self.mel.hop_length, 0.0
        self.least_samples, self.seconds = self.mel.least_samples, self.mel.seconds

    def forward(self, input: Tensor, input_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features: samples (B, L) and their numbers (B,) -> features (B, T, M), numbers of frames (B,).

        Raises:
            DataError: A recording is longer than 30 seconds.
        """
        x, lengths, _ = self.encoder(*self.mel(input, input_lengths))
        spoken = ((input_lengths + self.hop_length - 1) // self.hop_length).to(lengths.device).minimum(lengths)
        longest = -(-input.size(1) // self.hop_length)
        return x[:, :longest], spoken

    def output_size(self) -> int:
        """Return the number of features of a frame."""
        return self.encoder.output_size()
