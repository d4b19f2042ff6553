"""The error of a full disk gets a name, and other errors stay as they are."""

import errno

import pytest

from espnet_diverse.data.files.disk_space import NO_ROOM, named_if_full


@pytest.mark.parametrize("code", NO_ROOM)
def test_a_full_disk_is_named_once(code, tmp_path):
    with (
        pytest.raises(OSError) as caught,
        named_if_full(tmp_path / "outer"),
        named_if_full(tmp_path / "inner"),
    ):
        raise OSError(code, "no room")
    assert caught.value.filename == str(tmp_path / "inner")


@pytest.mark.parametrize("error", [OSError(errno.EPIPE, "no reader"), OSError("of no number"), ValueError("x")])
def test_other_errors_have_no_name(error, tmp_path):
    with pytest.raises(type(error)) as caught, named_if_full(tmp_path):
        raise error
    assert caught.value is error and getattr(error, "filename", None) is None
