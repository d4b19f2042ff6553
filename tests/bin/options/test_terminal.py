import io
import os
import pty
import subprocess
import sys

import pytest

from espnet_diverse.bin.options.terminal import Terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07 \x1b[31mred\x1b[0m", "\ufffd]0;title\ufffd \ufffd[31mred\ufffd[0m"),
        ("\x9b31m \x00 \x7f \u202e \u2066", "\ufffd31m \ufffd \ufffd \ufffd \ufffd"),
        ("\r\x1b[K 10 %\x1b[A\n\t", "\ufffd\ufffd[K 10 %\ufffd[A\n\t"),
        ("नमस्ते می‌خواهم שלום é 你好", "नमस्ते می‌خواهم שלום é 你好"),
    ],
)
def test_text_cannot_control_the_terminal(text, shown):
    stream = io.StringIO()
    print(text, end="", file=Terminal(stream))
    assert stream.getvalue() == shown and Terminal(stream).getvalue() == shown


def test_progress_bars_move_the_cursor():
    stream = io.StringIO()
    print("\r\x1b[K 10 %\x1b[A\n\t\x1b[31m", end="", file=Terminal(stream).cursor)
    assert stream.getvalue() == "\r\x1b[K 10 %\x1b[A\n\t\ufffd[31m"


def command(folder):
    name = "evil\x1b]0;x\x07"
    (folder / name).write_text("a b\n", encoding="utf-8")
    return [
        sys.executable,
        "-m",
        "espnet_diverse",
        "score",
        "--reference",
        name,
        "--hypothesis",
        "missing\x1b[31m",
        "--output_dir",
        "out",
    ]


def test_a_command_writes_no_escapes_to_a_terminal_and_all_bytes_elsewhere(tmp_path):
    reader, terminal = pty.openpty()
    done = subprocess.run(command(tmp_path), cwd=tmp_path, stdout=terminal, stderr=terminal, check=False)
    os.close(terminal)
    shown = os.read(reader, 10_000).decode()
    os.close(reader)
    assert done.returncode == 1 and "missing\ufffd[31m" in shown and "\x1b" not in shown
    done = subprocess.run(command(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "missing\x1b[31m" in done.stderr


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path, closed):
    script = f'"{sys.executable}" -m espnet_diverse score --help {closed}'
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False).returncode == 0


def test_a_closed_terminal_changes_no_exit_code(tmp_path):
    reader, terminal = pty.openpty()
    os.close(reader)
    done = subprocess.run(command(tmp_path), cwd=tmp_path, stdout=terminal, stderr=terminal, check=False)
    help_text = [sys.executable, "-m", "espnet_diverse", "score", "--help"]
    shown = subprocess.run(help_text, cwd=tmp_path, stdout=terminal, stderr=terminal, check=False)
    os.close(terminal)
    assert (done.returncode, shown.returncode) == (1, 0)


def test_output_is_discarded_after_the_terminal_is_closed():
    reader, terminal = pty.openpty()
    with os.fdopen(terminal, "w", buffering=1) as stream:
        shown = Terminal(stream)
        print("one", file=shown)
        os.close(reader)
        for _ in range(2):
            print("two", file=shown, flush=True)
