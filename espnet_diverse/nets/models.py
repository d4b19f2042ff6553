"""ESPnet's models with the losses of diverse attention: one mixin, five classes."""

from collections.abc import Mapping

from espnet.nets.pytorch_backend.nets_utils import th_accuracy
from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.lm.espnet_model import ESPnetLanguageModel
from espnet2.mt.espnet_model import ESPnetMTModel
from espnet2.s2t.espnet_model import ESPnetS2TModel
from espnet2.st.espnet_model import ESPnetSTModel
from espnet2.torch_utils.device_funcs import force_gatherable
from torch import Tensor

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.nets.adapter import freeze_base
from espnet_diverse.nets.label_smoothing import exchange_losses
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.scope import current, scope


class Diverse:
    """Before a model of ESPnet in the bases: adds what attention modules collect during the forward pass.

    Args:
        args: ESPnet's.
        conditions: Names of each condition of conditions that the model needs, in the order of their indices; None is
            none.
        options: ESPnet's.
    """

    def __init__(self, *args, conditions: dict[str, list[str]] | None = None, **options):
        super().__init__(*args, **options)
        self.conditions = conditions or {}
        exchange_losses(self)
        freeze_base(self)  # where there are adapters that ask for it

    def forward(self, *args, **kwargs) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """ESPnet's arguments, and indices of conditions (B, 1) by condition -> loss (1,), statistics (1,) each, weight
        (1,).

        The statistics gain `loss_task`, the loss of ESPnet's model alone, `aux_<name>` for each loss of the attention
        modules, and their statistics by name.
        """
        indices = {condition: kwargs.pop(condition)[:, 0] for condition in CONDITIONS if condition in kwargs}
        for condition in indices:
            kwargs.pop(f"{condition}_lengths", None)
        around = current()
        with scope(around.conditions | indices, around.keep_attention) as shared:
            loss, stats, weight = super().forward(*args, **kwargs)
        stats["loss_task"] = loss.detach()
        loss = loss + shared.total_loss()
        stats["loss"] = loss.detach()
        added = {f"aux_{name}": value.detach() for name, value in shared.losses().items()} | shared.stats()
        return loss, stats | force_gatherable(added, loss.device), weight


class DiverseASRModel(Diverse, ESPnetASRModel):
    """Speech recognition by CTC and attention."""

    __signature__ = signature_with(ESPnetASRModel, conditions=None)


class DiverseSTModel(Diverse, ESPnetSTModel):
    """Speech translation.

    Args:
        args: ESPnet's.
        ctc_weight: Share of the CTC loss over the translation, as in speech recognition; ESPnet calls it st_mtlalpha.
        options: ESPnet's, and `conditions`.

    Raises:
        ConfigError: The share is given under both names.
    """

    __signature__ = signature_with(ESPnetSTModel, conditions=None, ctc_weight=None)

    def __init__(self, *args, ctc_weight: float | None = None, **options):
        if ctc_weight is not None:
            if "st_mtlalpha" in options:
                raise ConfigError(f"ctc_weight {ctc_weight} and st_mtlalpha {options['st_mtlalpha']} are one; give one")
            options["st_mtlalpha"] = ctc_weight
        super().__init__(*args, **options)


class DiverseMTModel(Diverse, ESPnetMTModel):
    """Text translation.

    Args:
        args: ESPnet's.
        report_bleu: Whether validation reports BLEU of the tokens that are most likely after those of the reference.
        options: ESPnet's, and `conditions`.

    Raises:
        ConfigError: Embeddings are to be shared that are of different vocabularies or widths.
    """

    __signature__ = signature_with(ESPnetMTModel, conditions=None)

    def __init__(self, *args, report_bleu: bool = False, **options):
        _check_shared(options)
        super().__init__(*args, report_bleu=report_bleu, **options)

    # ESPnet's two methods, with our `add_sos_eos`: it has no loop that makes the CPU wait for the GPU.

    def _extract_feats(self, src_text: Tensor, src_text_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (B, T) with their lengths (B,) -> embeddings (B, T + patch_size, M) with theirs."""
        src_text = src_text[:, : src_text_lengths.max()]
        tokens, _ = add_sos_eos(src_text, self.src_sos, self.src_eos, self.ignore_id, repeat=self.patch_size)
        lengths = src_text_lengths + self.patch_size
        return (tokens, lengths) if self.frontend is None else self.frontend(tokens, lengths)

    def _calc_mt_att_loss(
        self, encoder_out: Tensor, encoder_out_lens: Tensor, ys_pad: Tensor, ys_pad_lens: Tensor
    ) -> tuple[Tensor, float, float | None]:
        """Loss, accuracy and, in validation with `report_bleu`, BLEU of the decoder, given the reference ys_pad (B, T)."""
        inputs, targets = add_sos_eos(ys_pad, self.sos, self.eos, self.ignore_id)
        scores, _ = self.decoder(encoder_out, encoder_out_lens, inputs, ys_pad_lens + 1)
        loss = self.criterion_mt(scores, targets)
        accuracy = th_accuracy(scores.view(-1, self.vocab_size), targets, ignore_label=self.ignore_id)
        if self.training or self.mt_error_calculator is None:
            return loss, accuracy, None
        return loss, accuracy, self.mt_error_calculator(scores.argmax(dim=-1).cpu(), ys_pad.cpu())


class DiverseLanguageModel(Diverse, ESPnetLanguageModel):
    """Language model."""

    __signature__ = signature_with(ESPnetLanguageModel, conditions=None)


class DiverseS2TModel(Diverse, ESPnetS2TModel):
    """Multitask speech to text (OWSM)."""

    __signature__ = signature_with(ESPnetS2TModel, conditions=None)


def _check_shared(options: Mapping) -> None:
    """ESPnet only warns of embeddings that cannot be shared, and takes two vocabularies of one size for one."""
    if not options.get("share_encoder_decoder_input_embed"):
        return
    if list(options["src_token_list"]) != list(options["token_list"]):
        sizes = f"{len(options['src_token_list'])} and {len(options['token_list'])} tokens"
        raise ConfigError(
            f"share_encoder_decoder_input_embed: the vocabularies differ ({sizes}); share one, or set false"
        )
    if not hasattr(options["frontend"], "embed"):
        raise ConfigError("share_encoder_decoder_input_embed: the frontend has no embeddings of its own; set false")
    widths = [options[part].embed[0].embedding_dim for part in ("frontend", "decoder")]
    if widths[0] != widths[1]:
        raise ConfigError(
            f"share_encoder_decoder_input_embed: frontend_conf.embed_dim is {widths[0]}, and the width {widths[1]}"
        )


MODELS = {
    "asr": DiverseASRModel,
    "st": DiverseSTModel,
    "mt": DiverseMTModel,
    "lm": DiverseLanguageModel,
    "s2t": DiverseS2TModel,
}
