"""The digests of a run's data: which files they tell apart."""

from espnet_diverse.training.resumption import digests


def test_digests_of_audio_are_those_of_ids_sizes_and_middles(tmp_path):
    for folder, data in zip("abcd", (bytes(9999), bytes(9999), bytes(9998), bytes(4999) + b"x" * 5000), strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.wav").write_bytes(data)
        (tmp_path / folder / "wav.scp").write_text(f"u {tmp_path / folder / 'x.wav'}\n")
    paths = [[(str(tmp_path / folder / "wav.scp"), "speech", "sound")] for folder in "abcd"]
    found = [digests({"train_data_path_and_name_and_type": p, "valid_data_path_and_name_and_type": []}) for p in paths]
    assert found[0] == found[1] and len({str(one) for one in found}) == 3


def test_digests_of_arks_tell_entries_apart(tmp_path):
    (tmp_path / "x.ark").write_bytes(bytes(100))
    found = []
    for place in ("2", "50", "2", "2[0:9]", "2[0:8]"):
        (tmp_path / "feats.scp").write_text(f"u {tmp_path / 'x.ark'}:{place}\n")
        table = [(str(tmp_path / "feats.scp"), "speech", "kaldi_ark")]
        found.append(digests({"train_data_path_and_name_and_type": table, "valid_data_path_and_name_and_type": []}))
    assert found[0] == found[2] and len({str(one) for one in found}) == 4
