"""A model that streams, with random weights and hypotheses that differ clearly, and sounds for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from espnet2.bin.asr_inference_streaming import Speech2TextStreaming
from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

from espnet_diverse.decoding.prediction import Text
from espnet_diverse.decoding.streaming.block_search import BlockSearch
from espnet_diverse.runs.tasks import TASKS

RATE = 16_000
SIZE = {"output_size": 16, "attention_heads": 2, "linear_units": 32, "num_blocks": 2}
TOKENS = ["<blank>", "<unk>", *"abcdefghijklmnopqrstuvwxyz", "<sos/eos>"]


def write_run(
    folder: Path,
    encoder: str = "contextual_block_transformer",
    rate: str = "16k",
    window: int = 400,
    hop: int = 160,
    languages: Sequence[str] = (),
    **changes,
) -> Path:
    """Write config.yaml and weights of a model, and return its folder.

    Args:
        folder: Folder to write.
        encoder: Name of the encoder.
        rate: Sampling rate of the frontend.
        window, hop: Samples of a window of the frontend, and from one to the next.
        languages: Languages that own heads of the decoder, for an encoder of ours.
        changes: Options of the encoder; others are those of `SIZE`, and blocks of 8, 4 and 2 frames where it has them.
    """
    diverse = encoder.startswith("diverse")
    blocks = {"block_size": 8, "hop_size": 4, "look_ahead": 2} if "contextual_block" in encoder else {}
    settings = {
        "frontend_conf": {"fs": rate, "n_fft": 512, "win_length": window, "hop_length": hop, "n_mels": 20},
        "encoder": encoder,
        "encoder_conf": {**SIZE, **blocks, **changes},
        "decoder": "diverse_transformer" if diverse else "transformer",
        "decoder_conf": {"attention_heads": 2, "linear_units": 32, "num_blocks": 1},
        "model": "diverse" if diverse else "espnet",
        "model_conf": {"ctc_weight": 0.3},
        "normalize": None,
        "token_type": "char",
    }
    if languages:
        names = {"lang": list(languages)}
        selection = {"strategy": "static", "pool": 4, "by": ["lang"], "conditions": names}
        settings["decoder_conf"]["attention"] = {"core": "softmax", "selection": selection}
        settings["model_conf"]["conditions"] = names
    parser = TASKS["asr"].get_parser()
    parser.set_defaults(**settings)
    options = parser.parse_args([])
    options.token_list = TOKENS
    torch.manual_seed(0)
    model = TASKS["asr"].build_model(options)
    for parameter in model.decoder.parameters():
        if parameter.dim() > 1:
            parameter.data *= 2
    model.ctc.ctc_lo.weight.data *= 6
    model.ctc.ctc_lo.bias.data[0] += 3
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml_no_alias_safe_dump(vars(options), indent=1, sort_keys=False))
    torch.save(model.state_dict(), folder / "valid.acc.ave.pth")
    return folder


def of_espnet(run: Path, sizes: bool = True, **lm) -> Speech2TextStreaming:
    """ESPnet's own class, without detection of repetitions; its search has the block sizes of the encoder."""
    files = [str(run / name) for name in ("config.yaml", "valid.acc.ave.pth")]
    options = {"beam_size": 3, "ctc_weight": 0.3, "lm_weight": 0.3, "disable_repetition_detection": True}
    theirs = Speech2TextStreaming(*files, **options, **lm)
    if sizes:
        for name in ("block_size", "hop_size", "look_ahead"):
            setattr(theirs.beam_search, name, getattr(theirs.asr_model.encoder, name))
    return theirs


def heard(search: BlockSearch, samples: np.ndarray, part: int) -> list[Text]:
    """The texts after each part of an utterance."""
    return [search.add(samples[i : i + part], i + part >= len(samples)) for i in range(0, len(samples), part)]


def tones(seconds: float, seed: int, rate: int = RATE) -> np.ndarray:
    """Tones of a fifth of a second and some noise, (L,) float32: speech, to what goes by loudness."""
    random = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    hertz = random.uniform(200, 3000, round(5 * seconds) + 1)[(5 * time).astype(int)]
    noise = 0.01 * random.standard_normal(len(time))
    return (0.3 * np.sin(2 * np.pi * hertz * time) + noise).astype(np.float32)
