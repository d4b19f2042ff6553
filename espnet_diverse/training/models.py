"""ESPnet's models with the losses of diverse attention: one mixin, five classes."""

from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.lm.espnet_model import ESPnetLanguageModel
from espnet2.mt.espnet_model import ESPnetMTModel
from espnet2.s2t.espnet_model import ESPnetS2TModel
from espnet2.st.espnet_model import ESPnetSTModel
from espnet2.torch_utils.device_funcs import force_gatherable
from torch import Tensor

from espnet_diverse.nets.adapter import freeze_base
from espnet_diverse.nets.exchange import signature_with
from espnet_diverse.scope import AXES, current, scope


class Diverse:
    """Before a model of ESPnet in the bases: adds what attention modules collect during the forward pass.

    Args:
        args: ESPnet's.
        tasks: Names of each axis of tasks that the model needs, in the order of their indices; None is none.
        options: ESPnet's.
    """

    def __init__(self, *args, tasks: dict[str, list[str]] | None = None, **options):
        super().__init__(*args, **options)
        self.tasks = tasks or {}
        freeze_base(self)  # where there are adapters that ask for it

    def forward(self, *args, **kwargs) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """ESPnet's arguments, and indices of tasks (B, 1) by axis -> loss (1,), statistics (1,) each, weight (1,).

        The statistics gain `loss_task`, the loss of ESPnet's model alone, `aux_<name>` for each loss of the attention
        modules, and their statistics by name.
        """
        indices = {axis: kwargs.pop(axis)[:, 0] for axis in AXES if axis in kwargs}
        for axis in indices:
            kwargs.pop(f"{axis}_lengths", None)
        around = current()
        with scope(around.tasks | indices, around.keep_attention) as shared:
            loss, stats, weight = super().forward(*args, **kwargs)
        stats["loss_task"] = loss.detach()
        loss = loss + shared.total_loss()
        stats["loss"] = loss.detach()
        added = {f"aux_{name}": value.detach() for name, value in shared.losses().items()} | shared.stats()
        return loss, stats | force_gatherable(added, loss.device), weight


class DiverseASRModel(Diverse, ESPnetASRModel):
    """Speech recognition by CTC and attention."""

    __signature__ = signature_with(ESPnetASRModel, tasks=None)


class DiverseSTModel(Diverse, ESPnetSTModel):
    """Speech translation.

    Args:
        args: ESPnet's.
        ctc_weight: Share of the CTC loss over the translation, as in speech recognition; ESPnet calls it st_mtlalpha.
        options: ESPnet's, and `tasks`.
    """

    __signature__ = signature_with(ESPnetSTModel, tasks=None, ctc_weight=None)

    def __init__(self, *args, ctc_weight: float | None = None, **options):
        if ctc_weight is not None:
            options["st_mtlalpha"] = ctc_weight
        super().__init__(*args, **options)


class DiverseMTModel(Diverse, ESPnetMTModel):
    """Text translation."""

    __signature__ = signature_with(ESPnetMTModel, tasks=None)


class DiverseLanguageModel(Diverse, ESPnetLanguageModel):
    """Language model."""

    __signature__ = signature_with(ESPnetLanguageModel, tasks=None)


class DiverseS2TModel(Diverse, ESPnetS2TModel):
    """Multitask speech to text (OWSM)."""

    __signature__ = signature_with(ESPnetS2TModel, tasks=None)


MODELS = {
    "asr": DiverseASRModel,
    "st": DiverseSTModel,
    "mt": DiverseMTModel,
    "lm": DiverseLanguageModel,
    "s2t": DiverseS2TModel,
}
