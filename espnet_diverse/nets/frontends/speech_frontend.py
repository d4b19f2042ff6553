"""Features of speech by a pretrained encoder, such as wav2vec 2.0, HuBERT, WavLM or the encoder of Whisper.

It replaces ESPnet's frontend `huggingface` and has the same options, parameter names and outputs. ESPnet's frontend
contacts the Hub whenever it is built, also for a trained model, and builds any architecture; this one builds only what
`pretrained_speech` allows, and the config.yaml of a trained model contains the architecture.

    h_L                       by default: the output of the encoder
    h_l                       with `layer`: the output of a layer, h_0 the input of the first
    sum_l softmax(w)_l h_l    with `multilayer_feature`, after Yang et al. 2021, "SUPERB"

Cost: one forward pass of the pretrained encoder, and a backward pass unless it is frozen.
"""

from typing import Any

import humanfriendly
import torch
from espnet2.asr.frontend.abs_frontend import AbsFrontend
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.frontends import pretrained_speech
from espnet_diverse.upstream.layers import TooShortUttError

_HOP = 160  # samples, of the features of w2v-BERT
_WINDOW = 400


class HuggingFaceFrontend(AbsFrontend):
    """Computes features of samples with a pretrained speech encoder; `frontend: huggingface` in configurations.

    The weights of the encoder are saved with the model, so a trained model needs no other files.

    Args:
        model: Folder of the pretrained encoder, or hf:owner/name; owner/name is looked for in the cache of the Hub
            without a network. It may be None if `architecture` is given, to load a trained model.
        fs: Sampling rate in Hz, a number or text such as 16k; it must be the encoder's.
        download_dir: Folder of the cache; by default the Hugging Face Hub's.
        load_pretrained: Whether the weights of the encoder are loaded; otherwise they are random.
        freeze_weights: Whether the encoder is frozen; it then has no dropout either.
        multilayer_feature: Whether the features are a trained weighted sum of the outputs of all layers.
        layer: Layer whose output is used: 0 is the input of the layers; by default the last.
        architecture: Architecture of the encoder, see `pretrained_speech`; by default the architecture of `model`.

    Attributes:
        hop_length: Number of samples between frames.
        first_sample: Sample on which the first frame is centred.
        least_samples: Number of samples that give a frame.

    Raises:
        ConfigError: There is no such encoder, or none is given; or it does not have this rate or layer.
        ModelError: The files of hf:owner/name cannot be fetched.
    """

    def __init__(
        self,
        model: str | None = None,
        fs: int | str = 16000,
        download_dir: str | None = None,
        load_pretrained: bool = True,
        freeze_weights: bool = False,
        multilayer_feature: bool = False,
        layer: int | None = None,
        architecture: dict | None = None,
    ):
        super().__init__()
        _check_rate(fs)
        if not architecture:
            if model is None:
                raise ConfigError("frontend_conf.model is not given; name the encoder, --set frontend_conf.model=PATH")
            architecture = pretrained_speech.read_architecture(model, download_dir)
        self.architecture = pretrained_speech.checked_architecture(architecture, "frontend_conf.architecture")
        self.pretrained = model if load_pretrained else None
        self.cache, self.freeze_weights, self.layer = download_dir, freeze_weights, layer
        built = self.architecture
        if multilayer_feature:  # which needs the outputs of all layers
            still = {name: 0.0 for name in ("layerdrop", "encoder_layerdrop") if _has(built, name)}
            built = built | {"encoder": built["encoder"] | still}
        self.processor = pretrained_speech.processor(built)
        if self.pretrained is None:
            self.encoder = pretrained_speech.build(built)
        else:
            self.encoder = pretrained_speech.load(self.pretrained, built, self.cache)
        self.encoder.requires_grad_(not freeze_weights)
        count = self.encoder.config.num_hidden_layers
        if layer is not None and not (0 <= layer <= count and not multilayer_feature):
            allowed = f"allowed are 0 to {count}, and none with multilayer_feature"
            raise ConfigError(f"frontend_conf.layer {layer} is not allowed; {allowed}")
        self.layer_weights = nn.Parameter(torch.zeros(count + 1)) if multilayer_feature else None
        self.hop_length, self.first_sample, self.least_samples = self._times()

    def forward(self, input: Tensor, input_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features: samples (B, L) and their numbers (B,) -> features (B, T, M), numbers of frames (B,).

        Raises:
            DataError: A recording is longer than the encoder reads.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.freeze_weights):
            inputs, lengths = self._prepared(input, input_lengths)
            states = self.encoder(**inputs, output_hidden_states=self._needs_layers)
        x = states.last_hidden_state
        if self._needs_layers:
            layers = (*states.hidden_states[:-1], x)  # in some encoders the last one lacks the normalisation after it
            if self.layer is not None:
                x = layers[self.layer]
            if self.layer_weights is not None:
                weights = self.layer_weights.softmax(0).to(x.dtype)
                x = (torch.stack(layers) * weights.view(-1, 1, 1, 1)).sum(0)
        return x[:, : int(lengths.max())], lengths

    def output_size(self) -> int:
        """Return the number of features of a frame."""
        return self.encoder.config.hidden_size

    def reload_pretrained_parameters(self) -> None:
        """Load the weights of the pretrained encoder again, by ESPnet's name; do nothing if `model` is None."""
        if self.pretrained is not None:
            trained = pretrained_speech.load(self.pretrained, self.architecture, self.cache)
            self.encoder.load_state_dict(trained.state_dict())

    def train(self, mode: bool = True) -> "HuggingFaceFrontend":
        """Set training or evaluation mode; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        self.encoder.train(mode and not self.freeze_weights)
        return self

    @property
    def _needs_layers(self) -> bool:
        return self.layer is not None or self.layer_weights is not None

    @property
    def _type(self) -> str:
        return self.architecture["encoder"]["model_type"]

    def _prepared(self, samples: Tensor, lengths: Tensor) -> tuple[dict[str, Any], Tensor]:
        """Return the inputs of the encoder, and the numbers of frames of its output."""
        weight = next(self.encoder.parameters())
        rows = [row[:length].detach().float().cpu().numpy() for row, length in zip(samples, lengths, strict=True)]
        whisper = self._type == "whisper"
        if whisper and int(lengths.max()) > self.processor.n_samples:
            has = f"a recording has {int(lengths.max())} samples and the pretrained encoder reads"
            raise DataError(f"{has} {self.processor.n_samples}; leave longer ones out, or split them")
        padding = {} if whisper else {"padding": True}
        made = self.processor(rows, sampling_rate=pretrained_speech.RATE, return_tensors="pt", **padding)
        inputs = {
            name: value.to(weight.device, weight.dtype if value.is_floating_point() else None)
            for name, value in made.items()
        }
        if whisper:
            return inputs, ((lengths // self.processor.hop_length - 1) // 2 + 1).to(weight.device)
        if "input_features" in inputs:
            return inputs, inputs["attention_mask"].sum(-1)
        return inputs, self.encoder._get_feat_extract_output_lengths(lengths.to(weight.device))

    def _times(self) -> tuple[int, float, int]:
        """Values of `hop_length`, `first_sample` and `least_samples`."""
        if self._type == "whisper":
            frames, hop = self.processor.nb_max_frames, self.processor.hop_length
            if frames != 2 * self.encoder.config.max_source_positions:
                has = f"chunk_length gives {frames} frames, and the encoder has twice"
                raise ConfigError(f"{has} {self.encoder.config.max_source_positions} positions; correct one of them")
            return 2 * hop, 0.0, hop
        if self._type == "wav2vec2-bert":
            stride = self.processor.stride
            covered = _WINDOW + (stride - 1) * _HOP
            return stride * _HOP, (covered - 1) / 2, covered
        hop, covered = 1, 1
        config = self.encoder.config
        for kernel, stride in zip(config.conv_kernel, config.conv_stride, strict=True):
            covered += (kernel - 1) * hop
            hop *= stride
        return hop, (covered - 1) / 2, covered


def least_samples(frontend: AbsFrontend | None) -> int:
    """Number of samples that a frontend needs for a frame; 0 where it is not known."""
    if (least := getattr(frontend, "least_samples", None)) is not None:
        return least
    transform = getattr(frontend, "stft", None)
    if transform is None:
        return 0
    return transform.n_fft // 2 + 1 if transform.center else transform.n_fft  # what the padding by reflection needs


def check_samples(frontend: AbsFrontend | None, count: int) -> None:
    """Check that there are enough samples for a frame of a frontend.

    Raises:
        TooShortUttError: There are too few.
    """
    if count < (least := least_samples(frontend)):
        raise TooShortUttError(f"{count} samples are too short; the frontend needs {least}", count, least)


def _has(architecture: dict, name: str) -> bool:
    is_whisper = architecture["encoder"]["model_type"] == "whisper"
    return name == ("encoder_layerdrop" if is_whisper else "layerdrop")


def _check_rate(fs: int | str) -> None:
    try:
        rate = humanfriendly.parse_size(fs) if isinstance(fs, str) else fs
    except humanfriendly.InvalidSize:
        rate = None
    if rate != pretrained_speech.RATE:
        allowed = f"pretrained speech encoders read {pretrained_speech.RATE} Hz; set fs: {pretrained_speech.RATE}"
        raise ConfigError(f"frontend_conf.fs {fs!r} is not allowed; {allowed}")
