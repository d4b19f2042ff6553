"""Nets that ESPnet instantiates by name.

They are its encoders, decoder and language model with our attention, classifiers of text, and frontends with pretrained
encoders of text and speech.
"""

from espnet_diverse.nets.classification.replaced_tokens import ReplacementDetector
from espnet_diverse.nets.classification.sentence_classifier import (
    SelfAttentiveClassifier,
    SelfAttentivePairClassifier,
)
from espnet_diverse.nets.classification.transformer_classifier import TransformerClassifier
from espnet_diverse.nets.decoder import DiverseTransformerDecoder
from espnet_diverse.nets.encoder import (
    DiverseBranchformerEncoder,
    DiverseConformerEncoder,
    DiverseContextualBlockConformerEncoder,
    DiverseContextualBlockTransformerEncoder,
    DiverseEBranchformerCTCEncoder,
    DiverseEBranchformerEncoder,
    DiverseTransformerEncoder,
)
from espnet_diverse.nets.frontends.bert import BertFrontend
from espnet_diverse.nets.frontends.fused_frontend import FusedFrontends
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend
from espnet_diverse.nets.language_model import DiverseTransformerLM
from espnet_diverse.nets.whisper.decoder import DiverseWhisperDecoder
from espnet_diverse.nets.whisper.encoder import DiverseMelEncoder
from espnet_diverse.nets.whisper.features import WhisperFrontend
from espnet_diverse.nets.whisper.frontend import EncodedMelFrontend

ENCODERS = {
    "diverse_transformer": DiverseTransformerEncoder,
    "diverse_conformer": DiverseConformerEncoder,
    "diverse_branchformer": DiverseBranchformerEncoder,
    "diverse_e_branchformer": DiverseEBranchformerEncoder,
    "diverse_contextual_block_transformer": DiverseContextualBlockTransformerEncoder,
    "diverse_contextual_block_conformer": DiverseContextualBlockConformerEncoder,
    "diverse_whisper": DiverseMelEncoder,
}
PROMPTED_ENCODERS = {"diverse_e_branchformer_ctc": DiverseEBranchformerCTCEncoder}
DECODERS = {"diverse_transformer": DiverseTransformerDecoder, "diverse_whisper": DiverseWhisperDecoder}
LANGUAGE_MODELS = {"diverse_transformer": DiverseTransformerLM}
CLASSIFIERS = {
    "self_attentive": SelfAttentiveClassifier,
    "self_attentive_pair": SelfAttentivePairClassifier,
    "transformer": TransformerClassifier,
}
DETECTORS = {"transformer": ReplacementDetector}
SPEECH_FRONTENDS = {
    "huggingface": HuggingFaceFrontend,  # these two have names of ESPnet's own
    "fused": FusedFrontends,
    "whisper_mel": WhisperFrontend,
    "whisper_encoder": EncodedMelFrontend,
}
TEXT_FRONTENDS = {"bert": BertFrontend}
