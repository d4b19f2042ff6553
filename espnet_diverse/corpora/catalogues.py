"""Message catalogues of programs (.mo of gettext): short texts in English and up to a hundred languages.

    [...]/<language>/LC_MESSAGES/<program>.mo     as packages install them in /usr/share/locale; the licence is that of
                                                  each program

Messages of four English words and more are read, without the marks of their markup and of keyboard shortcuts ("_Open",
"&Open"). Of plural forms the first is read; messages that are not translated are left out, as are languages with a
script or variety in their name, such as sr@latin, and English ones. A message that several programs share is read once.

Directions are to and from English, by default all into English. A hash of the English message draws its set by
`split_shares`, so that no message of a test set is in the training text of another language. Messages that have a
translation in common with a message of a set that is tested are left out, as in Tatoeba.
"""

import html
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from espnet_diverse.corpora import EVERYTHING, Selection, split_pair
from espnet_diverse.corpora.parallel_text import complete
from espnet_diverse.corpora.shared.bitext import Pair, Reader
from espnet_diverse.corpora.shared.directions import refuse_names, refuse_untrained, translated_directions
from espnet_diverse.corpora.shared.splits import hashed_set
from espnet_diverse.data.characters import clean_text, text_fault
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.data.normalisation import lower_case
from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.whole_files import read_bytes

SETS = ("train", "dev", "test")
TABLES = ("src_text", "text")
OPTIONS = ("languages", "pairs", "zero_shot", "case", "split_shares", "split_seed")
NO_DOWNLOAD = "catalogues has no download; give a folder with de/LC_MESSAGES/PROGRAM.mo and so on"
_WORDS = 4
_LANGUAGE = re.compile("[a-z]{2,3}(_[A-Z]{2})?")
_MARKS = re.compile(r"</?[A-Za-z][^<>]*>|\s*\([_&]\w\)")  # tags, and shortcuts as in Chinese
_ENTITY = re.compile(r"&#?\w+;")  # html.unescape takes "&copy files" of a shortcut for one too
_SHORTCUT = re.compile(r"[_&](?=\w)")
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}


def prepare(corpus_dir: Path, selection: Selection = EVERYTHING) -> dict[str, DataDir]:
    """Read the catalogues in a folder and those below.

    Args:
        corpus_dir: The folder.
        selection: Options; by default all directions into English.

    Returns:
        The sets train, dev and test with text, src_text, utt2lang and utt2tgtlang.

    Raises:
        ConfigError: A direction is not available; the message lists the available ones.
        DataError: A catalogue is faulty, or a set has no sentences.
    """
    root = corpus_dir.absolute()
    refuse_names(selection, SETS, "the sets are drawn from all messages")
    texts = _texts(root)
    into_english = [f"{language}-en" for language in texts]
    available = [*into_english, *(f"en-{language}" for language in texts)]
    wanted = translated_directions(selection, available, root, into_english)
    places = {english: place for place, english in enumerate(sorted(set().union(*texts.values())), 1)}
    drawn: list[tuple[str, Pair, str]] = []
    for direction, trained in wanted.items():
        outwards = direction.startswith("en-")
        language = direction.removeprefix("en-") if outwards else direction.removesuffix("-en")
        for english, text in texts[language].items():
            key = lower_case(english, "en") if selection.case == "lower" else english
            name, pair = hashed_set(key, selection), (english, text) if outwards else (text, english)
            if selection.case == "lower":
                pair = tuple(map(lower_case, pair, split_pair(direction)))
            if trained or name == "test":
                drawn.append((direction, Pair(places[english], *pair), name))
    sets = {name: DataDir() for name in SETS}
    Reader(selection, "catalogues").put_apart(sets, drawn)
    refuse_untrained(sets["train"], [direction for direction, trained in wanted.items() if trained], root)
    return complete({name: sets[name] for name in selection.wanted(SETS)}, root)


def _texts(root: Path) -> dict[str, dict[str, str]]:
    """Translations by language and English message, as they are in the first catalogue by name that has them."""
    translations: dict[str, dict[str, str]] = {}
    for path in sorted(root.rglob("LC_MESSAGES/*.mo")):
        language = path.parent.parent.name
        if _LANGUAGE.fullmatch(language) and language.partition("_")[0] != "en":
            texts = translations.setdefault(language.replace("_", "-"), {})
            for english, text in _sentences(path):
                texts.setdefault(english, text)
    if not any(translations.values()):
        raise DataError(f"{root}: has no translated messages; give a folder with de/LC_MESSAGES/PROGRAM.mo and so on")
    return {language: texts for language, texts in translations.items() if texts}


def _sentences(path: Path) -> Iterator[tuple[str, str]]:
    for message, translation in _messages(path):
        english, text = (_plain(forms.split("\0")[0]) for forms in (message.rpartition("\4")[2], translation))
        long = len(re.findall(r"\w+", english)) >= _WORDS
        if long and text and text != english and not (text_fault(english) or text_fault(text)):
            yield english, text


def _messages(path: Path) -> Iterator[tuple[str, str]]:
    """Messages and translations of a file in gettext's format, without its header; forms are separated by U+0000.

    Raises:
        DataError: It is no such file, or is cut off, or its texts are not in the charset that its header declares, by
            default UTF-8.
    """
    content = read_bytes(path)
    order, charset = _ORDERS.get(content[:4]), "utf-8"
    if order is None:
        raise DataError(f"{path}: is no catalogue of gettext; remove it")
    try:
        count, *tables = struct.unpack_from(f"{order}8x3I", content)
        for row in range(count):
            places = (struct.unpack_from(f"{order}2I", content, table + 8 * row) for table in tables)
            both = [content[start : start + length] for length, start in places if start + length <= len(content)]
            message, translation = both
            if message:
                yield message.decode(charset), translation.decode(charset)
            elif declared := _CHARSET.search(translation):  # in the header, which is the first message
                charset = declared[1].decode()
    except (struct.error, ValueError, LookupError) as error:  # of which UnicodeDecodeError is one
        reason = f"is damaged or not in its charset, {charset}"
        raise DataError(f"{path}: {reason} ({error}); get it again, or remove it") from error


def _plain(text: str) -> str:
    """A message in one line, without tags and shortcuts, with entities as characters."""
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), _MARKS.sub("", text))
    text, _ = clean_text(" ".join(text.split()))
    return _SHORTCUT.sub("", text) if len(_SHORTCUT.findall(text)) == 1 else text
