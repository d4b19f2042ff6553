"""Parallel files of source and target sentences, read into a data directory of text."""

import logging
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from espnet_diverse.conditions import base_language
from espnet_diverse.corpora import Selection, split_pair
from espnet_diverse.corpora.shared.row_faults import Lines, RowFaults, Sentence, parallel, read_lines
from espnet_diverse.data.characters import text_fault
from espnet_diverse.data.faults import Fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import lower_case
from espnet_diverse.errors import ConfigError

# A word, a punctuation mark, or a Chinese character, because Chinese words are not separated.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]")


class Files(NamedTuple):
    """Paths of two parallel files: line n of `target` is the translation of line n of `source`."""

    source: Path
    target: Path


class Pair(NamedTuple):
    """A sentence, its translation, and their line number in the files, from 1."""

    line: int
    source: str
    target: str


@dataclass(frozen=True)
class Cleaning:
    """Limits for training pairs, as in Moses' clean-corpus-n.perl. Punctuation marks count as words.

    Attributes:
        longest: Maximum number of words of source and of target.
        ratio: Maximum ratio of the longer to the shorter of both.
    """

    longest: int
    ratio: float

    def reason(self, pair: Pair) -> str:
        """The reason to leave out a pair, or ""."""
        shorter, longer = sorted(len(_WORD.findall(text)) for text in (pair.source, pair.target))
        if longer > self.longest:
            return f"{longer} words, more than {self.longest}"
        if longer > self.ratio * shorter:
            return f"{longer} words to {shorter}, a ratio of more than {self.ratio:g}"
        return ""


@dataclass
class Reader:
    """Reads parallel files and collects their faults.

    Attributes:
        selection: Options; case, segmentation and on_bad are used.
        corpus: Name of the corpus, a part of the ids of its sentences.
        cleaning: Limits for pairs of training sets; None leaves nothing out.
        text_of: Function from a line to its text, or to None for a line of markup.
        matched: Function that pairs the sentences of two files, and returns faults of lines; by default `in_order`.
        faults: The faults found so far.
    """

    selection: Selection
    corpus: str
    cleaning: Cleaning | None = None
    text_of: Callable[[str], str | None] = str
    matched: Callable[[Sequence[Lines]], tuple[list[tuple[Sentence, ...]], list[Fault]]] | None = None
    faults: RowFaults = field(init=False)

    def __post_init__(self) -> None:
        self.faults = RowFaults(self.selection)

    def read(self, files: Files, direction: str, name: str, data: DataDir) -> list[Pair]:
        """The sentences of two files and their translations.

        Args:
            files: Paths of source and target.
            direction: Languages of source and target, such as "de-en".
            name: Name of the set, optionally with the name of a part, used in ids; `cleaning` applies to "train" and
                "train-...".
            data: The set, which lists the sentences that are left out.
        """
        sides = [read_lines(path, self.faults.refused) for path in files]
        present = [side for side in sides if side is not None]
        if len(present) < len(sides):
            return []
        matched, faults = self.matched(present) if self.matched else in_order(present, self.text_of)
        for fault in faults:
            self.faults.add_lines(data, f"{direction}-{self.corpus}-{name}-{Path(fault.file).name}", [fault])
        forms, pairs = self._forms(direction), []
        for sentences in matched:
            texts = [form(sentence.text.strip()) for form, sentence in zip(forms, sentences, strict=True)]
            pair, utterance = Pair(sentences[0].line, *texts), self.utterance(direction, name, sentences[0].line)
            fault = next(filter(None, map(_fault, files, sentences, texts)), None)
            if fault:
                self.faults.add(data, utterance, fault)
            elif self.cleaning and name.startswith("train") and (reason := self.cleaning.reason(pair)):
                data.dropped[utterance] = reason
            else:
                pairs.append(pair)
        return pairs

    def add(self, data: DataDir, files: Files, direction: str, name: str) -> None:
        """Read two files and add their pairs to a set."""
        self.put(data, self.read(files, direction, name, data), direction, name)

    def put(self, data: DataDir, pairs: Iterable[Pair], direction: str, name: str) -> None:
        """Add pairs to a set; `name` becomes a part of their ids."""
        source, target = split_pair(direction)
        for pair in pairs:
            sentence = self.utterance(direction, name, pair.line)
            data.text[sentence] = pair.target
            data.src_text[sentence] = pair.source
            data.conditions.setdefault("utt2lang", {})[sentence] = source
            data.conditions.setdefault("utt2tgtlang", {})[sentence] = target

    def put_apart(self, sets: Mapping[str, DataDir], drawn: Sequence[tuple[str, Pair, str]]) -> None:
        """Add pairs to the sets train, dev and test, so that no sentence of either side is in two of them.

        A pair with a sentence that another pair has in a set that is tested later is left out: pairs of training with
        sentences of dev or test, and pairs of dev with sentences of test.

        Args:
            sets: The sets by name.
            drawn: Direction, pair and name of the set of each pair.
        """
        held: dict[str, set[tuple[str, str]]] = {name: set() for name in ("train", "dev", "test")}
        for direction, pair, name in drawn:
            held[name].update(zip(split_pair(direction), pair[1:], strict=True))
        tested = {"train": held["dev"] | held["test"], "dev": held["test"], "test": set()}
        for direction, pair, name in drawn:
            if tested[name].isdisjoint(zip(split_pair(direction), pair[1:], strict=True)):
                self.put(sets[name], [pair], direction, name)
            else:
                reason = "a sentence of it is in dev or test, with another translation"
                sets[name].dropped[self.utterance(direction, name, pair.line)] = reason

    def utterance(self, direction: str, name: str, line: int) -> str:
        """Id of the sentence on a line of a file."""
        return f"{direction}-{self.corpus}-{name}-{line:07d}"

    def _forms(self, direction: str) -> list[Callable[[str], str]]:
        """Functions that normalise source and target texts."""
        source, target = split_pair(direction)
        segment = segmenter(self.selection.segmentation) if base_language(source) == "zh" else str
        if self.selection.case != "lower":
            return [segment, str]
        return [lambda text: lower_case(segment(text), source), lambda text: lower_case(text, target)]


def _fault(path: Path, sentence: Sentence, text: str) -> Fault | None:
    """The fault of a sentence, whose text is normalised."""
    reason = text_fault(text) if text else "is an empty line; write it, or remove it from all parallel files"
    return sentence.fault or (Fault(str(path), sentence.line, reason) if reason else None)


def in_order(
    sides: Sequence[Lines], text_of: Callable[[str], str | None], talk: str = ""
) -> tuple[list[tuple[Sentence, ...]], list[Fault]]:
    """Pair the sentences of two files in their order; of lines of markup, one file may have more than the other.

    Args:
        sides: The lines of the files.
        text_of: Function from a line to its text, or to None for a line of markup.
        talk: Beginning of the line of markup before each talk; talks must have equally many sentences in both files.

    Returns:
        The pairs, and a fault if the numbers of sentences or of talks differ.
    """
    faults: list[Fault] = []
    columns: list[list[Sentence]] = [[] for _ in sides]
    ends: list[list[int]] = [[] for _ in sides]  # the number of sentences up to the end of each talk
    for side, column, of_side in zip(sides, columns, ends, strict=True):
        end = 0
        for line, written in enumerate(side.texts, start=1):
            if talk and written.startswith(talk):
                of_side.append(end)
            if (text := text_of(written)) is not None:
                column.append(Sentence(line, text, side.faults.get(line)))
            end = len(column) if written else end
        of_side += [end] if talk else []
    for number, (one, other) in enumerate(zip_longest(*ends, fillvalue="no")):
        if one != other:
            reason = f"talk {number} ends after {other} sentences, and in {sides[0].path.name} after {one}"
            return [], [Fault(str(sides[1].path), None, f"{reason}; talks are equally long: get both files again")]
    texts = [
        Lines(side.path, [one.text for one in column], {n: one.fault for n, one in enumerate(column, 1) if one.fault})
        for side, column in zip(sides, columns, strict=True)
    ]
    rows = parallel(texts, faults)
    return [tuple(column[row.line - 1] for column in columns) for row in rows], faults


def segmenter(name: str) -> Callable[[str], str]:
    """A function that separates the words of a Chinese text by spaces, with jieba (https://github.com/fxsjy/jieba).

    Args:
        name: "jieba", or "none" for a function that returns the text unchanged.

    Raises:
        ConfigError: The package jieba is not installed.
    """
    return _jieba() if name == "jieba" else str


@cache
def _jieba() -> Callable[[str], str]:
    try:
        import jieba
    except ImportError as error:
        todo = "install it with pip install 'espnet_diverse[zh]', or leave --segmentation out"
        raise ConfigError(f"segmentation jieba needs the package jieba; {todo}") from error
    jieba.setLogLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = jieba.Tokenizer()
        # jieba loads its cache from the shared folder for temporary files, where any user could have written it.
        tokenizer.tmp_dir = folder
        tokenizer.initialize()
    return lambda text: " ".join(" ".join(tokenizer.cut(text)).split())
