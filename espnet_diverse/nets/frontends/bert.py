"""BERT fusion: contextual embeddings of a pretrained encoder instead of ESPnet's input embeddings and positions.

Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers for language understanding". The SDMA paper
replaces positional encoding and embeddings of its transformers by them (BV-T and BSDMA-T; after Zhu et al. 2020,
"Incorporating BERT into neural machine translation"):

    x = dropout(W BERT([CLS] source [SEP]) + b)

without the position of [SEP]. The encoder reads as many positions as with ESPnet's `embed`, where <sos/eos> replaces
[CLS]. The embeddings of the decoder do not change.

Cost: one forward pass of the pretrained encoder, and a backward pass unless it is frozen.
"""

import torch
import torch.nn.functional as F
from espnet2.asr.frontend.abs_frontend import AbsFrontend
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.frontends import pretrained
from espnet_diverse.text.pretrained_tokenizer import PretrainedTokenizer, read_tokenizer


class BertFrontend(AbsFrontend):
    """Embeds text that is tokenized by a vocabulary of type `bert`; `frontend: bert` in configurations.

    The weights of the pretrained encoder are saved with the model, so a trained model needs no other files.

    Args:
        input_size: Number of tokens of the vocabulary.
        embed_dim: Number of features of a position, usually the `output_size` of the encoder.
        positional_dropout_rate: Dropout rate of the output. ESPnet's frontend `embed` uses the same name.
        bert: Folder of the pretrained encoder, or hf:owner/name. It may be None if `bert_config` is given, to load a
            trained model.
        trainable: Whether the pretrained encoder is trained too; otherwise it is frozen and has no dropout.
        bert_config: Architecture of the pretrained encoder; by default the architecture of `bert`.

    Raises:
        ConfigError: There is no such encoder, or none is given.
    """

    def __init__(
        self,
        input_size: int,
        embed_dim: int = 512,
        positional_dropout_rate: float = 0.1,
        bert: str | None = None,
        trainable: bool = False,
        bert_config: dict | None = None,
    ):
        super().__init__()
        model = None if bert_config else bert  # its weights bound the size that its config.json asks for
        if not bert_config:
            if bert is None:
                raise ConfigError("frontend_conf.bert is not given; name the encoder, --set frontend_conf.bert=PATH")
            bert_config = pretrained.read_config(bert)
        self.pretrained, self.trainable, self.bert_config = bert, trainable, bert_config
        self.bert = pretrained.build(self.bert_config, model).requires_grad_(trainable)
        self.project = nn.Linear(self.bert.config.hidden_size, embed_dim)
        self.dropout = nn.Dropout(positional_dropout_rate)
        self.register_buffer("ids", torch.zeros(input_size + 1, dtype=torch.long))  # the last one is [SEP]

    def load_pretrained(self) -> None:
        """Load the weights of the pretrained encoder `bert`; do nothing if `bert` is None.

        Raises:
            ConfigError: The weights cannot be read, or the source vocabulary is not the encoder's.
        """
        if self.pretrained is None:
            return
        ids = PretrainedTokenizer(read_tokenizer(self.pretrained)).ids()
        if len(ids) != len(self.ids):
            raise ConfigError(
                f"the source vocabulary has {len(self.ids) - 1} tokens and the vocabulary of {self.pretrained} has "
                f"{len(ids) - 1}; make it with espnet-diverse tokens --type bert --bert {self.pretrained}"
            )
        self.ids.copy_(torch.tensor(ids))
        self.bert.load_state_dict(pretrained.load(self.pretrained).state_dict())

    def forward(self, input: Tensor, input_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Embed tokens: indices (B, T), <sos/eos> first, and lengths (B,) -> embeddings (B, T, M), lengths (B,).

        Raises:
            DataError: A text has more tokens than the pretrained encoder can read.
        """
        place = torch.arange(input.size(1) + 1, device=input.device)
        if (limit := pretrained.positions(self.bert)) < len(place):
            has = f"a text has {len(place) - 2} tokens and the pretrained encoder reads {limit - 2}"
            raise DataError(f"{has}; leave longer texts out, or split them into sentences")
        end = input_lengths.unsqueeze(1)
        ids = F.pad(self.ids[input], (0, 1)).masked_fill(place == end, self.ids[-1])
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            x = self.bert(input_ids=ids, attention_mask=(place <= end).long()).last_hidden_state
        return self.dropout(self.project(x[:, :-1])), input_lengths

    def output_size(self) -> int:
        """Return the number of features of a position."""
        return self.project.out_features

    def train(self, mode: bool = True) -> "BertFrontend":
        """Set training or evaluation mode; a frozen pretrained encoder stays in evaluation mode."""
        super().train(mode)
        self.bert.train(mode and self.trainable)
        return self
