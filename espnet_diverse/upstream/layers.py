"""ESPnet's attention, encoder and decoder layers, subsampling, positions and losses."""

from espnet2.legacy.nets.pytorch_backend.conformer.contextual_block_encoder_layer import (
    ContextualBlockEncoderLayer as ContextualBlockConformerLayer,
)
from espnet2.legacy.nets.pytorch_backend.conformer.encoder_layer import EncoderLayer as ConformerLayer
from espnet2.legacy.nets.pytorch_backend.nets_utils import th_accuracy
from espnet2.legacy.nets.pytorch_backend.transformer.add_sos_eos import add_sos_eos
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    LegacyRelPositionMultiHeadedAttention,
    MultiHeadedAttention,
    RelPositionMultiHeadedAttention,
)
from espnet2.legacy.nets.pytorch_backend.transformer.contextual_block_encoder_layer import ContextualBlockEncoderLayer
from espnet2.legacy.nets.pytorch_backend.transformer.decoder_layer import DecoderLayer
from espnet2.legacy.nets.pytorch_backend.transformer.embedding import (
    ConvolutionalPositionalEmbedding,
    LegacyRelPositionalEncoding,
    PositionalEncoding,
    ScaledPositionalEncoding,
    StreamPositionalEncoding,
)
from espnet2.legacy.nets.pytorch_backend.transformer.encoder_layer import EncoderLayer
from espnet2.legacy.nets.pytorch_backend.transformer.label_smoothing_loss import LabelSmoothingLoss
from espnet2.legacy.nets.pytorch_backend.transformer.mask import subsequent_mask
from espnet2.legacy.nets.pytorch_backend.transformer.positionwise_feed_forward import PositionwiseFeedForward
from espnet2.legacy.nets.pytorch_backend.transformer.repeat import MultiSequential
from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import (
    Conv1dSubsampling2,
    Conv2dSubsampling,
    TooShortUttError,
    check_short_utt,
)
from espnet2.legacy.nets.pytorch_backend.transformer.subsampling_without_posenc import Conv2dSubsamplingWOPosEnc

__all__ = [
    "ConformerLayer",
    "ContextualBlockConformerLayer",
    "ContextualBlockEncoderLayer",
    "Conv1dSubsampling2",
    "Conv2dSubsampling",
    "Conv2dSubsamplingWOPosEnc",
    "ConvolutionalPositionalEmbedding",
    "DecoderLayer",
    "EncoderLayer",
    "LabelSmoothingLoss",
    "LegacyRelPositionMultiHeadedAttention",
    "LegacyRelPositionalEncoding",
    "MultiHeadedAttention",
    "MultiSequential",
    "PositionalEncoding",
    "PositionwiseFeedForward",
    "RelPositionMultiHeadedAttention",
    "ScaledPositionalEncoding",
    "StreamPositionalEncoding",
    "TooShortUttError",
    "add_sos_eos",
    "check_short_utt",
    "subsequent_mask",
    "th_accuracy",
]
