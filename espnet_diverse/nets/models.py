"""ESPnet's models with the auxiliary losses of diverse attention: a mixin, and a class for each task."""

from collections.abc import Mapping
from inspect import signature

from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.lm.espnet_model import ESPnetLanguageModel
from espnet2.mt.espnet_model import ESPnetMTModel
from espnet2.s2t.espnet_ctc_model import ESPnetS2TCTCModel
from espnet2.s2t.espnet_model import ESPnetS2TModel
from espnet2.st.espnet_model import ESPnetSTModel
from espnet2.torch_utils.device_funcs import force_gatherable
from torch import Tensor

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.functional.sentence_ends import add_sos_eos
from espnet_diverse.nets.adapters.bottleneck import freeze_base
from espnet_diverse.nets.classification.replaced_tokens import ReplacedTokenModel
from espnet_diverse.nets.classification.sentence_classifier import ClassificationModel
from espnet_diverse.nets.frontends.kept_features import PARTS, ReadsKeptFeatures
from espnet_diverse.nets.gradient_balance import gradient_ratios, is_due
from espnet_diverse.nets.losses.consistency import Branches, add_consistency, doubled, doubled_conditions
from espnet_diverse.nets.losses.label_smoothing import replace_losses
from espnet_diverse.nets.reductions import token_count
from espnet_diverse.nets.replace_attention import signature_with
from espnet_diverse.nets.stream import check_handed_over
from espnet_diverse.nets.whisper.byte_ctc import ByteCTC
from espnet_diverse.option_checks import Rule
from espnet_diverse.scope import current, scope
from espnet_diverse.upstream.layers import LabelSmoothingLoss as EspnetLabelSmoothingLoss
from espnet_diverse.upstream.layers import th_accuracy

#: Statistics of attention modules are computed in the first of every so many training batches of an epoch.
STATISTICS_INTERVAL = 10

_OURS = {"conditions": None, "auxiliary_factor": 1.0, "balance_interval": 500, "consistency": None}


class Diverse:
    """Mixin that precedes a model of ESPnet in the bases: adds the losses that attention modules collect.

    Args:
        args: Arguments of ESPnet's model.
        auxiliary_factor: Factor of all auxiliary losses. 1 is equation (24) of the SDMA paper and its released code for
            speech; its released code for text adds up three kinds of attention, which is a factor of 3.
        balance_interval: Number of updates from one measurement of gradient norms to the next, 0 for none. Only a
            training loop that gives the step (see `scope.Step`), as ours does, has them measured.
        consistency: `ConsistencyOptions` by name, see `nets/losses/consistency.py`; None is no consistency.
        options: Options of ESPnet's model, and `conditions`: the values of each condition that the model depends on, in
            the order of their indices; by default none.

    Raises:
        ConfigError: `auxiliary_factor` is not a number of 0 or more, `balance_interval` not a whole one, or the decoder
            does not take what the encoder hands over.
    """

    #: Whether ESPnet's loss is a mean over tokens: in the class, with any options; in a model, with its options.
    loss_per_token = False
    #: Whether ESPnet averages the losses of several processes by their tokens, not by their sentences.
    weighted_by_tokens = False
    #: Whether only the cross-attention of one decoder reads the encoder's output.
    reads_source_once = False
    #: Number of tokens that the loss of a sentence has besides its text: the end of the sentence.
    end_tokens = 1

    def __init__(
        self,
        *args,
        auxiliary_factor: float = 1.0,
        balance_interval: int = 500,
        consistency: Mapping | None = None,
        **options,
    ):
        conditions = options.pop("conditions", None)
        super().__init__(*args, **options)
        self.conditions = conditions or {}
        check_handed_over(self, self.reads_source_once)  # type: ignore[arg-type]  # a mixin: a module
        Rule(float, least=0).check("auxiliary_factor", auxiliary_factor)
        Rule(int, least=0).check("balance_interval", balance_interval)
        self.auxiliary_factor, self.balance_interval = auxiliary_factor, balance_interval
        self._batches = 0
        losses = [loss for loss in self.children() if isinstance(loss, EspnetLabelSmoothingLoss)]  # type: ignore[attr-defined]
        by_token = self._has_attention_loss() and any(loss.normalize_length for loss in losses)
        self.loss_per_token = self.loss_per_token or by_token
        replace_losses(self)  # type: ignore[arg-type]  # a mixin: a module, with ESPnet's class in the bases
        self.consistency = add_consistency(self, consistency, self._branches())  # type: ignore[arg-type]
        freeze_base(self)  # type: ignore[arg-type]  # no effect without adapters

    def forward(self, *args, **kwargs) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """Compute the loss of a batch.

        Args:
            args: Arguments of ESPnet's model.
            kwargs: Arguments of ESPnet's model, and for each condition, under its name, the index (B, 1) of each
                sample's value.

        Returns:
            Loss (1,), statistics of (1,) each, and weight (1,), as ESPnet's model. The statistics also have
            `loss_task`, the loss of ESPnet's model alone, `aux_<name>` for each loss of the attention modules and, in
            training, of consistency, the statistics of those modules (in training every `STATISTICS_INTERVAL` batches),
            and in the training batches that measure it `gradient_<name>`: the norm of the gradient of a loss of the
            attention modules relative to the task's (see `nets/gradient_balance.py`). With consistency the loss of the
            task is the mean over both passes.
        """
        outer = current()
        known, host = outer.conditions, outer.host
        if paired := self.consistency is not None and self.training:  # type: ignore[attr-defined]
            args, kwargs, known = doubled(args), doubled(kwargs), doubled_conditions(known)
            host = {name: ids * 2 for name, ids in host.items()}
        indices = {condition: kwargs.pop(condition)[:, 0] for condition in CONDITIONS if condition in kwargs}
        for condition in indices:
            kwargs.pop(f"{condition}_lengths", None)
        known = known | indices
        due, count = self._statistics_are_due(), outer.token_count
        with scope(known, outer.keep_attention, statistics=due, token_count=count, paired=paired, host=host) as shared:
            loss, stats, weight = super().forward(*args, **kwargs)  # type: ignore[misc]
        stats["loss_task"] = loss.detach()
        auxiliary = shared.losses()
        consistent = self.consistency.take(auxiliary) if self.consistency else {}
        if auxiliary:  # all processes of a training have them or none: the scale may need the counts of the others
            scale = self._auxiliary_scale(args, kwargs)
            auxiliary = {name: scale * value for name, value in auxiliary.items()}
        added = {f"aux_{name}": value.detach() for name, value in auxiliary.items()} | shared.stats()
        if auxiliary and is_due(self, self.balance_interval):  # type: ignore[arg-type]
            ratios = gradient_ratios(self, loss, auxiliary)  # type: ignore[arg-type]
            added |= {f"gradient_{name}": ratio for name, ratio in ratios.items()}
        added |= {f"aux_{name}": value.detach() for name, value in consistent.items()}
        loss = loss + sum(auxiliary.values()) + sum(consistent.values())
        stats["loss"] = loss.detach()
        return loss, stats | force_gatherable(added, loss.device), weight // 2 if paired else weight

    def _branches(self) -> Branches | None:
        """Return the losses that consistency may apply to; None where the model supports none."""
        return None

    def _statistics_are_due(self) -> bool:
        """Return whether statistics are computed in a batch, as in every batch of evaluation."""
        if not self.training:  # type: ignore[attr-defined]
            self._batches = 0  # the training that follows is another epoch's, whoever sets the mode
            return True
        if (step := current().step) is not None:
            return step.batch % STATISTICS_INTERVAL == 0
        self._batches += 1
        return self._batches % STATISTICS_INTERVAL == 1

    def _has_attention_loss(self) -> bool:
        """Return whether the loss of an attention decoder is part of the task's; ESPnet always makes its criterion."""
        return getattr(self, "ctc_weight", 0.0) < 1

    def _auxiliary_scale(self, args: tuple, kwargs: Mapping) -> float | Tensor:
        """Return the factor with which auxiliary losses weigh the same for any divisor of the task's loss.

        Equation (24) adds them to the negative log likelihood of a whole sentence. Where the task's loss is a mean over
        target tokens, including the end of each sentence if it counts, they are multiplied by sentences / target
        tokens. `length_normalized_loss` makes only the loss of the attention decoder a mean over tokens; the losses of
        CTC and transducers are per sentence. In a hybrid model auxiliary losses follow the attention decoder's,
        whatever its weight; without it they are per sentence.
        """
        if not self.loss_per_token:
            return self.auxiliary_factor
        arguments = signature(super().forward).bind(*args, **kwargs).arguments  # type: ignore[misc]
        tokens, sentences = (arguments["text_lengths"] + self.end_tokens).sum(), len(arguments["text_lengths"])
        count = tokens if self.weighted_by_tokens else token_count(tokens, sentences)
        return self.auxiliary_factor * sentences / count


class DiverseASRModel(Diverse, ReadsKeptFeatures, ESPnetASRModel):
    """Speech recognition by CTC and attention.

    Args:
        args: Arguments of ESPnet's model.
        ctc_labels: "tokens"; or "bytes" for a byte-level tokenizer, see `nets/whisper/byte_ctc.py`.
        options: Options of ESPnet's model, and `conditions`.

    Raises:
        ConfigError: `ctc_labels` is neither, or "bytes" with tokens of another kind.
    """

    keeps = tuple(PARTS)

    __signature__ = signature_with(ESPnetASRModel, **_OURS, ctc_labels="tokens")

    def __init__(self, *args, ctc_labels: str = "tokens", **options):
        Rule(str, words=("tokens", "bytes")).check("ctc_labels", ctc_labels)
        if ctc_labels == "bytes":
            options["ctc"] = ByteCTC(options["ctc"], options["token_list"])
        super().__init__(*args, **options)

    def _branches(self) -> Branches | None:
        if self.use_transducer_decoder or self.use_linear_decoder:
            return None
        return Branches({"criterion_att": 1 - self.ctc_weight}, {"ctc": self.ctc_weight})


class DiverseSTModel(Diverse, ReadsKeptFeatures, ESPnetSTModel):
    """Speech translation.

    Args:
        args: Arguments of ESPnet's model.
        ctc_weight: Weight of the CTC loss on the translation; ESPnet calls it st_mtlalpha.
        options: Options of ESPnet's model, and `conditions`.

    Raises:
        ConfigError: The weight is given under both names.
    """

    __signature__ = signature_with(ESPnetSTModel, **_OURS, ctc_weight=None)

    def __init__(self, *args, ctc_weight: float | None = None, **options):
        if ctc_weight is not None:
            if "st_mtlalpha" in options:
                raise ConfigError(
                    f"ctc_weight {ctc_weight} and st_mtlalpha {options['st_mtlalpha']} are the same option; give one"
                )
            options["st_mtlalpha"] = ctc_weight
        super().__init__(*args, **options)

    def _has_attention_loss(self) -> bool:
        """Return whether an attention decoder translates; one that also recognises the source has other tokens."""
        return self.st_mtlalpha < 1 and not self.st_use_transducer_decoder

    def _branches(self) -> Branches | None:
        """Return the losses of the translation and of the additional recognition of the source."""
        if self.st_use_transducer_decoder:
            return None
        st_weight, source = 1 - self.asr_weight - self.mt_weight, self.asr_weight
        decoders = {"criterion_st": st_weight * (1 - self.st_mtlalpha), "criterion_asr": source * (1 - self.mtlalpha)}
        return Branches(decoders, {"st_ctc": st_weight * self.st_mtlalpha, "ctc": source * self.mtlalpha})


class DiverseMTModel(Diverse, ESPnetMTModel):
    """Text translation.

    Args:
        args: Arguments of ESPnet's model.
        report_bleu: Whether validation reports BLEU of the most likely tokens with the reference as input.
        options: Options of ESPnet's model, and `conditions`.

    Raises:
        ConfigError: Embeddings with different vocabularies or widths cannot be shared.
    """

    reads_source_once = True

    __signature__ = signature_with(ESPnetMTModel, **_OURS)

    def __init__(self, *args, report_bleu: bool = False, **options):
        _check_shared(options)
        super().__init__(*args, report_bleu=report_bleu, **options)

    def _branches(self) -> Branches | None:
        return Branches({"criterion_mt": 1.0}, {})

    # ESPnet's two methods, with our `add_sos_eos`: it has no loop that makes the CPU wait for the GPU.

    def _extract_feats(self, src_text: Tensor, src_text_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (B, T) with their lengths (B,) -> embeddings (B, T + patch_size, M) with their lengths."""
        if not src_text.is_cuda:  # which would be waited for; `forward` of ESPnet has done the same
            src_text = src_text[:, : src_text_lengths.max()]
        tokens, _ = add_sos_eos(src_text, self.src_sos, self.src_eos, self.ignore_id, repeat=self.patch_size)
        lengths = src_text_lengths + self.patch_size
        return (tokens, lengths) if self.frontend is None else self.frontend(tokens, lengths)

    def _calc_mt_att_loss(
        self, encoder_out: Tensor, encoder_out_lens: Tensor, ys_pad: Tensor, ys_pad_lens: Tensor
    ) -> tuple[Tensor, float | None, float | None]:
        """Loss, accuracy and, in validation with `report_bleu`, BLEU, with the reference ys_pad (B, T) as input."""
        inputs, targets = add_sos_eos(ys_pad, self.sos, self.eos, self.ignore_id)
        scores, _ = self.decoder(encoder_out, encoder_out_lens, inputs, ys_pad_lens + 1)
        loss = self.criterion_mt(scores, targets)
        accuracy = th_accuracy(scores.view(-1, self.vocab_size), targets, ignore_label=self.ignore_id)
        if self.training or self.mt_error_calculator is None:
            return loss, accuracy, None
        return loss, accuracy, self.mt_error_calculator(scores.argmax(dim=-1).cpu(), ys_pad.cpu())


class DiverseLanguageModel(Diverse, ESPnetLanguageModel):
    """Language model."""

    loss_per_token = weighted_by_tokens = True

    __signature__ = signature_with(ESPnetLanguageModel, **_OURS)


class DiverseS2TModel(Diverse, ESPnetS2TModel):
    """Multitask speech to text (OWSM)."""

    __signature__ = signature_with(ESPnetS2TModel, **_OURS)

    def _branches(self) -> Branches | None:
        return Branches({"criterion_att": 1 - self.ctc_weight}, {"ctc": self.ctc_weight})


class DiverseS2TCTCModel(Diverse, ESPnetS2TCTCModel):
    """Multitask speech to text by CTC alone (OWSM-CTC)."""

    __signature__ = signature_with(ESPnetS2TCTCModel, **_OURS)


class DiverseClassificationModel(Diverse, ClassificationModel):
    """Classification of text."""

    __signature__ = signature_with(ClassificationModel, **_OURS)


class DiverseReplacedTokenModel(Diverse, ReplacedTokenModel):
    """Pretraining of a text classifier (ELECTRA)."""

    __signature__ = signature_with(ReplacedTokenModel, **_OURS)


def _check_shared(options: Mapping) -> None:
    """Refuse to share embeddings that differ: ESPnet only warns, and compares only the vocabularies' sizes."""
    if not options.get("share_encoder_decoder_input_embed"):
        return
    if list(options["src_token_list"]) != list(options["token_list"]):
        sizes = f"{len(options['src_token_list'])} and {len(options['token_list'])} tokens"
        raise ConfigError(
            f"share_encoder_decoder_input_embed: the vocabularies differ ({sizes}); share one, or set false"
        )
    if not hasattr(options["frontend"], "embed"):
        raise ConfigError("share_encoder_decoder_input_embed: the frontend has no embeddings; set false")
    embed_dim, width = (options[part].embed[0].embedding_dim for part in ("frontend", "decoder"))
    if embed_dim != width:
        raise ConfigError(
            f"share_encoder_decoder_input_embed: frontend_conf.embed_dim is {embed_dim}, and the decoder is {width} "
            "wide; make them equal, or set false"
        )


MODELS = {
    "asr": DiverseASRModel,
    "st": DiverseSTModel,
    "mt": DiverseMTModel,
    "lm": DiverseLanguageModel,
    "s2t": DiverseS2TModel,
    "s2t_ctc": DiverseS2TCTCModel,
    "cls": DiverseClassificationModel,
    "electra": DiverseReplacedTokenModel,
}
