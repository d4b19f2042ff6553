"""Fish Fillets: texts, sets and directions of the unpacked packages, and files that are none."""

import shutil

import pytest

from espnet_diverse.corpora import Selection, fillets
from espnet_diverse.corpora.shared.splits import hashed_set
from espnet_diverse.data.kaldi import DataDir
from espnet_diverse.errors import ConfigError, DataError

LEVELS = [f"level{number}" for number in range(12)]
ST = Selection(task="st")


def level_of(name):
    return next(level for level in LEVELS if hashed_set(level, Selection()) == name)


def script(folder, level, language, *lines):
    path = folder / "fillets-ng-data" / fillets.GAME / "script" / level / f"dialogs_{language}.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sound(folder, level, language, name):
    package = f"fillets-ng-data-{language}" if language != "en" else "fillets-ng-data"
    path = folder / package / fillets.GAME / "sound" / level / language / f"{name}.ogg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()  # audio is not read
    return path


@pytest.fixture
def tree(tmp_path):
    """Twelve levels with one line each, in Czech and Dutch, and three languages of texts."""
    for level in LEVELS:
        call = f'dialogId("{level}-a", "font_small", "{level} in English.")'
        script(tmp_path, level, "en", call)
        for language in ("cs", "nl", "de_CH", "de"):
            script(tmp_path, level, language, call, f'dialogStr("{level}: {language}!")')
        for language in ("cs", "nl"):
            sound(tmp_path, level, language, f"{level}-a")
        sound(tmp_path, level, "en", f"{level}-noise")
    return tmp_path


def all_of(sets, table="text"):
    return {utterance: text for data in sets.values() for utterance, text in getattr(data, table).items()}


def test_recognition_gives_exactly_this(tree):
    level = level_of("dev")
    data = fillets.prepare(tree, Selection(sets=("dev",), languages=("nl",)))["dev"]
    names = [f"nl-{each}-{each}-a" for each in LEVELS if hashed_set(each, Selection()) == "dev"]
    wav = tree / "fillets-ng-data-nl" / fillets.GAME / "sound" / level / "nl" / f"{level}-a.ogg"
    assert data.wav_scp[names[0]] == str(wav)
    assert data == DataDir(
        wav_scp=data.wav_scp,
        text={name: f"{name.split('-')[1]} nl" for name in names},
        utt2spk=dict.fromkeys(names, "nl-small"),
        conditions={"utt2lang": dict.fromkeys(names, "nl")},
    )


def test_translation_gives_exactly_this(tree):
    level = level_of("test")
    data = fillets.prepare(tree, Selection(task="st", pairs=("cs-en", "cs-de-CH")))["test"]
    english, swiss = (f"cs-{target}-{level}-{level}-a" for target in ("en", "de-CH"))
    assert (data.text[english], data.text[swiss]) == (f"{level} in English.", f"{level}: de_CH!")
    assert data.src_text[english] == data.src_text[swiss] == f"{level} cs"
    assert data.wav_scp[english] == data.wav_scp[swiss]
    assert {name: data.conditions[name][swiss] for name in data.conditions} == {
        "utt2lang": "cs",
        "utt2tgtlang": "de-CH",
    }


def test_a_level_is_in_one_set(tree):
    sets = fillets.prepare(tree)
    for name, data in sets.items():
        assert {u.split("-")[1] for u in data.text} == {
            each for each in LEVELS if hashed_set(each, Selection()) == name
        }
    translated = fillets.prepare(tree, ST)
    for name, data in translated.items():
        assert {u.split("-")[2] for u in data.text} == {u.split("-")[1] for u in sets[name].text}
    other = fillets.prepare(tree, Selection(split_seed=1, split_shares=(0.3, 0.3)))
    assert len(all_of(other)) == len(all_of(sets)) and other != sets


def test_directions(tree):
    def directions(**options):
        sets = fillets.prepare(tree, Selection(task="st", **options))
        return {name: {u.partition("-level")[0] for u in data.text} for name, data in sets.items()}

    assert directions()["test"] == {"cs-en", "cs-de", "nl-en", "nl-de"}
    assert directions(languages=("cs",))["dev"] == {"cs-en", "cs-de", "cs-nl", "cs-de-CH"}
    zero = directions(pairs=("cs-nl", "nl-en"), zero_shot=("cs-en",))
    assert zero == {"train": {"cs-nl", "nl-en"}, "dev": {"cs-nl", "nl-en"}, "test": {"cs-nl", "nl-en", "cs-en"}}


def test_packages_in_one_folder(tree):
    expected = fillets.prepare(tree, ST)
    for package in ("fillets-ng-data-cs", "fillets-ng-data-nl"):
        shutil.copytree(tree / package, tree / "fillets-ng-data", dirs_exist_ok=True)
    for root in (tree / "fillets-ng-data", tree / "fillets-ng-data" / fillets.GAME):
        assert all_of(fillets.prepare(root, ST)) == all_of(expected)


TEXTS = {
    "escapes": (r'dialogStr("Say \"no\\yes\"  and\n go.")', r'Say "no\yes" and go.'),
    "on the next line": ('dialogStr(\n  "One."\n)', "One."),
    "after a comment": ('-- dialogStr("Wrong.")\ndialogStr("Two.")', "Two."),
    "with its name and actor": ('dialogStr("x", "font_big", "Three.")', "Three."),
    "spaces and marks": ('dialogStr(" Cafe\u0301\u00a0four \u200b")', "Café four"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_are_read_as_people_write_them(tree, case):
    level, (call, expected) = level_of("train"), TEXTS[case]
    script(tree, level, "de", 'for i = 0, 3 do dialogId("key"..i, "", "") end', 'dialogId("x", "font_x", "X")', call)
    sound(tree, level, "cs", "x")
    script(tree, level, "cs", 'dialogId("x", "font_big", "X")', 'dialogStr("Ty!")')
    sets = fillets.prepare(tree, Selection(task="st", pairs=("cs-de",), transcripts="written"))
    assert sets["train"].text[f"cs-de-{level}-x"] == expected
    assert sets["train"].src_text[f"cs-de-{level}-x"] == "Ty!"
    assert sets["train"].utt2spk[f"cs-de-{level}-x"] == "cs-big"


def test_what_lacks_a_text_is_dropped_and_listed(tree):
    level = level_of("train")
    for name in ("noise", "unknown", "untranslated", "empty"):
        sound(tree, level, "cs", name)
    calls = ['dialogId("noise", "", "")', 'dialogStr("...")', 'dialogId("untranslated", "font_big", "Hi")']
    calls += ['dialogStr("Ahoj")', 'dialogId("empty", "font_big", "Hi")', 'dialogStr("Ahoj")']
    script(tree, level, "cs", *calls)
    script(
        tree, level, "de", 'dialogId("untranslated", "font_big", "Hi")', 'dialogId("empty", "", "")', 'dialogStr("")'
    )
    data = fillets.prepare(tree, Selection(task="st", pairs=("cs-de",)))["train"]
    assert data.dropped == {
        f"cs-de-{level}-{level}-a": "no dialogue of this name",
        f"cs-de-{level}-noise": "no words in transcript '...'",
        f"cs-de-{level}-unknown": "no dialogue of this name",
        f"cs-de-{level}-untranslated": "no translation",
        f"cs-de-{level}-empty": "no translation",
    }
    assert not data.bad


@pytest.mark.parametrize(
    "call", ['dialogStr("no dialogId")', 'dialogId("two", "texts")', 'dialogStr("open', "dialogStr(text)"]
)
def test_faulty_lines(tree, call):
    level = level_of("train")
    path = script(tree, level, "cs", "-- a comment", call, 'dialogId("x", "font_big", "X")', 'dialogStr("Ty")')
    sound(tree, level, "cs", "x")
    with pytest.raises(DataError) as caught:
        fillets.prepare(tree)
    what = 'must be dialogId("DIALOG", "font_ACTOR", "TEXT"), then dialogStr("TEXT"); correct it'
    assert str(caught.value) == f"{path}:2: {what}"
    with pytest.raises(DataError) as caught:
        fillets.prepare(tree, ST)
    assert str(caught.value) == f"{path}:2: {what}"  # once for all directions
    data = fillets.prepare(tree, Selection(on_bad="drop"))["train"]
    assert data.text[f"cs-{level}-x"] == "ty"
    assert data.dropped[f"cs-{level}-line2"] == f"dialogs_cs.lua:2: {what}" and len(data.bad) == 1


def test_texts_that_no_vocabulary_can_hold(tree):
    level = level_of("train")
    path = script(tree, level, "de", f'dialogId("{level}-a", "font_big", "X")', 'dialogStr("A <unk> fish")')
    with pytest.raises(DataError) as caught:
        fillets.prepare(tree, Selection(task="st", pairs=("cs-de",)))
    what = "transcript contains the reserved symbol <unk>; remove it or write it in another way"
    assert str(caught.value) == f"{path}: {level}-a: {what}"


def test_a_file_in_another_encoding(tree):
    path = script(tree, LEVELS[0], "nl")
    path.write_bytes('dialogId("x", "font_big", "Caf\u00e9")'.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        fillets.prepare(tree, Selection(on_bad="drop"))
    assert str(caught.value) == f"{path}: not UTF-8 at byte 30; save the file as UTF-8"


@pytest.mark.parametrize(
    ("removed", "package", "folder"),
    [
        (("fillets-ng-data",), "fillets-ng-data", "fillets-ng-data"),
        (("fillets-ng-data-cs", "fillets-ng-data-nl"), "fillets-ng-data-cs or -nl", "fillets-ng-data-cs"),
    ],
)
def test_a_package_is_missing(tree, removed, package, folder):
    for name in removed:
        shutil.rmtree(tree / name)
    with pytest.raises(DataError) as caught:
        fillets.prepare(tree)
    todo = f"unpack the package with dpkg-deb -x FILE {tree / folder}"
    assert str(caught.value) == f"{tree}: has nothing of {package} (folder {fillets.GAME}); {todo}"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"languages": ("en",)}, "{}: there is no language 'en'; there are: cs nl"),
        (
            {"task": "st", "pairs": ("de-en",)},
            "{}: there is no direction 'de-en'; there are: cs-de cs-de-CH cs-en cs-nl",
        ),
        ({"zero_shot": ("cs-en",)}, "pairs and zero_shot are for task st; select the languages to recognise with"),
        (
            {"set_names": (("test", "x"),)},
            "set name test=x: test cannot be renamed here, since the sets are",
        ),
    ],
)
def test_options_that_do_not_fit(tree, options, what):
    with pytest.raises(ConfigError) as caught:
        fillets.prepare(tree, Selection(**options))
    assert str(caught.value).startswith(what.format(tree))


def test_no_training_data(tree):
    options = {"task": "st", "pairs": ("cs-de",), "split_shares": (0.01, 0.98)}
    with pytest.raises(DataError, match="cs-de should be trained but has no training data; remove it, or test it only"):
        fillets.prepare(tree, Selection(**options))
    assert len(fillets.prepare(tree, Selection(sets=("test",), **options))["test"].text) == len(LEVELS)
