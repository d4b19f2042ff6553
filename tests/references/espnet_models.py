"""Small untrained models of ESPnet in the form in which ESPnet leaves them, with scores far from uniform."""

import torch
import yaml

from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import save
from espnet_diverse.runs.tasks import TASKS

RATE = 16_000
LETTERS = ["<blank>", "<unk>", "<space>", *"abcdefgh", "<sos/eos>"]
LANGUAGES = ["<eng>", "<deu>", "<jpn>"]
TIMES = [f"<{0.5 * step:.2f}>" for step in range(5)]
MULTITASK = [
    *("<blank>", "<unk>", "<na>", "<nospeech>", *LANGUAGES, "<asr>", "<st_deu>", "<notimestamps>", *TIMES),
    *("<space>", *"abcdefgh", "<sos>", "<eos>", "<sop>"),
]
PREPROCESSOR = {
    "fs": RATE,
    "na_symbol": "<na>",
    "speech_length": 2,
    "speech_resolution": 0.5,
    "notime_symbol": "<notimestamps>",
    "first_time_symbol": TIMES[0],
    "last_time_symbol": TIMES[-1],
}
TRANSFORMER = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 1}
BRANCHFORMER = {"output_size": 16, "attention_heads": 2, "cgmlp_linear_units": 24, "cgmlp_conv_kernel": 3}
BLOCKS = {"block_size": 8, "hop_size": 4, "look_ahead": 2}
DECODER = {"attention_heads": 2, "linear_units": 24, "num_blocks": 1}
MODELS = {
    "transformer": {"encoder": "transformer", "encoder_conf": TRANSFORMER},
    "conformer": {"encoder": "conformer", "encoder_conf": {**TRANSFORMER, "cnn_module_kernel": 3}},
    "branchformer": {"encoder": "branchformer", "encoder_conf": {**BRANCHFORMER, "num_blocks": 1}},
    "e_branchformer": {"encoder": "e_branchformer", "encoder_conf": {**BRANCHFORMER, "num_blocks": 1}},
    "contextual_block": {"encoder": "contextual_block_transformer", "encoder_conf": {**TRANSFORMER, **BLOCKS}},
    "rnn": {
        "encoder": "vgg_rnn",
        "encoder_conf": {"num_layers": 1, "hidden_size": 8, "output_size": 16},
        "decoder": "rnn",
        "decoder_conf": {"hidden_size": 8},
    },
    "ctc": {"encoder": "conformer", "encoder_conf": TRANSFORMER, "model_conf": {"ctc_weight": 1.0}},
    "transducer": {
        "encoder": "conformer",
        "encoder_conf": TRANSFORMER,
        "decoder": "transducer",
        "decoder_conf": {"hidden_size": 8},
        "joint_net_conf": {"joint_space_size": 12},
        "model_conf": {"ctc_weight": 0.3},
    },
    "multitask": {"encoder": "e_branchformer", "encoder_conf": {**BRANCHFORMER, "num_blocks": 1}, "task": "s2t"},
}
"""What the configuration of each model has besides the frontend."""


def write_model(folder, name, seed=0, factor=2.5, **changes):
    """A directory with config.yaml and weights, as ESPnet writes them: names of files as in an `exp` folder.

    Args:
        folder: The directory.
        name: Name in `MODELS`.
        seed: Seed of the weights.
        factor: Factor of all weight matrices, so that scores differ.
        changes: Other values of the configuration.
    """
    given = {"decoder": "transformer", "decoder_conf": DECODER, "token_type": "char", "token_list": LETTERS}
    given |= {"frontend_conf": {"n_mels": 20}, "normalize": "utterance_mvn", "normalize_conf": {}}
    given |= MODELS[name] | changes
    task = given["task"] = given.get("task", "asr")
    if task == "s2t":
        given |= {"token_list": MULTITASK, "preprocessor_conf": PREPROCESSOR}
    parser = TASKS[task].get_parser()
    parser.set_defaults(**yaml.safe_load(yaml.safe_dump(given)))
    args = parser.parse_args([])
    torch.manual_seed(seed)
    model = TASKS[task].build_model(args)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    folder.mkdir(parents=True)
    checkpoint.save(model.state_dict(), folder / "valid.acc.ave.pth")
    save(vars(args), folder / "config.yaml")
    return folder
