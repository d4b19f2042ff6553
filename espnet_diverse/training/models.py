"""ESPnet's models with the losses of diverse attention: one mixin, five classes."""

from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.lm.espnet_model import ESPnetLanguageModel
from espnet2.mt.espnet_model import ESPnetMTModel
from espnet2.s2t.espnet_model import ESPnetS2TModel
from espnet2.st.espnet_model import ESPnetSTModel
from espnet2.torch_utils.device_funcs import force_gatherable
from torch import Tensor

from espnet_diverse.scope import current, scope


class Diverse:
    """Before a model of ESPnet in the bases: adds what attention modules collect during the forward pass."""

    def forward(self, *args, **kwargs) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """ESPnet's arguments -> loss (1,), statistics (1,) each, weight (1,).

        The statistics gain `loss_task`, the loss of ESPnet's model alone, `aux_<name>` for each loss of the attention
        modules, and their statistics by name.
        """
        with scope(keep_attention=current().keep_attention) as shared:
            loss, stats, weight = super().forward(*args, **kwargs)
        stats["loss_task"] = loss.detach()
        loss = loss + shared.total_loss()
        stats["loss"] = loss.detach()
        added = {f"aux_{name}": value.detach() for name, value in shared.losses().items()} | shared.stats()
        return loss, stats | force_gatherable(added, loss.device), weight


class DiverseASRModel(Diverse, ESPnetASRModel):
    """Speech recognition by CTC and attention."""


class DiverseSTModel(Diverse, ESPnetSTModel):
    """Speech translation."""


class DiverseMTModel(Diverse, ESPnetMTModel):
    """Text translation."""


class DiverseLanguageModel(Diverse, ESPnetLanguageModel):
    """Language model."""


class DiverseS2TModel(Diverse, ESPnetS2TModel):
    """Multitask speech to text (OWSM)."""


MODELS = {
    "asr": DiverseASRModel,
    "st": DiverseSTModel,
    "mt": DiverseMTModel,
    "lm": DiverseLanguageModel,
    "s2t": DiverseS2TModel,
}
