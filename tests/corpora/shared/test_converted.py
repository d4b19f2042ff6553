"""Folders of converted data."""

import re
from pathlib import Path

from espnet_diverse.corpora import Selection, kaldi
from espnet_diverse.corpora.shared.converted import converted_folder


def test_each_source_has_a_folder_of_its_own_under_any_name(tmp_path, monkeypatch):
    for owner in "ab":
        (tmp_path / owner / "data").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "data")
    monkeypatch.chdir(tmp_path)
    first, second = (converted_folder("kaldi", Path(owner, "data"), Path("out")) for owner in "ab")
    assert first != second and first.parent == second.parent == tmp_path / "out"
    assert re.fullmatch("kaldi_data_[0-9a-f]{12}", first.name)
    for same in ("link", "a/../a/data", tmp_path / "a" / "data"):
        assert converted_folder("kaldi", Path(same), Path("out")) == first
    assert converted_folder("hf", Path("a/data"), Path("out")) != first


def test_command_outputs_of_equally_named_directories_stay_apart(tmp_path):
    for owner in "ab":
        (tmp_path / owner / "data").mkdir(parents=True)
        (tmp_path / owner / "data" / "audio").write_text(owner)
        (tmp_path / owner / "data" / "wav.scp").write_text(f"u cat {tmp_path / owner / 'data' / 'audio'} |\n")
    how = Selection(sets=("test",), allow_pipes=True)
    copies = [kaldi.convert(tmp_path / owner / "data", tmp_path / "out", how) for owner in "ab"]
    assert [(copy / "wav" / "0000000.wav").read_text() for copy in copies] == ["a", "b"]


def test_names_of_the_hub_differ_by_owner_and_configuration(tmp_path):
    names = ("google/fleurs:de_de", "google/fleurs_de:de", "google_fleurs:de_de", "你" * 80, "你" * 79)
    folders = [converted_folder("hf", Path(name), tmp_path) for name in names]
    assert len(set(folders)) == len(names) and folders[0].name.startswith("hf_google_fleurs_de_de_")
    folders[-1].with_name(f".{folders[-1].name}.previous").mkdir()
