"""Every corpus can be prepared with some of its sets, from files of these alone, and with other names of sets."""

import re
import shutil

import numpy as np
import pytest

from espnet_diverse.corpora import (
    CORPORA,
    Selection,
    aishell,
    check_options,
    download_corpus,
    iwslt14,
    load_corpus,
    multi30k,
    tatoeba,
)
from espnet_diverse.corpora.synthetic import load_generator
from espnet_diverse.errors import ConfigError, DataError

FILES = {
    "aishell": (r"wav/(train|dev)/", ("wav/test/", "wav/tt/"), "tt"),
    "mtedx": (r"/data/(train|valid)/", (r"/test(?=[/.])", "/tt"), "tt"),
    "covost2": (r"clips/.*_(train|dev)\d", ("\ttest\n", "\ttt\n"), "tt"),
    "europarl_st": (r"/(train|dev)/", ("/test/", "/tt/"), "tt"),
    "iwslt14": (r"train\.tags|dev2010|dev2012|tst201[12]", (r"TED\.tst2010", "TED.tst2014"), "TED.tst2014"),
    "wmt14": (r"training/|commoncrawl|2013", ("newstest2014", "newstest2019"), "newstest2019"),
    "wmt17": (r"training/", ("newstest2017", "newstest2018"), "newstest2018"),
    "multi30k": (r"raw/(train|val)\.|_2017_", ("test_2016_flickr", "flickr16"), "flickr16"),
    "tatoeba": (r"^(train|dev)\.", (r"^test\.", "tt."), "tt"),
    "wmt_languages": (r"^(train|dev)\.", (r"^test\.", "tt."), "tt"),
    "parallel_text": (r"^(train|dev)\.", (r"^test\.", "tt."), "tt"),
    "wikitext103": (r"wiki\.(train|valid)\.", (r"wiki\.test", "wiki.tt"), "tt"),
    "snli": (r"_(train|dev)\.", (r"_test\.", "_tt."), "tt"),
    "punctuation": (r"^(train|dev)\.", (r"^test\.", "tt."), "tt"),
}
"""Of each corpus the files that a test set does without, the names that are changed, and the set's name then."""


def silence(lines, nj):
    yield from (np.zeros(1600, np.float32) for _ in lines)


@pytest.fixture(scope="module", params=FILES)
def corpus(request, tmp_path_factory):
    """The name of a corpus and a synthetic copy of it, without voices."""
    generator = load_generator(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(generator, "synthesize"):
            patch.setattr(generator, "synthesize", silence)
        yield request.param, generator.make(tmp_path_factory.mktemp(request.param) / "corpus", size="tiny", nj=1)


@pytest.fixture
def only_test(corpus, tmp_path):
    """The same copy with files of the test set alone, which has another name."""
    name, folder = corpus
    unneeded, change, _ = FILES[name]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = path.relative_to(folder).as_posix()
        if not re.search(unneeded, place):
            target = tmp_path / "corpus" / re.sub(*change, place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            if target.suffix == ".tsv":
                target.write_text(re.sub(*change, target.read_text()))
    return tmp_path / "corpus"


NO_DOWNLOAD = {
    "covost2": "Common Voice is available on request .* and give DIR, to run.sh as --corpus_dir DIR$",
    "wmt_languages": "^the languages of WMT are not published as one; collect them as train.cs-en.cs and so on, and g",
    "snli": "^SNLI is not downloaded here; unpack snli_1.0.zip and give its folder, to run.sh as --corpus_dir DIR$",
    "yelp": "^Yelp gives its dataset to those who accept its terms; unpack it and give its folder, to run.sh as",
    "age": "^PAN gives its data on request; unpack the folder of one language and give it, to run.sh as --corpus_dir",
    "parallel_text": "^parallel_text has no download; give a folder with train.de, train.en and so on$",
    "catalogues": "^catalogues has no download; give a folder with de/LC_MESSAGES/PROGRAM.mo and so on$",
    "fillets": "^fillets has no download; get it with: apt-get download fillets-ng-data .* and give DIR, to run.sh as",
    "punctuation": "^punctuation has no download; give a folder with train.txt, dev.txt and test.txt, one text a line$",
    "table": "^a table has no download; give its file: prepare table FILE, or run.sh --corpus_dir FILE$",
    "hf": "^hf has no dataset of its own; give its name or folder: prepare hf NAME_OR_DIR$",
    "lhotse": "^lhotse has no corpus of its own; give its manifests: prepare lhotse DIR$",
    "listops": "^ListOps is generated: give --corpus synthetic, or the folder of its tables as SOURCE$",
    **{
        name: f"^{name} is generated: give --corpus synthetic, or a folder of tables of your own as SOURCE$"
        for name in ("byte_text", "byte_retrieval", "pixels", "pathfinder")
    },
    "kaldi": "^a data directory has no download; give its path: prepare kaldi DIR$",
}


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_has_a_download_or_gives_instructions(name, tmp_path):
    corpus = load_corpus(name)
    assert hasattr(corpus, "download") == (name not in NO_DOWNLOAD)
    if name in NO_DOWNLOAD:
        with pytest.raises(DataError, match=NO_DOWNLOAD[name]):
            download_corpus(corpus, tmp_path)


@pytest.mark.parametrize("name", ["iwslt14", "wikitext103", "wmt14", "wmt17"])
def test_a_release_is_fetched_to_a_folder_of_the_name_of_the_corpus(name, tmp_path, monkeypatch):
    corpus = load_corpus(name)
    monkeypatch.setattr(corpus, "fetch_release", lambda urls, target: (urls, target))
    urls = corpus.URLS if name.startswith("wmt") else {corpus.URL: None}
    assert corpus.download(tmp_path) == (urls, tmp_path / name)


def test_every_reader_of_a_release_is_tested():
    tested_by_themselves = {
        "table",
        "hf",
        "lhotse",
        "kaldi",
        "listops",
        "byte_text",
        "byte_retrieval",
        "pixels",
        "pathfinder",
        "yelp",
        "age",
        "catalogues",
        "fillets",
    }
    assert FILES.keys() == CORPORA.keys() - tested_by_themselves


def test_some_sets_match_the_whole(corpus):
    name, folder = corpus
    reader = load_corpus(name)
    whole = reader.prepare(folder)
    for sets in (("test",), ("train", "dev"), ("dev",)):
        selection = Selection(sets=sets)
        check_options(reader, selection)
        some = reader.prepare(folder, selection)
        assert some == {each: data for each, data in whole.items() if each.partition("_")[0] in sets}


def test_a_test_set_alone_under_another_name(corpus, only_test):
    name, folder = corpus
    reader, kind = load_corpus(name), "test_2016_flickr" if name == "multi30k" else "test"
    selection = Selection(sets=(kind,), set_names=((kind, FILES[name][2]),))
    check_options(reader, selection)
    (found,) = reader.prepare(only_test, selection).items()
    expected = reader.prepare(folder, Selection(sets=(kind,)))[kind].text
    if name == "iwslt14":  # one of five test sets
        expected = {u.replace("2010", "2014"): text for u, text in expected.items() if "TED.tst2010" in u}
    assert found[0] == kind and found[1].text == expected and expected


def test_training_data_is_missed_where_it_is_wanted(corpus, only_test):
    name, _ = corpus
    kind = "test_2016_flickr" if name == "multi30k" else "test"
    with pytest.raises(DataError):
        load_corpus(name).prepare(only_test, Selection(set_names=((kind, FILES[name][2]),)))


def test_recordings_of_sets_that_are_left_out_are_not_looked_for(aishell_tree):
    shutil.rmtree(aishell_tree / "data_aishell" / "wav" / "train")
    sets = aishell.prepare(aishell_tree, Selection(sets=("test", "dev")))
    assert [data.dropped for data in sets.values()] == [{}, {}]


@pytest.mark.parametrize(
    ("reader", "set_name", "what"),
    [
        (iwslt14, "dev", "in the official layout both are drawn from train.tags"),
        (load_corpus("wmt14"), "train", "in the official layout it has the campaign's files"),
        (load_corpus("wmt17"), "dev", "both are drawn from News Commentary"),
    ],
)
def test_a_set_without_files_of_its_own_has_no_name(tmp_path, reader, set_name, what):
    folder = load_generator(reader.__name__.rpartition(".")[2]).make(tmp_path / "corpus", size="tiny")
    with pytest.raises(ConfigError) as caught:
        reader.prepare(folder, Selection(set_names=((set_name, "x"),)))
    assert str(caught.value) == f"set name {set_name}=x: {set_name} cannot be renamed here, since {what}; leave it out"


def test_nor_has_any_set_of_tatoeba_as_published(write_texts):
    folder = write_texts({f"Tatoeba.de-en.{language}": ["a", "b"] for language in ("de", "en")})
    with pytest.raises(ConfigError, match="since in OPUS's layout the sets are drawn from one text; leave it out$"):
        tatoeba.prepare(folder, Selection(set_names=(("test", "x"),)))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"sets": ("tset",)}, "corpus multi30k has no set 'tset'; it has train dev test_2016_flickr test "),
        ({"set_names": (("eval", "x"),)}, "corpus multi30k has no set 'eval'; it has train dev"),
    ],
)
def test_sets_that_there_are_not(options, what):
    with pytest.raises(ConfigError) as caught:
        check_options(multi30k, Selection(**options))
    assert str(caught.value).startswith(what)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"set_names": (("train", "../x"),)}, "set name train=../x: must be letters, digits and . _ - alone"),
        ({"split_shares": (0.5, 0.5)}, "split_shares 0.5 0.5: must be above 0 and together below 1, such as 0.1 0.1"),
        ({"split_shares": (0.0, 0.1)}, "split_shares 0 0.1: must be above 0 and together below 1, such as 0.1 0.1"),
        ({"split_by": "room"}, "split_by must be one of speaker audio, but is 'room'"),
        ({"task": "mt"}, "task must be one of asr st, but is 'mt'"),
        ({"on_bad": "skip"}, "on_bad must be one of error drop, but is 'skip'"),
        ({"transcripts": "raw"}, "transcripts must be one of scored written, but is 'raw'"),
        ({"languages": ("german",)}, "language 'german': must be a code such as de, que or zh-CN"),
        ({"pairs": ("es>en",)}, "direction 'es>en': must be two language codes joined by -, such as es-en"),
        (
            {"pairs": ("es_en",), "zero_shot": ("es-en",)},
            "direction es-en is in pairs and in zero_shot; a zero-shot direction is not trained",
        ),
    ],
)
def test_values_that_are_not_allowed(options, what):
    with pytest.raises(ConfigError) as caught:
        Selection(**options)
    assert str(caught.value) == what


def test_a_selection_of_no_set_is_refused():
    with pytest.raises(ConfigError, match="^sets eval: there are only train dev; name one of them$"):
        Selection(sets=("eval",)).wanted(("train", "dev"))
