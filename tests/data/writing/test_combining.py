from pathlib import Path

import pytest
from references.traced import traced

from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.checks.validate import validate
from espnet_diverse.data.faults import FaultsError
from espnet_diverse.data.kaldi import DataDir, read_data_dir, write_data_dir
from espnet_diverse.data.output_paths import MARK
from espnet_diverse.data.tables import read_table, write_table
from espnet_diverse.data.writing.combining import Part, combine, parse_part, write_combined
from espnet_diverse.errors import ConfigError, DataError


@pytest.fixture
def part(tmp_path, write_wav):
    """part(name, *utterances, **tables) -> its directory, with half a second of audio for each utterance."""

    def write(name, *utterances, **tables):
        wavs = {u: str(write_wav(tmp_path / "audio" / name / f"{u}.wav")) for u in utterances}
        data = DataDir(wavs, dict.fromkeys(utterances, f"said in {name}"), dict.fromkeys(utterances, f"{name}spk"))
        data.src_text = dict.fromkeys(utterances, "source") if tables.pop("src_text", False) else {}
        data.conditions = {table: dict.fromkeys(utterances, value) for table, value in tables.items()}
        write_data_dir(data, tmp_path / name)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("word", "domain", "path"),
    [
        ("data/train", "", "data/train"),
        ("mtedx=data/train", "mtedx", "data/train"),
        ("exp/lr=1/train", "", "exp/lr=1/train"),
        ("mtedx=exp/lr=1", "mtedx", "exp/lr=1"),
        ("=data", "", "=data"),
    ],
)
def test_a_domain_stands_before_the_directory(word, domain, path):
    assert (parse_part(word).domain, str(parse_part(word).path)) == (domain, path)


def test_tables_are_joined_sorted_and_the_domain_noted(tmp_path, part):
    parts = [Part("ted", part("b", "u3", "u1", utt2lang="de")), Part("read", part("a", "u2", utt2lang="en"))]
    write_combined(parts, tmp_path / "all")
    validate(tmp_path / "all")
    data = read_data_dir(tmp_path / "all")
    assert list(data.text.items()) == [("u1", "said in b"), ("u2", "said in a"), ("u3", "said in b")]
    assert data.wav_scp["u2"] == f"{tmp_path}/audio/a/u2.wav"
    assert data.utt2spk == {"u1": "bspk", "u2": "aspk", "u3": "bspk"}
    assert data.conditions == {
        "utt2lang": {"u1": "de", "u2": "en", "u3": "de"},
        "utt2domain": {"u1": "ted", "u2": "read", "u3": "ted"},
    }
    write_combined(parts[:1], tmp_path / "all")
    assert list(read_data_dir(tmp_path / "all").text) == ["u1", "u3"]


def test_other_tables_are_joined_if_all_directories_have_them(tmp_path, part, caplog):
    parts = [Part("", part("a", "u1")), Part("", part("b", "u2"))]
    for (_, path), sex in zip(parts, "fm", strict=True):
        write_table(path / "spk2gender", {f"{path.name}spk": sex, "both": "f"})
    write_table(parts[0].path / "utt2note", {"u1": "loud"})
    write_combined(parts, tmp_path / "all")
    assert read_table(tmp_path / "all" / "spk2gender") == {"aspk": "f", "both": "f", "bspk": "m"}
    assert not (tmp_path / "all" / "utt2note").exists()
    assert "left out, as only some directories have them: utt2note" in caplog.text
    write_table(parts[1].path / "spk2gender", {"bspk": "m", "both": "m"})
    with pytest.raises(DataError, match="b/spk2gender: both: is f in another directory"):
        combine(parts)


def test_a_domain_given_replaces_the_table(part):
    parts = [Part("new", part("a", "u1", utt2domain="old")), Part("", part("b", "u2", utt2domain="kept"))]
    assert combine(parts).conditions["utt2domain"] == {"u1": "new", "u2": "kept"}


def test_fill_applies_to_directories_without_the_table(part):
    parts = [Part("", part("a", "u1")), Part("", part("b", "u2", utt2lang="de"))]
    assert combine(parts, {"utt2lang": "zh"}).conditions["utt2lang"] == {"u1": "zh", "u2": "de"}
    with pytest.raises(ConfigError, match="^'text' cannot be filled with one value; allowed are utt2lang, utt2"):
        combine(parts, {"text": "zh"})


def test_a_table_that_only_some_have_is_refused(tmp_path, part):
    named, bare = part("b", "u2", utt2lang="de"), part("a", "u1")
    with pytest.raises(DataError) as caught:
        combine([Part("", named), Part("", bare)])
    todo = "remove it from all, or add it with --fill utt2lang=VALUE"
    assert str(caught.value) == f"{bare}: has no utt2lang, which {named} has; {todo}"
    with pytest.raises(DataError, match=f"{bare}: has no src_text, which {tmp_path}/c has; all need it or none"):
        combine([Part("", bare), Part("", part("c", "u3", src_text=True))])


def test_an_utterance_in_two_directories_is_refused(tmp_path, part):
    with pytest.raises(DataError) as caught:
        combine([Part("a", part("a", "u1", "u2")), Part("b", part("b", "u2"))])
    what = f"is also in {tmp_path}/a; an id may be in one directory only: prepare one of them again"
    assert str(caught.value) == f"{tmp_path}/b: u2: {what}"


def test_segments_may_share_a_recording_but_not_its_name(tmp_path, write_wav):
    def talk(name, wav, start):
        data = DataDir({"talk": str(wav)}, {name: "words"}, {name: "s"}, {name: Segment("talk", start, start + 0.2)})
        write_data_dir(data, tmp_path / name)
        return Part("", tmp_path / name)

    one, two = write_wav(tmp_path / "one.wav"), write_wav(tmp_path / "two.wav")
    parts = [talk("a", one, 0.0), talk("b", one, 0.2), talk("c", two, 0.0)]
    assert combine(parts[:2]).segments == {"a": Segment("talk", 0.0, 0.2), "b": Segment("talk", 0.2, 0.4)}
    with pytest.raises(DataError, match=f"c/wav.scp: talk: is {one} in another directory"):
        combine(parts)


def test_bad_places(tmp_path, part):
    a, b = Part("", part("a", "u1")), Part("", part("b", "u2"))
    with pytest.raises(DataError, match=f"^{tmp_path}/a: is given twice; give each data directory once"):
        combine([a, a])
    with pytest.raises(DataError, match=f"^{tmp_path}/c: there is no such directory; "):
        combine([a, Part("", tmp_path / "c")])
    with pytest.raises(DataError, match=f"^{tmp_path}/b: is the directory to read, {tmp_path}/b; choose another path"):
        write_combined([a, b], tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    before = (tmp_path / "a" / "text").read_text()
    for other in (tmp_path / "link", tmp_path / "b" / ".." / "a"):
        with pytest.raises(DataError, match=f"^{other}: is the directory to read, {tmp_path}/a; choose another path"):
            write_combined([a, b], other)
        with pytest.raises(DataError, match=f"^{other}: is given twice; give each data directory once"):
            combine([a, Part("", other)])
    assert (tmp_path / "a" / "text").read_text() == before
    with pytest.raises(DataError, match=f"^{tmp_path}/b: exists, and nothing shows that espnet-diverse has written it"):
        write_combined([a], tmp_path / "b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(DataError, match=f"^{tmp_path}/full: exists, and nothing shows that espnet-diverse"):
        write_combined([a, b], tmp_path / "full")


def test_directories_of_text_alone_are_combined(tmp_path):
    for name in ("ted", "news"):
        data = DataDir(
            text={f"{name}1": "text"}, src_text={f"{name}1": "source"}, conditions={"utt2lang": {f"{name}1": "de"}}
        )
        write_data_dir(data, tmp_path / name)
    data = write_combined([Part(name, tmp_path / name) for name in ("ted", "news")], tmp_path / "all")
    assert data.is_text and data.conditions["utt2domain"] == {"ted1": "ted", "news1": "news"}
    files = sorted(file.name for file in (tmp_path / "all").iterdir())
    assert files == [".prepared.json", "src_text", "text", "utt2domain", "utt2lang"]


def test_audio_and_text_alone_do_not_go_together(tmp_path, part):
    write_data_dir(DataDir(text={"t1": "text"}), tmp_path / "text")
    with pytest.raises(DataError, match="text: has no wav.scp, which .*/speech has; all need it or none"):
        combine([Part("", part("speech", "s1")), Part("", tmp_path / "text")])


@pytest.mark.parametrize("speakers", [True, False])
def test_features_are_combined_with_features_alone(tmp_path, part, speakers):
    parts = [part("a", "u1"), part("b", "u2")]
    for path in parts:
        (path / "wav.scp").rename(path / "feats.scp")
        if not speakers:
            (path / "utt2spk").unlink()
    write_combined([Part("", path) for path in parts], tmp_path / "all")
    tables = [path.name for path in sorted((tmp_path / "all").iterdir()) if not path.name.startswith(".")]
    assert tables == ["feats.scp", *(["spk2utt"] if speakers else []), "text", *(["utt2spk"] if speakers else [])]
    audio = part("c", "u3")
    if not speakers:
        (audio / "utt2spk").unlink()
    with pytest.raises(DataError, match=f"^{audio}: has wav.scp, and {parts[0]} has feats.scp; all need the same$"):
        combine([Part("", parts[0]), Part("", audio)])
    with (parts[1] / "text").open("a") as file:
        file.write("u4 text alone\n")
    with pytest.raises(DataError, match="text: u4: transcript without audio in feats.scp"):
        combine([Part("", path) for path in parts])


def test_the_files_match_the_same_tables_in_memory(tmp_path, part):
    parts = [Part("read", part("a", "u2", "u5", utt2lang="en")), Part("", part("b", "u3", "u1", utt2domain="ted"))]
    write_combined(parts, tmp_path / "all", {"utt2lang": "zh"})
    whole, other = (read_data_dir(one.path) for one in parts)
    whole.conditions["utt2domain"] = dict.fromkeys(whole.text, "read")
    other.conditions["utt2lang"] = dict.fromkeys(other.text, "zh")
    for name in ("wav_scp", "text", "utt2spk"):
        getattr(whole, name).update(getattr(other, name))
    for name, table in other.conditions.items():
        whole.conditions[name].update(table)
    write_data_dir(whole, tmp_path / "expected")
    names = sorted(file.name for file in (tmp_path / "expected").iterdir())
    assert [MARK, *names] == sorted(file.name for file in (tmp_path / "all").iterdir())
    for name in names:
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


def test_clashes_are_listed_by_directory(tmp_path):
    for name, ids in (("c", "xyz"), ("a", "yz"), ("b", "xz")):
        write_data_dir(DataDir(text=dict.fromkeys(ids, "text")), tmp_path / name)
    with pytest.raises(FaultsError) as caught:
        combine([Part("", tmp_path / name) for name in "cab"])
    owners = [(Path(fault.file).name, fault.where, fault.what.split()[3][-2:-1]) for fault in caught.value.faults]
    assert owners == [("a", "y", "c"), ("a", "z", "c"), ("b", "x", "c"), ("b", "z", "a")]


def test_rows_are_not_kept_in_memory(tmp_path):
    rows = 2000
    for name in ("a", "b"):
        text = {f"{name}{n:06d}": f"the sentence {n} of {name}" for n in range(rows)}
        write_data_dir(DataDir(text=text), tmp_path / name)
    data, taken = traced(write_combined, [Part(name, tmp_path / name) for name in ("a", "b")], tmp_path / "all")
    assert len(data.text) == 2 * rows and taken < 150 * 2 * rows
