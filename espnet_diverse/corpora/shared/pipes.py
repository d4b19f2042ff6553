"""Commands in wav.scp, such as `flac -c -d -s one.flac | sox -t wav - -r 16000 -t wav - |`, run without a shell.

Only commands that cannot write files or run other programs are run: commands of the forms in `FORMS`, which read one
file and write to standard output. A program is found by its name on the PATH; the folder that a command gives is not
used, because it could be part of the data. All other commands are refused.
"""

import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import BinaryIO

from espnet_diverse.errors import DataError
from espnet_diverse.untrusted.output_limits import MOST_SECONDS, most_bytes, too_large

_CHUNK = 1 << 20
_END = "\n"  # of each word in the forms; words hold no line break
_VALUE = rf"[\w.:=%+,-]*{_END}"  # of an option: no file elsewhere, no command
_NUMBER = rf"(?:[-+=]?[\d.:,-]*\d[A-Za-z%]?|\-[A-Za-z]?){_END}"  # of an effect of sox
_FILE = rf"(?P<file>-|[^-\n][^\n]*){_END}"
_STDOUT = rf"(?:-|pipe:1?){_END}"
_SOX = rf"(?:(?:-V[01]|-[qGDR]){_END}|(?:-[trbcev]|--rate|--bits|--channels|--encoding|--type){_END}{_VALUE})*"
_EFFECT = rf"(?:remix|rate|channels|gain|norm|vol|speed|trim|dither|highpass|lowpass|pad){_END}"
_FFMPEG = (
    rf"(?:(?:-nostdin|-hide_banner|-nostats|-vn|-sn|-dn|-y|-bitexact){_END}|-f{_END}(?:wav|flac|mp3|ogg|au|aiff){_END}"
    rf"|(?:-ac|-ar|-ab|-b:a|-acodec|-c:a|-codec:a|-loglevel|-v|-ss|-to|-t|-threads){_END}{_VALUE})*"
)
_DECODES = r"(?=(?:.*\n)*-(?:[cs]*d|\-decode))"
_TO_STDOUT = r"(?=(?:.*\n)*-(?:[ds]*c|\-stdout))"


def _options(options: str) -> str:
    """The form of options before and after the file, which is left out if standard input is read."""
    return rf"(?:{options})*(?:{_FILE}(?:{options})*)?"


FORMS = {
    "cat": rf"(?:{_FILE})?",
    "zcat": rf"(?:{_FILE})?",
    "gunzip": _TO_STDOUT + _options(rf"(?:-c|--stdout){_END}"),
    "gzip": _TO_STDOUT + _DECODES + _options(rf"(?:-[cd]+){_END}"),
    "sph2pipe": _options(rf"(?:-[pua]{_END}|-[fcts]{_END}{_VALUE})"),
    "flac": _TO_STDOUT + _DECODES + _options(rf"(?:-[cds]+|--decode|--stdout|--silent){_END}"),
    "sox": rf"{_SOX}{_FILE}{_SOX}{_STDOUT}(?:{_EFFECT}(?:{_NUMBER})*)*",
    "ffmpeg": rf"{_FFMPEG}-i{_END}{_FILE}{_FFMPEG}{_STDOUT}",
}
"""The words after each program, each with a line break."""
_PLAYLISTS = (".m3u", ".pls")  # sox treats them as lists of files and commands
_GUARD = {"ffmpeg": ("-nostdin", "-protocol_whitelist", "file,pipe")}  # no terminal, and no network in its input


class _RefusedError(Exception):
    """A command that is not run; the message has the reason."""


def parse_pipe(value: str) -> list[list[str]]:
    """The commands of an entry of wav.scp that ends in a pipe, each as words, checked.

    Raises:
        DataError: A command is not allowed; the message names it and the reason.
    """
    try:
        lexer = shlex.shlex(value, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError as error:
        raise DataError(f"{value!r}: {error}; write the file yourself and give its path") from error
    if not words or words[-1] != "|":
        raise DataError(f"{value!r}: only commands that end in a pipe are run; write the file and give its path")
    commands: list[list[str]] = [[]]
    for word in words[:-1]:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    try:
        for place, command in enumerate(commands):
            _check(command, first=place == 0)
    except _RefusedError as error:
        raise DataError(f"{value!r}: {error}; write the file yourself and give its path") from error
    return commands


def _end(process: subprocess.Popen) -> None:
    """Kill a process that is still running, for example after an interrupt."""
    if process.poll() is None:
        process.kill()
        process.wait()


def run_pipe(value: str, target: Path) -> None:
    """Write the output of an entry of wav.scp that ends in a pipe to a file.

    Raises:
        DataError: See `parse_pipe`; or a program is missing, fails, takes an hour, or writes more than
            `output_limits.most_bytes` of its file.
    """
    commands = [_located(value, command) for command in parse_pipe(value)]
    with ExitStack() as stack:
        output = stack.enter_context(target.open("wb"))
        most = most_bytes(next(Path(word) for word in commands[0][1:] if Path(word).is_file()))
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        running: list[subprocess.Popen] = []
        for command, log in zip(commands, logs, strict=True):
            source = running[-1].stdout if running else subprocess.DEVNULL
            running.append(subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, stderr=log))
            stack.callback(_end, running[-1])
            if len(running) > 1:
                source.close()  # so that a command notices that its reader has ended
        clock = Timer(MOST_SECONDS, lambda: [process.kill() for process in running])
        stack.callback(clock.cancel)
        clock.start()
        if not _copied(running[-1].stdout, output, most):
            raise DataError(f"{value!r}: {too_large(most)}")
        for process in running:
            process.wait()
        for process, log in zip(running, logs, strict=True):
            # A command such as head ends before it has read all; the command before it is then ended by the system.
            unread = process.returncode == -signal.SIGPIPE and process is not running[-1]
            if process.returncode and not unread:
                log.seek(0)
                message = " ".join(log.read().decode("utf-8", "replace").split())[-200:]
                program = Path(process.args[0]).name
                raise DataError(f"{value!r}: {program} failed with exit code {process.returncode} ({message})")


def _copied(source: BinaryIO, target: BinaryIO, most: int) -> bool:
    """Copy a stream; return False if it has more than `most` bytes."""
    while chunk := source.read(min(_CHUNK, most + 1)):
        if (most := most - len(chunk)) < 0:
            return False
        target.write(chunk)
    return True


def _located(value: str, command: Sequence[str]) -> list[str]:
    """A command with the path of its program."""
    name = Path(command[0]).name
    program = shutil.which(name)
    if program is None:
        raise DataError(f"{value!r}: there is no program {name} on the PATH; install it, or write the file yourself")
    return [program, *_GUARD.get(name, ()), *command[1:]]


def _check(command: list[str], first: bool) -> None:
    """Refuse a command that is not allowed. The file that it reads becomes an absolute path."""
    name = Path(command[0]).name if command else ""
    if name not in FORMS:
        raise _RefusedError(f"{name or 'nothing'} is not among the programs that are run, {', '.join(FORMS)}")
    arguments = "".join(f"{word}{_END}" for word in command[1:])
    match = re.fullmatch(FORMS[name], arguments)
    if match is None or arguments.count(_END) != len(command) - 1:
        options = " ".join(dict.fromkeys(re.findall(r"(?<=[:|\n])--?[\w:\[\]]+", FORMS[name]))) or "none"
        form = f"it must read one file and write to standard output; its options may be {options}"
        raise _RefusedError(f"{name} is not run with {' '.join(command[1:]) or 'nothing'}: {form}")
    word = match["file"]
    if not first:
        if word not in (None, "-", "pipe:0"):
            raise _RefusedError(f"{word} is read instead of the output of the command before it")
        return
    if word is None:
        raise _RefusedError(f"{name} must read one file")
    if "|" in word or word.lower().endswith(_PLAYLISTS):
        raise _RefusedError(f"{word} could name other files or commands")
    if not Path(word).is_file():
        raise _RefusedError(f"there is no file {word}")
    command[1 + arguments[: match.start("file")].count(_END)] = str(Path(word).absolute())
