"""Message catalogues: texts, sets and directions, and files that are no catalogues."""

import gettext
import re
import struct

import pytest
from references.catalogues import write_catalogue

from espnet_diverse.corpora import Selection
from espnet_diverse.corpora.catalogues import prepare
from espnet_diverse.errors import ConfigError, DataError

MESSAGES = {
    "_Open the file again": "Datei _erneut öffnen",
    "menu\4Save all open files": "Alle offenen Dateien speichern (_S)",
    "<b>%d old file was\nremoved</b>\0%d old files": "<b>%d alte Datei wurde\nentfernt</b>\0%d alte Dateien",
    "Three words only": "Nur drei Wörter",
    "This is not translated": "This is not translated",
    "This one is empty": "",
    "Names such as a_b and c_d": "Namen wie a_b und c_d",
}
READ = {
    "Open the file again": "Datei erneut öffnen",
    "Save all open files": "Alle offenen Dateien speichern",
    "%d old file was removed": "%d alte Datei wurde entfernt",
    "Names such as a_b and c_d": "Namen wie a_b und c_d",
}


def catalogue(folder, language, program="tool"):
    return folder / "share" / language / "LC_MESSAGES" / f"{program}.mo"


@pytest.fixture
def tree(tmp_path):
    """A program with 200 messages in two languages, and one with the messages above in German."""
    many = [f"This is message number {number}" for number in range(200)]
    for language in ("de", "pt_BR", "sr@latin", "en_GB"):
        write_catalogue(catalogue(tmp_path, language), {text: f"{language}: {text}" for text in many})
    write_catalogue(catalogue(tmp_path, "de", "zoo"), MESSAGES | {many[0]: "of the second program"})
    return tmp_path


def pairs_of(sets, direction):
    found = {}
    for data in sets.values():
        found |= {data.src_text[u]: text for u, text in data.text.items() if u.startswith(f"{direction}-catalogues-")}
    return found


def test_messages_are_texts_without_marks(tree):
    found = pairs_of(prepare(tree), "de-en")
    assert {text: english for text, english in found.items() if "number" not in english} == {
        text: english for english, text in READ.items()
    }
    assert found["de: This is message number 0"] == "This is message number 0"


def test_texts_are_as_tables_of_training_must_be(tree):
    message = {"Press Ctrl&#43;&lt;A&gt;&nbsp;and &wait": "Cafe\u0301 dru\u00adcken&hellip;"}
    write_catalogue(catalogue(tree, "de", "app"), message)
    assert pairs_of(prepare(tree), "de-en")["Caf\u00e9 drucken…"] == "Press Ctrl+<A> and wait"


def test_the_files_are_those_of_gettext(tree):
    path = catalogue(tree, "de", "zoo")
    read = gettext.GNUTranslations(path.open("rb"))
    assert all(read.gettext(message) == text for message, text in MESSAGES.items() if text and "\0" not in message)
    content = path.read_bytes()
    head = 28 + 16 * struct.unpack_from("<I", content, 8)[0]
    path.write_bytes(struct.pack(f">{head // 4}I", *struct.unpack_from(f"<{head // 4}I", content)) + content[head:])
    assert pairs_of(prepare(tree, Selection(pairs=("en-de",))), "en-de").items() >= READ.items()


def test_sets_share_no_message_in_any_language(tree):
    selection = Selection(pairs=("de-en", "en-pt-BR"), zero_shot=("pt-BR-en",), case="lower", split_shares=(0.1, 0.2))
    sets = prepare(tree, selection)
    english = {name: {text for text in {*data.text.values(), *data.src_text.values()} if text.startswith("this is")}
               for name, data in sets.items()}  # fmt: skip
    assert sum(map(len, english.values())) == len(set.union(*english.values())) == 200
    assert 10 <= len(english["dev"]) <= 30 and 25 <= len(english["test"]) <= 55
    languages = {name: {*data.conditions["utt2lang"].values()} for name, data in sets.items()}
    assert languages == {"train": {"de", "en"}, "dev": {"de", "en"}, "test": {"de", "en", "pt-BR"}}
    assert prepare(tree, Selection(split_seed=1))["dev"].text != prepare(tree)["dev"].text


def test_sets_share_no_translation(tmp_path):
    write_catalogue(catalogue(tmp_path, "de"), {f"This is message number {n}": f"Text {n % 60}" for n in range(200)})
    sets = prepare(tmp_path, Selection(split_shares=(0.1, 0.1)))
    train, dev, test = ({*data.src_text.values()} for data in sets.values())
    assert dev and test and not (train & dev or train & test or dev & test)
    assert len(sets["train"].dropped) > len(sets["dev"].dropped) and not sets["test"].dropped


def test_messages_that_differ_in_case_are_in_one_set(tmp_path):
    many = {f"{word} the file number {n}": f"Datei {n}" for n in range(200) for word in ("Open", "open")}
    write_catalogue(catalogue(tmp_path, "de"), many)
    train, dev, test = ({*data.text.values()} for data in prepare(tmp_path, Selection(case="lower")).values())
    assert dev and test and not train & (dev | test) and not dev & test


def test_catalogues_are_read_in_the_charset_that_they_declare(tree):
    path = catalogue(tree, "de", "zoo")  # the replacements keep the lengths, and so the table of places
    content = path.read_bytes().replace(b"charset=UTF-8\n", b"charset=CP1252")
    path.write_bytes(content.replace("ö".encode(), "ö ".encode("cp1252")))
    assert any("ö" in text for text in pairs_of(prepare(tree), "de-en"))


def test_directions_are_to_and_from_english(tree):
    with pytest.raises(ConfigError, match=re.escape("there are: de-en pt-BR-en en-de en-pt-BR")):
        prepare(tree, Selection(pairs=("de-pt-BR",)))


DAMAGES = {
    "another file": lambda content: b"text " + content,
    "cut off": lambda content: content[:-9],
    "cut off in the head": lambda content: content[:20],
    "a text outside": lambda content: content[:28] + struct.pack("<2I", 2**31, 2**31) + content[36:],
    "more rows than bytes": lambda content: content[:8] + struct.pack("<I", 2**32 - 1) + content[12:],
    "not UTF-8": lambda content: content.replace("ö".encode(), b"\xf6\xf6"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_catalogues_are_named(tree, damage):
    path = catalogue(tree, "de", "zoo")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(DataError, match=re.escape(str(path))):
        prepare(tree)


def test_a_folder_without_catalogues_is_refused(tmp_path):
    with pytest.raises(DataError, match="de/LC_MESSAGES/PROGRAM.mo"):
        prepare(tmp_path)
