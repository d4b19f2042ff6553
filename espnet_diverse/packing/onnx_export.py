"""ONNX export of encoder and CTC: features in, log probabilities of labels out, for any batch and length.

The graph begins after the frontend, with the normalisation of features where the model has one. Its input is log mel
features, computed as by the frontend; the metadata of the file holds the options of the frontend and the labels, and
what sherpa-onnx needs (`sherpa.py`). Joint search needs the decoder, which is not exported. The graph contains ESPnet's
table of 5000 positions: with 40 ms per position, inputs can have up to 200 seconds.

The cores are traced in the form that keeps attention weights: in plain steps, without blocks of scores. For a model
with head selection the graph contains the heads of one condition. The graph is compared with the model on batches of
other sizes than the traced example.
"""

import copy
import json
import logging
import warnings
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder
from espnet2.asr.encoder.e_branchformer_encoder import EBranchformerEncoder
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
from torch import Tensor, nn

from espnet_diverse.attention import MultiHeadAttention
from espnet_diverse.attention.pruning import prune_heads
from espnet_diverse.data.files.atomic_files import scratch_directory, write_text
from espnet_diverse.decoding.condition_ids import completed, known_conditions, warn_of_unused
from espnet_diverse.errors import ConfigError, ModelError, first_line
from espnet_diverse.nets.frontends.fused_frontend import FusedFrontends
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC
from espnet_diverse.onnx_runtime import import_onnxruntime
from espnet_diverse.packing import sherpa
from espnet_diverse.scope import scope

OPSET = 17
_FRAMES = 64  # of the example that the graph is traced with
_OTHERS = ([37], [64, 53, 40])  # frames of the utterances in batches for the comparison
_SAME = 1e-3
_ENCODERS = (TransformerEncoder, ConformerEncoder, EBranchformerEncoder)
_WRONG = (
    "this model cannot be exported to ONNX: the graph would be right for batches of one size alone; in an attention of "
    "your own, compute with the sizes of tensors (x.size), not with numbers made from them"
)
_INPUTS = {"features": {0: "batch", 1: "frames"}, "lengths": {0: "batch"}}
_OUTPUTS = {  # in the order of other programs, which know the first two by their places
    "log_probs": {0: "batch", 1: "positions"},
    "output_lengths": {0: "batch"},
    "encoded": {0: "batch", 1: "positions"},
}


class EncoderCTC(nn.Module):
    """The exported part of a model.

    Args:
        model: Model of speech recognition, or of speech translation with CTC over its text.
        task: "asr" or "st".

    Attributes:
        labels: Index of the token of each label; None where the labels are the tokens.

    Raises:
        ModelError: The model has no CTC over its text, or a part that cannot be exported.
    """

    def __init__(self, model: nn.Module, task: str):
        super().__init__()
        ctc = getattr(model, {"asr": "ctc", "st": "st_ctc"}.get(task, ""), None)
        if ctc is None:
            raise ModelError(f"a model of task {task} without CTC over its text cannot be exported; train one with CTC")
        if not isinstance(model.encoder, _ENCODERS):
            name = type(model.encoder).__name__
            raise ModelError(f"{name} cannot be exported; transformer, conformer and e_branchformer encoders can")
        if isinstance(model.frontend, HuggingFaceFrontend | FusedFrontends):
            name = type(model.frontend).__name__
            raise ModelError(f"a model with {name} cannot be exported: the graph begins after it; train one without it")
        parts = [name for name in ("preencoder", "postencoder") if getattr(model, name, None) is not None]
        if parts:
            raise ModelError(f"a model with a {parts[0]} cannot be exported; train one without it")
        if getattr(model.encoder, "by_segments", False):
            raise ModelError("an encoder with a memory cannot be exported; the graph would hold for one length alone")
        if getattr(model.encoder, "interctc_layer_idx", None):
            raise ModelError("an encoder with CTC between its layers (interctc_layer_idx) cannot be exported")
        self.normalize, self.encoder, self.project = model.normalize, model.encoder, ctc.ctc_lo
        self.labels: list[int] | None = ctc.token_of_label.tolist() if isinstance(ctc, ByteCTC) else None

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """features (B, T, F), lengths (B,) int64 -> log_probs (B, T', V), output_lengths (B,), encoded (B, T', M)."""
        if self.normalize is not None:
            features, lengths = self.normalize(features.clone(), lengths)
        encoded, lengths, _ = self.encoder(features, lengths)
        return self.project(encoded).log_softmax(-1), lengths, encoded


def export(model: nn.Module, args: Namespace, output: Path, conditions: Mapping[str, str], int8: bool = False) -> Path:
    """Write the graph of encoder and CTC, and its tokens in the form of sherpa-onnx beside it.

    Args:
        model: A loaded model; it is set to evaluation mode.
        args: Arguments that it was trained with.
        output: Path of the file.
        conditions: Values by condition for which the graph is made, where the encoder depends on them.
        int8: Whether to quantise the weights of linear layers to 8 bits with ONNX Runtime.

    Returns:
        `output`.

    Raises:
        ConfigError: The packages of the extra `onnx` are missing, or a condition is missing or unknown.
        DataError: A value of a condition is unknown.
        ModelError: The model cannot be exported, see `EncoderCTC`, or its graph would be wrong.
    """
    onnx = _import_onnx()
    task = getattr(args, "task", "asr")
    net, known = EncoderCTC(model.eval(), task).eval(), known_conditions(model)
    warn_of_unused(known, conditions, same_language=task == "asr")
    names = completed(known, conditions, same_language=task == "asr")  # `_check` fails if the encoder needs another
    ids = {condition: torch.tensor([known.names[condition].index(name)]) for condition, name in names.items()}
    features = model.frontend.output_size() if model.frontend is not None else args.input_size
    output.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(output) as folder:
        path = folder / "model.onnx"
        _check(net, ids, features, missing=known.names.keys() - ids)
        _trace(_pruned(net, ids), ids, features, path)
        _compare(net, ids, features, path)
        if int8:
            path = _quantise(path)
        graph = onnx.load(path)
        tokens = args.token_list if net.labels is None else [args.token_list[index] for index in net.labels]
        about = _metadata(args, tokens, features, names) | sherpa.metadata(model, tokens)
        onnx.helper.set_model_props(graph, about)
        onnx.checker.check_model(graph)
        onnx.save(graph, path)
        write_text(tokens_path(output), sherpa.tokens_text(tokens))
        path.replace(output)
    return output


def tokens_path(output: Path) -> Path:
    """The file of tokens of a graph: model.tokens.txt of model.onnx."""
    return output.with_suffix(".tokens.txt")


def _import_onnx() -> ModuleType:
    try:
        import_onnxruntime()  # for checks and quantisation
        import onnx
        import onnxscript  # noqa: F401  needed by torch.onnx
    except ImportError as error:
        raise ConfigError(f"ONNX needs {error.name}; install it: pip install 'espnet_diverse[onnx]'") from error
    return onnx


@torch.no_grad()
def _check(net: EncoderCTC, ids: Mapping[str, Tensor], features: int, missing: Collection[str]) -> None:
    """Compute the example of the graph; `missing` are conditions of the model that have no index."""
    with scope(ids, keep_attention=True, collect=False):
        try:
            net(*_example(features))
        except ValueError as error:
            if not missing:
                raise ModelError(f"a model that fails on {_FRAMES} frames cannot be exported: {error}") from error
            todo = "give it by --language, --target_language or --domain"
            raise ConfigError(f"the graph is for one language or domain: {error}; {todo}") from error


def _example(features: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(2, _FRAMES, features), torch.tensor([_FRAMES, _FRAMES - 14])


@torch.no_grad()
def _pruned(net: EncoderCTC, ids: Mapping[str, Tensor]) -> EncoderCTC:
    """A copy with the heads of one condition."""
    net = copy.deepcopy(net)
    with scope(ids, collect=False):
        for module in list(net.modules()):
            if isinstance(module, MultiHeadAttention):
                prune_heads(module)
    return net


@torch.no_grad()
def _trace(net: EncoderCTC, ids: Mapping[str, Tensor], features: int, path: Path) -> None:
    with scope(ids, keep_attention=True, collect=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer, about sizes that are constants by intent
        try:
            torch.onnx.export(
                net,
                _example(features),
                path,
                dynamo=False,  # the newer exporter makes sizes that select a code path constant
                opset_version=OPSET,
                input_names=list(_INPUTS),
                output_names=list(_OUTPUTS),
                dynamic_axes=_INPUTS | _OUTPUTS,
            )
        except (ValueError, RuntimeError) as error:
            raise ModelError(f"this model cannot be exported to ONNX: {first_line(error)}") from error


@torch.no_grad()
def _compare(net: EncoderCTC, ids: Mapping[str, Tensor], features: int, path: Path) -> None:
    """Check that the graph gives the same results as the model for other batches than the example."""
    session = import_onnxruntime().InferenceSession(path)
    generator = torch.Generator().manual_seed(0)
    for frames in _OTHERS:
        inputs = torch.randn(len(frames), max(frames), features, generator=generator), torch.tensor(frames)
        with scope(ids, collect=False):
            expected, lengths, _ = net(*inputs)
        try:
            outputs = session.run(["log_probs"], {name: x.numpy() for name, x in zip(_INPUTS, inputs, strict=True)})[0]
        except Exception as error:  # ONNX Runtime has its own classes, which derive only from Exception
            raise ModelError(_WRONG) from error
        pairs = zip(expected.numpy(), outputs, lengths, strict=True)
        if not all(np.allclose(reference[:length], output[:length], atol=_SAME) for reference, output, length in pairs):
            raise ModelError(_WRONG)


def _quantise(path: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantised = path.with_name("int8.onnx")
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # it recommends preparations that do not change the result
    kinds = {"op_types_to_quantize": ["MatMul", "Gemm"], "weight_type": QuantType.QInt8}
    try:
        # Weights in 7 of the 8 bits: otherwise 16-bit sums overflow on CPUs without VNNI.
        quantize_dynamic(path, quantised, reduce_range=True, **kinds)
    finally:
        logging.root.setLevel(level)
    return quantised


def _metadata(args: Namespace, tokens: Sequence[str], features: int, conditions: Mapping[str, str]) -> dict[str, str]:
    """Metadata for running the graph; values that are not strings become JSON."""
    content = {
        "tokens": tokens,
        "blank": 0,
        "features": features,
        "frontend": args.frontend,
        "frontend_conf": args.frontend_conf,
        "conditions": dict(conditions),
    }
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in content.items()
    }
