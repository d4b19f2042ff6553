"""BERT fusion: contextual embeddings of a pretrained encoder in the place of ESPnet's input embeddings and positions.

Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers for language understanding". The SDMA paper
replaces positional encoding and embeddings of its transformers by them (BV-T and BSDMA-T; after Zhu et al. 2020,
"Incorporating BERT into neural machine translation"):

    x = dropout(W BERT([CLS] source [SEP]) + b)

without the position of [SEP], so that the encoder reads as many positions as ESPnet's `embed` gives it: [CLS] stands
where that has <sos/eos>. The decoder's embeddings stay as they are.

Cost: one pass of the pretrained encoder, without its backward pass where it is frozen.
"""

import torch
import torch.nn.functional as F
from espnet2.asr.frontend.abs_frontend import AbsFrontend
from torch import Tensor, nn

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets import pretrained
from espnet_diverse.pretrained_tokenizer import PretrainedTokenizer, read_tokenizer


class BertFrontend(AbsFrontend):
    """Embeds text that was tokenized by a vocabulary of type `bert`; the name in configurations is `frontend: bert`.

    The model's own file holds the pretrained weights, too, so that a trained model stands alone.

    Args:
        input_size: Tokens of that vocabulary.
        embed_dim: Features of a position; by rights the encoder's `output_size`.
        positional_dropout_rate: Dropout of what comes out; ESPnet's name of it in the frontend `embed`.
        bert: Folder of the pretrained encoder, or its name on the Hub; None where `bert_config` says what it is and a
            trained model is loaded.
        trainable: Whether the pretrained encoder is trained, too; otherwise it is frozen and has no dropout.
        bert_config: Its architecture; filled in from `bert`.

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
        if bert is None and bert_config is None:
            raise ConfigError("frontend_conf.bert is not given; name the encoder, --set frontend_conf.bert=PATH")
        self.pretrained, self.trainable = bert, trainable
        self.bert_config = bert_config or pretrained.read_config(bert)
        self.bert = pretrained.build(self.bert_config).requires_grad_(trainable)
        self.project = nn.Linear(self.bert.config.hidden_size, embed_dim)
        self.dropout = nn.Dropout(positional_dropout_rate)
        self.register_buffer("ids", torch.zeros(input_size + 1, dtype=torch.long))  # the last is that of [SEP]

    def load_pretrained(self) -> None:
        """Take the weights of the encoder that `bert` names; nothing where it names none.

        Raises:
            ConfigError: They cannot be read, or the source vocabulary is another one than the encoder's.
        """
        if self.pretrained is None:
            return
        ids = PretrainedTokenizer(read_tokenizer(self.pretrained)).ids()
        if len(ids) != len(self.ids):
            raise ConfigError(
                f"the source vocabulary has {len(self.ids) - 1} tokens and that of {self.pretrained} {len(ids) - 1}; "
                f"make it with espnet-diverse tokens --type bert --bert {self.pretrained}"
            )
        self.ids.copy_(torch.tensor(ids))
        self.bert.load_state_dict(pretrained.load(self.pretrained).state_dict())

    def forward(self, input: Tensor, input_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Token indices (B, T), the first that of <sos/eos>, and lengths (B,) -> embeddings (B, T, M), lengths (B,).

        Raises:
            DataError: A text has more tokens than the pretrained encoder reads.
        """
        place = torch.arange(input.size(1) + 1, device=input.device)
        if (limit := pretrained.positions(self.bert)) < len(place):
            has = f"a text has {len(place) - 2} tokens and the pretrained encoder reads {limit - 2}"
            raise DataError(f"{has}; leave longer ones out, or cut them into sentences")
        end = input_lengths.unsqueeze(1)
        ids = F.pad(self.ids[input], (0, 1)).masked_fill(place == end, self.ids[-1])
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            x = self.bert(input_ids=ids, attention_mask=(place <= end).long()).last_hidden_state
        return self.dropout(self.project(x[:, :-1])), input_lengths

    def output_size(self) -> int:
        """Features of a position."""
        return self.project.out_features

    def train(self, mode: bool = True) -> "BertFrontend":
        """As of every module; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        self.bert.train(mode and self.trainable)
        return self
