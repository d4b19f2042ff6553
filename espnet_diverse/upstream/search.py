"""ESPnet's beam search and scorers."""

from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.batch_beam_search_online import BatchBeamSearchOnline
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.legacy.nets.e2e_asr_common import end_detect
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface, ScorerInterface
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer
from espnet2.legacy.nets.scorers.length_bonus import LengthBonus

__all__ = [
    "BatchBeamSearch",
    "BatchBeamSearchOnline",
    "BatchScorerInterface",
    "BeamSearch",
    "CTCPrefixScorer",
    "LengthBonus",
    "ScorerInterface",
    "end_detect",
]
