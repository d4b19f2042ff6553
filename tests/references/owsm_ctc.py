"""A small untrained multitask model of CTC alone, in the form in which ESPnet's own `s2t_train_ctc` leaves OWSM-CTC."""

import io

import sentencepiece
import torch
import yaml
from espnet2.tasks.s2t_ctc import S2TTask

from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import save

RATE, SECONDS = 16_000, 6
LANGUAGES = ["eng", "deu", "jpn"]
SYMBOLS = ["<na>", "<nolang>", *(f"<{name}>" for name in LANGUAGES), "<asr>", "<st_deu>"]
WEIGHTS = "valid.loss.ave.pth"
CONFIG = {
    "encoder": "e_branchformer_ctc",
    "encoder_conf": {
        **{"output_size": 16, "attention_heads": 2, "cgmlp_linear_units": 24, "cgmlp_conv_kernel": 3, "num_blocks": 3},
        **{"input_layer": "conv2d8", "use_ffn": True, "macaron_ffn": True, "linear_units": 24},
        **{"interctc_layer_idx": [1, 2], "interctc_use_conditioning": True},
        "use_cross_attention": [False, True, True],
    },
    "promptencoder_conf": {"output_size": 12, "attention_heads": 2, "linear_units": 16, "num_blocks": 1},
    "model_conf": {"interctc_weight": 0.5, "ctc_asr_only": [True, False, False]},
    "frontend_conf": {"fs": "16k", "hop_length": 160, "n_mels": 20},
    "preprocessor_conf": {"fs": RATE, "speech_length": SECONDS},
    "token_type": "bpe",
}


def pieces(folder):
    """The tokens of the model; its sentencepiece model is written to `folder`."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ab cd ef gh", "abcd efgh ab", "cdef ghab"]),
        model_writer=model,
        model_type="bpe",
        vocab_size=35,
        user_defined_symbols=SYMBOLS,
        minloglevel=2,
    )
    (folder / "bpe.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    plain = [processor.id_to_piece(i) for i in range(len(processor)) if not processor.is_control(i)]
    return ["<blank>", "<unk>", *SYMBOLS, *(p for p in plain[1:] if p not in SYMBOLS), "<sos>", "<eos>", "<sop>"]


def write_ctc_model(folder, seed=0, factor=2.5, **changes):
    """A directory with config.yaml, weights and the sentencepiece model; it has no key that ESPnet does not write.

    Args:
        folder: The directory.
        seed: Seed of the weights.
        factor: Factor of all weight matrices, so that scores differ.
        changes: Other values of the configuration; a section is merged.
    """
    folder.mkdir(parents=True)
    given = {"token_list": pieces(folder), "bpemodel": str(folder / "bpe.model"), **CONFIG}
    for key, value in changes.items():
        given[key] = {**given.get(key, {}), **value} if isinstance(value, dict) else value
    parser = S2TTask.get_parser()
    parser.set_defaults(**yaml.safe_load(yaml.safe_dump(given)))
    args = parser.parse_args([])
    torch.manual_seed(seed)
    model = S2TTask.build_model(args)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    checkpoint.save(model.state_dict(), folder / WEIGHTS)
    save(vars(args), folder / "config.yaml")
    return folder
