import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.untrusted.output_limits import VARIABLE, most_bytes, too_large


def test_the_limit_grows_with_the_file_unless_it_is_given(tmp_path, monkeypatch):
    path = tmp_path / "a.flac"
    path.write_bytes(b"0" * 1000)
    first = most_bytes(path)
    path.write_bytes(b"0" * 1001)
    assert most_bytes(path) - first == 300 and first > 2**28
    monkeypatch.setenv(VARIABLE, "7")
    assert most_bytes(path) == 7_000_000
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.raises(ConfigError, match=f"{VARIABLE}: must be a whole number of MB, but is 'many'"):
        most_bytes(path)
    assert "more than 7 MB" in too_large(7_000_000) and VARIABLE in too_large(1)
