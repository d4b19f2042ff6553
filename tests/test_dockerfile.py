"""The Dockerfile: its files exist, its packages are pinned and its command parses. It is built by hand."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

from espnet_diverse.bin.main import command_parser

ROOT = Path(__file__).resolve().parents[1]
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
LINES = [line.partition(" ")[::2] for line in TEXT.splitlines() if line and not line.startswith("#")]


def arguments(instruction):
    return [rest for name, rest in LINES if name == instruction]


def test_copied_files_exist_and_are_in_the_build_context():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [path for line in arguments("COPY") if "--from" not in line for path in line.split()[:-1]]
    assert len(copied) == 7 and set(copied) == set(allowed)
    assert all((ROOT / path).exists() for path in copied)
    needed = {path.name for path in ROOT.iterdir() if fnmatch(path.name, "*.py") or path.name == "LICENSE"}
    assert needed <= set(copied)


def test_the_extras_match_setup():
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", TEXT)
    assert extras == "serve,vad,media"
    assert all(f'"{name}": ' in (ROOT / "setup.py").read_text(encoding="utf-8") for name in extras.split(","))


def test_the_server_starts_without_root_and_is_watched():
    names = [name for name, _ in LINES]
    assert int(arguments("USER")[0]) > 0 and names.index("USER") < names.index("ENTRYPOINT")
    (command,) = map(json.loads, arguments("ENTRYPOINT"))
    assert command[:2] == ["espnet-diverse", "serve"]
    _, parser = command_parser("serve")
    args = parser.parse_args([*command[2:], "--model", "a=b"])
    assert args.host == "0.0.0.0" and [str(args.port)] == arguments("EXPOSE")
    (health,) = arguments("HEALTHCHECK")
    assert f"127.0.0.1:{args.port}/health" in health and arguments("VOLUME") == ["/models"]


def test_it_names_no_registry_and_pins_its_packages():
    assert "://" not in TEXT.replace(f"http://127.0.0.1:{arguments('EXPOSE')[0]}", "")
    assert all("-c constraints.txt" in command for command in TEXT.split("&&") if "pip install" in command)
    assert arguments("FROM") == ["python:3.12-slim AS build", "python:3.12-slim"]
