"""Cleaning and checks of the characters of ids and transcripts, and a guess at the encoding of a file.

Cleaning replaces every kind of space by one plain space, removes invisible characters (zero-width, direction marks,
soft hyphen, byte order mark), and composes the text (Unicode NFC). ESPnet applies `rstrip` to the lines of token lists,
so a no-break or ideographic space in a transcript would become an empty token.

The zero-width non-joiner and joiner (U+200C, U+200D) stay between two letters of the Arabic script or of a script of
India and Sri Lanka, where they belong to the spelling (Persian "می\u200cروم", Tamil, Sinhala).
"""

import re
import unicodedata
from itertools import groupby

RESERVED = ("<blank>", "<unk>", "<sos/eos>", "<s>", "</s>")
# File names are ids with a speed prefix and a suffix; file systems allow 255 bytes.
LONGEST_ID = 240
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character of UTF-16, which JSON and file names can hold, and UTF-8 cannot."""
_LONG = 10_000  # characters of a text, few enough to be composed in quadratic time

_SPACES = "\t\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_INVISIBLE = "\xad\u061c\u180e\ufeff\ufff9\ufffa\ufffb" + "".join(
    chr(code)
    for block in (range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070), range(0xE0000, 0xE0080))
    for code in block
)
_JOINERS = "\u200c\u200d"
# Letters and marks of the Arabic blocks, and of the blocks from Devanagari to Sinhala.
_JOINABLE = "".join(
    chr(code)
    for block in (range(0x0600, 0x0900), range(0xFB50, 0xFDD0), range(0xFE70, 0xFEFF), range(0x0900, 0x0E00))
    for code in block
    if unicodedata.category(chr(code))[0] in "LM"
)
_SPELLED = f"(?<=[{_JOINABLE}])[{_JOINERS}](?=[{_JOINERS}]{{0,3}}[{_JOINABLE}])"  # a bound keeps the time linear
_SUSPECT = re.compile(f"[{_SPACES}{_INVISIBLE}]")
_REPAIRED = re.compile(f"(?=[{_SPACES}{_INVISIBLE}])(?!{_SPELLED}).", re.DOTALL)
_UNSAFE = re.compile(r"""[\s/\\$`"'|;&<>(){}\[\]*?!~#]|\.\.""")
_NOT_SAFE = re.compile(r" +|\.{2,}")
_LETTERS = re.compile(r"[^\W\d_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN_ID = re.compile(rf"[\w.,:=+@%-]{{1,{LONGEST_ID}}}", re.ASCII)


def _composed(text: str) -> str:
    """`text` in NFC, in linear time. Python sorts the marks on a letter by insertion: minutes for a line of marks."""
    if len(text) > _LONG:
        parts = (part for character in text for part in unicodedata.normalize("NFD", character))
        runs = groupby(parts, lambda part: unicodedata.combining(part) > 0)
        text = "".join(part for _, run in runs for part in sorted(run, key=unicodedata.combining))
    return unicodedata.normalize("NFC", text)


def clean_text(text: str) -> tuple[str, list[str]]:
    """Reduce `text` to plain single spaces, visible characters and NFC.

    Returns:
        The text without leading and trailing spaces, and the names of the repairs. The removal of double, leading and
        trailing plain spaces is not named: they separate columns.
    """
    if text.isascii() and text.isprintable() and "  " not in text:  # most texts, in a tenth of the time
        return text.strip(" "), []
    repairs = []
    characters = set(_REPAIRED.findall(text)) if _SUSPECT.search(text) else set()
    if characters:
        if "\t" in characters:
            repairs.append("tab")
        if characters & set(_SPACES) - {"\t"}:
            repairs.append("unusual space")
        if characters & set(_INVISIBLE):
            repairs.append("invisible character")
        text = _REPAIRED.sub(lambda match: " " if match[0] in _SPACES else "", text)
    if not unicodedata.is_normalized("NFC", text):
        repairs.append("decomposed text (not NFC)")
        text = _composed(text)
    return (re.sub(" +", " ", text) if "  " in text else text).strip(" "), repairs


def id_fault(name: str) -> str | None:
    """Return why `name` cannot be the id of an utterance or speaker or the value of a condition, or None.

    Ids become file names and parts of shell commands, so they must not contain path separators, `..` or characters with
    a meaning in the shell; whether they may be empty is checked elsewhere.
    """
    if _PLAIN_ID.fullmatch(name) and ".." not in name:
        return None
    control = _CONTROL.search(name)
    if control:
        return f"id {name!r} contains the control character U+{ord(control[0]):04X}; remove it"
    unsafe = _UNSAFE.search(name)
    if unsafe:
        return f"id {name!r} contains {unsafe[0]!r}; allowed are letters, digits and - _ . : , = + @ %"
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > LONGEST_ID:
        return f"id {name[:20]!r}... is {size} bytes long; allowed are {LONGEST_ID}"
    return None


def safe_name(name: str) -> str:
    """Return `name` in NFC, with "_" for each run of characters that are not letters, digits or _ . -.

    Marks belong to their letters: vowels in the scripts of India are marks, and without them names become equal.
    """

    def stays(character: str) -> bool:
        return character.isalnum() or character in "_.-" or unicodedata.category(character)[0] == "M"

    return _NOT_SAFE.sub("_", "".join(one if stays(one) else " " for one in unicodedata.normalize("NFC", name)))


def text_fault(text: str) -> str | None:
    """Return why `text` cannot be a transcript, or None; whether it may be empty is checked elsewhere."""
    control = None if text.isprintable() else _CONTROL.search(text)
    if control:
        return f"transcript contains the control character U+{ord(control[0]):04X}; remove it"
    for symbol in RESERVED if "<" in text else ():
        if symbol in text:
            return f"transcript contains the reserved symbol {symbol}; remove it or write it in another way"
    return None


def columns(text: str) -> int:
    """Columns of `text` on a terminal: East Asian wide characters take two, marks without a width of their own none."""
    return sum(
        0 if unicodedata.category(character) in ("Mn", "Me") else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


_ALONE = frozenset("àáåæéèêíìóòôöøúù")  # words of one letter in the languages of cp1252


def guess_encodings(raw: bytes) -> list[str]:
    """The encodings that a line which is not utf-8 may have: UTF-16, or those of cp1252, cp1251 and GBK that fit."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or raw.count(0) > len(raw) // 4:
        return ["UTF-16"]
    known = {"cp1252": _is_latin, "cp1251": _is_cyrillic, "GBK": _is_gbk}
    return [encoding for encoding, fits in known.items() if fits(raw)]


def _words(raw: bytes, encoding: str) -> list[str]:
    """The words of a line that have letters besides ASCII; none where one is written as no language writes it."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return []
    words = [word for word in _LETTERS.findall(text) if not word.isascii()]
    return words if all(word.islower() or word.isupper() or word.istitle() for word in words) else []


def _is_latin(raw: bytes) -> bool:
    words = _words(raw, "cp1252")
    return bool(words) and all(word.lower() in _ALONE or re.search("[A-Za-z]", word) for word in words)


def _is_cyrillic(raw: bytes) -> bool:
    words = _words(raw, "cp1251")
    return bool(words) and not re.search(b"[A-Za-z][\x80-\xff]|[\x80-\xff][A-Za-z]|[\x80-\xa7\xa9-\xaa]", raw)


def _is_gbk(raw: bytes) -> bool:
    """Return whether most characters besides ASCII are among the common ones, of two bytes that are not ASCII."""
    try:
        pairs = [character.encode("gbk") for character in raw.decode("gbk") if not character.isascii()]
    except UnicodeDecodeError:
        return False
    common = [pair for pair in pairs if b"\xa1" <= pair[:1] <= b"\xd7" and pair[1:] >= b"\xa1"]
    return len(common) > 0.7 * len(pairs)
