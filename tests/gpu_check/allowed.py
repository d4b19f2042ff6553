"""Waits for a GPU that our code may make: each place with how often, and why."""

from typing import NamedTuple


class Allowed(NamedTuple):
    """How often a function may wait: `count` times each `unit`, and the reason."""

    count: int
    unit: str
    reason: str


STEP, EPOCH, SEARCH_STEP, SEARCH = "training step", "epoch", "search step", "search"
UTTERANCE, STREAM, SPELLING = "utterance", "part of a stream", "spelling of tokens"

ALLOWED = {
    "training/loop/trainer.py Loop.train_epoch": Allowed(1, STEP, "an update of a loss that is not finite is refused"),
    "training/loop/updates.py Updates.make": Allowed(1, STEP, "an update of a norm that is not finite is refused"),
    "training/loop/non_finite.py _largest": Allowed(1, EPOCH, "the largest parameter tells later what diverged"),
    "training/checkpoints/run_state.py check_finite": Allowed(1, EPOCH, "no parameter is saved that is not finite"),
    "decoding/search/beam.py Beam.advance": Allowed(1, SEARCH_STEP, "numbers of hypotheses that remain"),
    "decoding/search/prefix_tree.py PrefixScorer._tidy": Allowed(2, "16 search steps", "nodes that are still needed"),
    "decoding/search/prefix_tree.py PrefixScorer._accumulate": Allowed(2, "16 search steps", "prefixes that differ"),
    "decoding/search/beam.py Beam._read_completed": Allowed(2, SEARCH, "the texts, and their scores"),
    "decoding/search/beam_search.py token_bounds": Allowed(1, SEARCH, "lengths, from which options give bounds"),
    "decoding/search/beam_search.py source_mask": Allowed(1, SEARCH, "without padding kernels need no mask"),
    "decoding/search/beam_search.py BeamSearch.__call__": Allowed(2, SEARCH, "bounds, and probabilities of no speech"),
    "decoding/search/greedy.py GreedySearch.__call__": Allowed(2, SEARCH, "the texts, and their scores"),
    "decoding/predictor.py Predictor.find": Allowed(1, SEARCH, "lengths of the results"),
    "decoding/streaming/block_search.py BlockSearch._best": Allowed(8, STREAM, "the text so far, and its score"),
    "decoding/predictor.py Predictor.spans": Allowed(2, SEARCH, "CTC aligns on the host"),
    "decoding/attention_alignment.py align": Allowed(2, SEARCH, "lengths, and probabilities of the tokens"),
    "decoding/attention_alignment.py evidence": Allowed(1, UTTERANCE, "dynamic time warping runs on the host"),
    "decoding/encoder/encoding.py check_finite": Allowed(1, SEARCH, "damaged weights give an error, no empty text"),
    "nets/whisper/byte_ctc.py ByteCTC.spelled": Allowed(1, SPELLING, "bytes of the longest token"),
    "scope.py Scope.listed": Allowed(2, SEARCH, "conditions, known to all later modules"),
    "decoding/encoder/encoding.py Encoding.features": Allowed(1, UTTERANCE, "features are kept on the host"),
}
