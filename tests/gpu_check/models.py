"""Training steps and searches of whole models on a device that only claims to be a GPU."""

import copy
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from gpu_check.device import move, shapes_of_operands
from references.whisper import write_whisper

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.decoding.streaming.block_search import BlockSearch
from espnet_diverse.runs.packed.whisper import write_run
from espnet_diverse.runs.tasks import TASKS, load_model
from espnet_diverse.training.loop.trainer import Loop, Trainer

TOKENS = ["<blank>", "<unk>", *"abcdefgh", "<sos/eos>"]
LANGUAGES = {"lang": ["de", "en"]}
_NET = {"attention_heads": 4, "linear_units": 16, "num_blocks": 2}
_ENCODER = _NET | {"output_size": 8}
_GROUP = {"strategy": "group", "pool": 8, "conditions": LANGUAGES}
_PLAIN = {"core": "softmax"}


def _speech(
    encoder: str = "diverse_transformer",
    attention: Mapping = _PLAIN,
    decoder_attention: Mapping = _PLAIN,
    cross: Mapping = _PLAIN,
    task: str = "asr",
    model_conf: Mapping | None = None,
    encoder_conf: Mapping | None = None,
    decoder_conf: Mapping | None = None,
    **changed,
) -> tuple[str, dict]:
    ctc = {"ctc_weight": 0.3} | (
        {"report_cer": False, "report_wer": False} if task == "asr" else {"report_bleu": False}
    )
    attentions = {"attention": decoder_attention, "cross_attention": cross}
    return task, {
        "token_list": TOKENS,
        "token_type": "char",
        "frontend": "default",
        "frontend_conf": {"fs": 16000, "n_fft": 512, "hop_length": 160, "n_mels": 20},
        "specaug": None,
        "normalize": "utterance_mvn",
        "encoder": encoder,
        "encoder_conf": _ENCODER | {"attention": attention} | (encoder_conf or {}),
        "decoder": "diverse_transformer",
        "decoder_conf": _NET | attentions | (decoder_conf or {}),
        "model": "diverse",
        "model_conf": ctc | (model_conf or {}),
    } | changed


def _text(encoder_conf: Mapping | None = None, decoder_conf: Mapping | None = None, **changed) -> tuple[str, dict]:
    return "mt", {
        "token_list": TOKENS,
        "src_token_list": TOKENS,
        "token_type": "char",
        "src_token_type": "char",
        "frontend": "embed",
        "frontend_conf": {"embed_dim": 8},
        "encoder": "diverse_transformer",
        "encoder_conf": _ENCODER | {"input_layer": None} | (encoder_conf or {}),
        "decoder": "diverse_transformer",
        "decoder_conf": _NET | (decoder_conf or {}),
        "model": "diverse",
    } | changed


def _language_model(**net) -> tuple[str, dict]:
    sizes = {"embed_unit": 8, "att_unit": 8, "head": 2, "unit": 8, "layer": 2}
    return "lm", {
        "token_list": TOKENS,
        "lm": "diverse_transformer",
        "lm_conf": sizes | net,
        "model": "diverse",
    }


def _everywhere(**attention) -> tuple[str, dict]:
    return _speech(attention=attention, decoder_attention=attention, cross=attention)


def _selected(**attention) -> tuple[str, dict]:
    chosen = {"core": "softmax", "selection": _GROUP} | attention
    return _speech(attention=chosen, decoder_attention=chosen, cross=chosen, model_conf={"conditions": LANGUAGES})


def _memory(kind: str) -> dict:
    return {"memory": {"kind": kind, "segment": 4, "slots": 4}}


_LORA = {"use_adapter": True, "adapter": "lora", "save_strategy": "all"}
_OF_LANGUAGE = {"by": "lang", "conditions": LANGUAGES}
_WHISPER_TOKENS = [*TOKENS[:-1], "<de>", "<en>", "<transcribe>", "<translate>", "<notimestamps>", "<sos>", "<sos/eos>"]

MODELS: dict[str, tuple[str, dict]] = {
    "softmax": _speech(),
    "sma": _everywhere(core="sma"),
    "sdma": _everywhere(core="sdma"),
    "gated": _everywhere(core="gated"),
    "differential": _everywhere(core="differential"),
    "talking heads": _everywhere(core="talking_heads"),
    "value residual": _speech(attention={"core": "value_residual"}),
    "SAN-M": _speech(attention={"core": "sanm"}),
    "lambda": _everywhere(core="lambda_attention"),
    "random features": _everywhere(core="random_features", redraw_interval=2),
    "window": _speech(attention={"core": "window", "window": 2}, decoder_attention={"core": "window", "window": 2}),
    "BigBird": _speech(attention={"core": "bigbird", "block_size": 2}),
    "Linformer": _speech(attention={"core": "linformer", "max_length": 100, "compressed_length": 4}),
    "Luna": _speech(attention={"core": "luna"}, cross={"core": "luna"}),
    "head patterns": _speech(
        attention=_PLAIN | {"head_patterns": ["global", {"window": 2}, "forward", "backward"], "qk_norm": {}},
        decoder_attention=_PLAIN | {"head_patterns": ["global", "previous"]},
    ),
    "patterns of one key": _speech(attention=_PLAIN | {"head_patterns": ["previous", "global", "next", "start"]}),
    "rotary, dropped and relaxed heads": _speech(
        attention=_PLAIN | {"position": "rotary", "drop_heads": {}, "relaxed": {}, "routing": {}, "dex": {}}
    ),
    "heads by language": _selected(),
    "heads by language, patterns": _selected(head_patterns=["global", {"window": 2}]),
    "heads by language, SDMA subset": _selected(core="sdma", selection=_GROUP | {"strategy": "subset"}),
    "conformer, R-Drop, CR-CTC": _speech(
        "diverse_conformer", model_conf={"consistency": {"r_drop": 1.0, "cr_ctc": 0.2}}
    ),
    "E-Branchformer": _speech("diverse_e_branchformer"),
    "contextual blocks": _speech("diverse_contextual_block_transformer"),
    "CDT memory": _speech(encoder_conf=_memory("cdt")),
    "Compressive memory": _speech(encoder_conf=_memory("compressive")),
    "Transformer-XL memory": _speech(encoder_conf=_memory("xl")),
    "decoder with CDT memory": _speech(decoder_conf={"memory": {"kind": "cdt", "segment": 2, "slots": 2}}),
    "adapters by language": _speech(
        encoder_conf={"adapter": {"bottleneck": 4} | _OF_LANGUAGE}, model_conf={"conditions": LANGUAGES}
    ),
    "LoRA": _speech(**_LORA, adapter_conf={"target_modules": ["linear_q", "linear_v"]}),
    "LoRA by language": _speech(
        **_LORA,
        adapter_conf={"target_modules": ["linear_q", "linear_v"], "use_dora": True} | _OF_LANGUAGE,
        model_conf={"conditions": LANGUAGES},
    ),
    "speech translation": _speech(task="st", src_token_list=TOKENS),
    "text translation": _text(),
    "text translation, FlowSeq": _text(
        decoder="flow", model="flow", decoder_conf={"flow": {"latent": 4, "groups": 2, "steps": 2}}
    ),
    "text, autoencoder": _text(decoder="vae", model="vae", decoder_conf={"latent": {"size": 4}}),
    "language model": _language_model(attention={"core": "sdma"}),
    "language model, CDT memory": _language_model(**_memory("cdt")),
    "classifier": (
        "cls",
        {
            "token_list": TOKENS,
            "classifier": "transformer",
            "classifier_conf": _ENCODER | {"by": ["domain"], "conditions": {"domain": ["0", "1"]}, "pooling_width": 4},
            "model": "diverse",
            "model_conf": {"conditions": {"domain": ["0", "1"]}},
        },
    ),
}


def build(name: str) -> tuple[str, torch.nn.Module, Namespace]:
    """Return the task of one of `MODELS`, the model and its arguments."""
    task, options = MODELS[name]
    args = TASKS[task].get_parser().parse_args([])
    vars(args).update(options)
    torch.manual_seed(0)
    return task, TASKS[task].build_model(args), args


def batches(task: str, model: torch.nn.Module, steps: int) -> list[tuple[list[str], dict[str, torch.Tensor]]]:
    """Return batches of a training in pinned memory, as its loader gives them; the first has one value a condition."""
    found = []
    for number in range(steps):
        random = torch.Generator().manual_seed(number)
        tokens = torch.randint(2, len(TOKENS) - 1, (2, 6), generator=random)
        batch = text = {"text": tokens, "text_lengths": torch.tensor([6, 4])}
        if task in ("asr", "st"):
            lengths = torch.tensor([16000, 12000])
            batch = batch | {"speech": torch.randn(2, 16000, generator=random), "speech_lengths": lengths}
        if task in ("st", "mt"):
            batch = batch | {f"src_{key}": value for key, value in text.items()}
        for condition in model.conditions:
            index = torch.tensor([[0], [min(number, 1)]])
            batch = batch | {condition: index, f"{condition}_lengths": torch.ones(2, dtype=torch.long)}
        found.append((["a", "b"], {key: value.pin_memory() for key, value in batch.items()}))
    return found


def train(model: torch.nn.Module, args: Namespace, data: list, use_amp: bool = False, wrapped: bool = False) -> None:
    """Train a model for an epoch with the loop of our trainer.

    Args:
        model: The model.
        args: Its arguments.
        data: Its batches.
        use_amp: Whether in bfloat16.
        wrapped: Whether a wrapper that copies inputs as DistributedDataParallel does is around the model.
    """
    args.output_dir, args.repulsion = "", None
    model = move(model)
    with TemporaryDirectory() as folder:
        changed = {"ngpu": 1, "use_amp": use_amp, "output_dir": folder, "grad_clip": 5.0, "max_epoch": 1}
        options = replace(Trainer.build_options(args), **changed)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        loop = Loop(model, [optimizer], [None], options)
        if wrapped:
            loop.updates._parallel = CopiesInputs(loop.updates._parallel)
        with loop.reporter.observe("train", 2) as statistics:  # the first epoch of a run also samples its parameters
            loop.train_epoch(data, statistics)


class CopiesInputs(torch.nn.Module):
    """Copies inputs to the device before the module gets them, as DistributedDataParallel does."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *inputs, **named):
        device = torch.device("cuda", 0)
        (inputs,), (named,) = torch.distributed.utils._to_kwargs(inputs, named, device, False)
        return self.module(*inputs, **named)


def samples(size: int) -> np.ndarray:
    return torch.randn(size, generator=torch.Generator().manual_seed(size)).numpy()


def search(task: str, model: torch.nn.Module, args: Namespace, **options) -> None:
    """Search for the texts of a batch, which are those of the CPU; with conditions, of samples that have two values."""
    found = []
    for device, placed in (("cpu", copy.deepcopy(model)), ("cuda", move(model))):
        predictor = Predictor(placed, args, task, SearchOptions(batch_size=2, **options), device=device)
        found.append([text for each in predictor.batch(*_two_samples(predictor, task)) for text in each])
    for ours, expected in zip(*found, strict=True):
        assert ours.tokens == expected.tokens and abs(ours.score - expected.score) < 1e-3, (ours, expected)


def search_twice(task: str, model: torch.nn.Module, args: Namespace, **options) -> None:
    """Search for the texts of two batches of the same lengths, with operands of the same shapes."""
    predictor = Predictor(move(model), args, task, SearchOptions(batch_size=2, **options), device="cuda")
    shapes = []
    for scale in (1, 1, 2):  # the first copies tables of positions
        sources, conditions = _two_samples(predictor, task, scale)
        with shapes_of_operands() as seen:
            predictor.batch(sources, conditions)
        shapes.append(seen)
    for first, second in zip(*shapes[1:], strict=True):
        assert first == second, f"shapes depend on values: {first}, {second}"


def _two_samples(predictor: Predictor, task: str, scale: int = 1) -> tuple[list[np.ndarray], list[dict[str, int]]]:
    if task == "mt":
        sources = [np.array([2, 3, 4, 5]) // scale + 1, np.array([3, 4]) // scale + 1]
    else:
        sources = [predictor.features(samples(size) ** scale) for size in (16000, 12000)]
    return sources, [dict.fromkeys(predictor.conditions.names, index) for index in (0, 1)]


def align_text(task: str, model: torch.nn.Module, args: Namespace) -> None:
    """Align a text by CTC, or by attention."""
    predictor = Predictor(move(model), args, task, SearchOptions(), device="cuda")
    predictor.spans(predictor.features(samples(16000)), dict.fromkeys(predictor.conditions.names, 0), [3, 4])


def stream(model: torch.nn.Module, args: Namespace) -> None:
    """Recognise a stream of samples part by part."""
    recogniser = BlockSearch(
        move(model), args, SearchOptions(beam_size=2, ctc_weight=0.3, lm_weight=0.0), device="cuda"
    )
    for number in range(4):
        recogniser.add(samples(16000), last=number == 3)


def whisper(folder: Path, ctc_weight: float = 0.0) -> tuple[str, torch.nn.Module, Namespace]:
    """Return the task, a small adopted Whisper model with random weights and its arguments; CTC is over bytes."""
    (folder / "run").mkdir()
    write_run(write_whisper(folder / "whisper"), folder / "run")
    model, args = load_model(folder / "run")
    if ctc_weight:
        args.model_conf |= {"ctc_weight": ctc_weight}
        model = TASKS["asr"].build_model(args)
    return "asr", model, args
