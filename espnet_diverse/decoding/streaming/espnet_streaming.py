"""ESPnet's classes for streaming: its frontend part by part, and its blockwise synchronous beam search.

Differences from ESPnet's search:

- A block is searched when it is complete; ESPnet waits for the next one.
- The search reads blocks of the encoder's size; ESPnet leaves it at 40, 16 and 16 frames for every model.
- A block that is not the last ends no hypothesis for its length. ESPnet then ends all of them and has none left.
- ESPnet's detection of repetitions is off: a repeated token in a hypothesis stops the search until the end of the
  audio, and texts of characters nearly always repeat a token.
"""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.bin import asr_inference_streaming
from torch import nn

from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.registration import constructed
from espnet_diverse.upstream.search import BatchBeamSearchOnline

SIZES = ("block_size", "hop_size", "look_ahead")
"""Sizes of the blocks of an encoder, in frames."""


class OnlineSearch(BatchBeamSearchOnline):
    """ESPnet's search of a block; which blocks are searched is decided here."""

    def forward(self, x, maxlenratio=0.0, minlenratio=0.0, is_final=True):
        """Search the blocks that the next encoder output x (T, M) completes, and the remainder if it `is_final`.

        ESPnet waits for a frame after a block, which comes with the next block: without one, the block is the last.
        Here a block may be searched as both, which gives the same hypotheses.
        """
        self.encbuffer = x if self.encbuffer is None else torch.cat([self.encbuffer, x])
        frames = len(self.encbuffer)
        while (end := self.block_size - self.look_ahead + self.hop_size * self.processed_block) <= frames:
            if is_final and end == frames:
                break
            self._search_block(self.encbuffer[:end], False)
            self.processed_block += 1
        return self._search_block(self.encbuffer, True) if is_final and frames else []

    def _search_block(self, h: torch.Tensor, is_final: bool) -> list:
        if self.running_hyps is None:
            self.running_hyps = self.init_hyp(h)
        # Between two whole numbers: the loop stops there, and its last step, which would end all, is never reached.
        bound = len(h) if is_final else len(h) - 0.5
        return self.process_one_block(h, is_final, bound, 0, 0.0)

    def post_process(self, i, maxlen, minlen, maxlenratio, running_hyps, ended_hyps):
        # In lists the bound need not be a whole number; with a ratio of 0 ESPnet would detect the end in each block.
        return super().post_process(i, [maxlen], [minlen], 1.0, running_hyps, ended_hyps)

    def assemble_hyps(self, ended_hyps):
        return super().assemble_hyps(ended_hyps) if ended_hyps else []  # without a warning for each block


def speech2text(
    model: nn.Module,
    args: Namespace,
    sizes: Mapping,
    options: SearchOptions,
    device: str,
    language_model: nn.Module | None,
) -> asr_inference_streaming.Speech2TextStreaming:
    """ESPnet's `Speech2TextStreaming` around a loaded model, which it would load itself, with our `OnlineSearch`.

    Args:
        model: The model, with an encoder of any class.
        args: Arguments that it was trained with.
        sizes: Sizes of the blocks by name, `SIZES`.
        options: Search options, resolved.
        device: Device of the model.
        language_model: Language model over the same tokens, or None.
    """
    # It asserts that config.yaml has the sizes, which may be missing for defaults, and that the encoder is ESPnet's.
    args = Namespace(**vars(args) | {"encoder_conf": {**args.encoder_conf, **sizes}})
    tasks = {"ASRTask": _Loaded(model, args), "LMTask": _Loaded(Namespace(lm=language_model), None)}
    lm = None if language_model is None else ""  # without a name there is none
    ours = {**tasks, "ContextualBlockTransformerEncoder": AbsEncoder}
    how = {"device": device, "lm_train_config": lm, **options.for_espnet(len(args.token_list))}
    made = constructed(asr_inference_streaming.Speech2TextStreaming, ours, "", **how)
    made.beam_search.__class__ = OnlineSearch  # ESPnet selects its batched search in the same way
    made.beam_search.disable_repetition_detection = True
    vars(made.beam_search).update(sizes)
    return made


class _Loaded:
    """A task of ESPnet whose model is already loaded."""

    def __init__(self, model: Any, args: Namespace | None):
        self.loaded = model, args

    def build_model_from_file(self, *_: Any) -> tuple[Any, Namespace | None]:
        return self.loaded
