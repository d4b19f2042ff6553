import argparse
from pathlib import Path

from espnet_diverse.bin import options


def test_the_model_file_is_a_name_in_the_run_or_a_path_or_left_to_the_task(tmp_path):
    (tmp_path / "9epoch.pth").touch()
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", type=Path)
    options.add_model_file(parser, default=None)

    def read(*arguments):
        first, *others = options.model_inputs(parser.parse_args(["--model_dir", str(tmp_path), *arguments]))
        assert first == tmp_path / "config.yaml"
        return others

    assert read("--model_file", "9epoch.pth") == [tmp_path / "9epoch.pth"]
    assert read("--model_file", "else/where.pth") == [Path("else/where.pth")]
    assert read() == []
