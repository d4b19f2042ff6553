"""One training step of a speech recogniser: ESPnet's transformer, and ours with each attention in all its layers.

A step consists of the operations of ESPnet's trainer for a batch: forward with CTC, label-smoothed cross-entropy and
all losses of the attention modules, backward, gradient clipping, Adam. Ours has the linear maps and dropouts that
`train` takes on a CPU (`fast_on_cpu`), ESPnet's has its own. The input are random features.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from modules import MODIFIERS, half_way
from torch import Tensor, nn

FEATURES, CHARACTERS = 80, 4233
SIZES = {
    "6x6/256/1024": [],
    "12x6/256/2048": [
        "encoder_conf.num_blocks=12",
        "encoder_conf.linear_units=2048",
        "decoder_conf.linear_units=2048",
    ],
    "1x1/32/64": [
        *("encoder_conf.num_blocks=1", "encoder_conf.output_size=32", "encoder_conf.linear_units=64"),
        *("decoder_conf.num_blocks=1", "decoder_conf.linear_units=64"),
    ],
}
"""Layers of encoder x decoder / width / feed-forward width: changes of the fragment model/transformer_6x6."""
STANDARD = ("6x6/256/1024", "12x6/256/2048")
"""Sizes of models that are trained; the other one is for tests."""
ESPNET = ["encoder=transformer", "decoder=transformer"]
"""The nets of ESPnet in place of ours."""
SDPA = ["encoder_conf.use_sdpa=true", "decoder_conf.use_sdpa=true"]
"""PyTorch's fused attention in them, which is quicker and not the default."""
STEPS = {
    **{name: ["attention/softmax", f"modifiers/{name}"] for name in MODIFIERS},
    **{name: ["attention/softmax", f"losses/{name}"] for name in ("r_drop", "cr_ctc")},
    "token": ["attention/softmax", "heads/token"],
}
"""Fragments of what is no core; two passes of r_drop and cr_ctc are a step."""
_ESPNET = {"espnet": [*ESPNET, *SDPA, "model=espnet"], "espnet_default": [*ESPNET, "model=espnet"]}


def contestants(
    names: Sequence[str], size: str, shape: tuple[int, int], device: torch.device, dtype: torch.dtype
) -> dict[str, Callable[[], None]]:
    """Training steps of models of one of `SIZES`.

    Args:
        names: "espnet" with `use_sdpa`, "espnet_default" without it, names of `STEPS`, or fragments of conf/attention.
        size: Size of the models.
        shape: Number of utterances, and the longest one's frames after subsampling.
        device: Device of models and data.
        dtype: Precision; all but float32 by autocast.
    """
    data = {name: value.to(device) for name, value in batch_of(*shape).items()}

    def step(name: str) -> Callable[[], None]:
        if name in _ESPNET:
            return step_of(*build([], SIZES[size] + _ESPNET[name]), data, device, dtype, ours=False)
        return step_of(*build(STEPS.get(name, [f"attention/{name}"]), SIZES[size]), data, device, dtype)

    return {name: step(name) for name in names}


def build(attention: list[str], overrides: list[str]) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model with the fragments of `attention` and changed values, and its optimizer."""
    # Imported here, so that `--help` does not wait for ESPnet.
    from espnet_diverse.attention import set_updates_of_run
    from espnet_diverse.runs.config import merge
    from espnet_diverse.training.loop.tasks import TASKS

    parser = TASKS["asr"].get_parser()
    parser.set_defaults(**merge(["model/transformer_6x6", *attention, "update/adam_noam_25k"], overrides))
    args = parser.parse_args([])
    args.input_size, args.token_list = FEATURES, [f"character{i}" for i in range(CHARACTERS)]
    torch.manual_seed(0)
    model = TASKS["asr"].build_model(args)
    half_way(model)
    set_updates_of_run(model, 10_000)  # of schedules that are a share of a run
    return model, TASKS["asr"].build_optimizers(args, model)[0]


def batch_of(batch: int, time: int) -> dict[str, Tensor]:
    """Utterances of 0.9 `time` to `time` frames of 40 ms after subsampling by 4, with 3 characters a second."""
    torch.manual_seed(0)
    frames = 4 * torch.linspace(time, 0.9 * time, batch).round().long() + 3
    characters = (frames * 0.03).long().clamp(min=2)
    text = torch.randint(2, CHARACTERS - 1, (batch, int(characters.max())))
    padding = torch.arange(text.size(1)) >= characters.unsqueeze(1)
    return {
        "speech": torch.randn(batch, int(frames.max()), FEATURES),
        "speech_lengths": frames,
        "text": text.masked_fill(padding, -1),
        "text_lengths": characters,
    }


def step_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: dict[str, Tensor],
    device: torch.device,
    dtype: torch.dtype,
    change_gradients: Callable[[], None] = lambda: None,
    ours: bool = True,
) -> Callable[[], None]:
    """A training step of `model` on `data`, as a call.

    Args:
        model: The model.
        optimizer: Its optimizer.
        data: A batch.
        device: Device of the model; `data` is there.
        dtype: Precision; all but float32 by autocast.
        change_gradients: Called before gradients are clipped.
        ours: Whether linear maps and dropouts are those of our `train`, or those of PyTorch as in ESPnet's trainer.
    """
    from espnet_diverse.training.loop.cpu_layers import fast_on_cpu

    model.to(device).train()

    def step() -> None:
        layers = fast_on_cpu(model) if ours else nullcontext()
        with layers, torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            loss, _, _ = model(**data)
        loss.backward()
        change_gradients()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
