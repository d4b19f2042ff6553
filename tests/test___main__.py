import runpy

import pytest


def test_the_package_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["espnet_diverse", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("espnet_diverse", run_name="__main__")
    assert not ended.value.code and capsys.readouterr().out.startswith("espnet-diverse ")
