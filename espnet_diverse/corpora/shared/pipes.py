"""Commands in wav.scp, such as `flac -c -d -s one.flac | sox -t wav - -r 16000 -t wav - |`, run without a shell.

Only what cannot write or run anything else is run: programs of `PROGRAMS` with the options listed there, which read one
file and write to standard output. A program is found by its name on the PATH; the folder that a command gives is not
used, because it could be part of the data. Everything else is refused.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from espnet_diverse.errors import DataError

_VALUE = re.compile(r"[\w.:=%+,-]*")  # of an option: no file elsewhere, no command
_NUMBER = re.compile(r"-|-[A-Za-z]|[-+=]?[\d.:,-]*\d[A-Za-z%]?")  # of an effect of sox
_EFFECTS = ("remix", "rate", "channels", "gain", "norm", "vol", "speed", "trim", "dither", "highpass", "lowpass", "pad")
_FORMATS = ("wav", "flac", "mp3", "ogg", "au", "aiff")
_STDOUT = ("-", "pipe:1", "pipe:")
_PLAYLISTS = (".m3u", ".pls")  # which sox takes as lists of files and commands
_GUARD = {"ffmpeg": ("-nostdin", "-protocol_whitelist", "file,pipe")}  # no terminal, and no network in what it reads


@dataclass(frozen=True)
class Program:
    """Options that a program may be given.

    Attributes:
        flags: Options without a value.
        valued: Options with a value.
        needed: Flags that it must be given, without which it would write a file.
        writes: Whether its output is an argument, which must be standard output.
    """

    flags: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    writes: bool = False


PROGRAMS = {
    "cat": Program(),
    "zcat": Program(),
    "gunzip": Program(flags=("-c", "--stdout"), needed=("-c",)),
    "gzip": Program(flags=("-c", "-d", "-dc", "-cd"), needed=("-c", "-d")),
    "sph2pipe": Program(flags=("-p", "-u", "-a"), valued=("-f", "-c", "-t", "-s")),
    "flac": Program(
        flags=("-c", "-d", "-s", "-cd", "-dc", "-cds", "-dcs", "-scd", "-sdc", "--decode", "--stdout", "--silent"),
        needed=("-c", "-d"),
    ),
    "sox": Program(
        flags=("-V0", "-V1", "-q", "-G", "-D", "-R"),
        valued=("-t", "-r", "-b", "-c", "-e", "-v", "--rate", "--bits", "--channels", "--encoding", "--type"),
        writes=True,
    ),
    "ffmpeg": Program(
        flags=("-nostdin", "-hide_banner", "-nostats", "-vn", "-sn", "-dn"),
        valued=("-i", "-f", "-ac", "-ar", "-acodec", "-c:a", "-codec:a", "-loglevel", "-v", "-ss", "-to", "-t"),
        needed=("-i",),
        writes=True,
    ),
}
_LONG = {"--stdout": "-c", "--decode": "-d"}


class _RefusedError(Exception):
    """A command that is not run; the message says why."""


def parse_pipe(value: str) -> list[list[str]]:
    """The commands of an entry of wav.scp that ends in a pipe, each as words, checked.

    Raises:
        DataError: A command is not one that is run; the message says which and why.
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
    """Kill a process that still runs, as after an interrupt."""
    if process.poll() is None:
        process.kill()
        process.wait()


def run_pipe(value: str, target: Path) -> None:
    """Write the output of an entry of wav.scp that ends in a pipe to a file.

    Raises:
        DataError: What `parse_pipe` raises, or a program is missing or fails.
    """
    commands = [_located(value, command) for command in parse_pipe(value)]
    with ExitStack() as stack:
        output = stack.enter_context(target.open("wb"))
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        running: list[subprocess.Popen] = []
        for command, log in zip(commands, logs, strict=True):
            last = len(running) == len(commands) - 1
            source = running[-1].stdout if running else subprocess.DEVNULL
            sink = output if last else subprocess.PIPE
            running.append(subprocess.Popen(command, stdin=source, stdout=sink, stderr=log))
            stack.callback(_end, running[-1])
            if len(running) > 1:
                source.close()  # so that a command whose reader has ended is told so
        for process in running:
            process.wait()
        for process, log in zip(running, logs, strict=True):
            if process.returncode:
                log.seek(0)
                said = " ".join(log.read().decode("utf-8", "replace").split())[-200:]
                program = Path(process.args[0]).name
                raise DataError(f"{value!r}: {program} failed with exit code {process.returncode} ({said})")


def _located(value: str, command: Sequence[str]) -> list[str]:
    """A command with the path of its program."""
    name = Path(command[0]).name
    program = shutil.which(name)
    if program is None:
        raise DataError(f"{value!r}: there is no program {name} on the PATH; install it, or write the file yourself")
    return [program, *_GUARD.get(name, ()), *command[1:]]


def _check(command: list[str], first: bool) -> None:
    """Refuse a command that is not run. The file that it reads becomes an absolute path."""
    name = Path(command[0]).name if command else ""
    if name not in PROGRAMS:
        raise _RefusedError(f"{name or 'nothing'} is not among the programs that are run, {', '.join(PROGRAMS)}")
    program = PROGRAMS[name]
    files, given = _arguments(name, program, command)
    silent = not (files or first or program.writes)  # it reads standard input without saying so
    if not given.issuperset(program.needed) or len(files) != 1 + program.writes and not silent:
        raise _RefusedError(f"{name} must read one file and write to standard output")
    if program.writes and command[files.pop()] not in _STDOUT:
        raise _RefusedError(f"{name} must write to standard output, -")
    if files:
        _locate_input(command, files[0], first)


def _arguments(name: str, program: Program, command: Sequence[str]) -> tuple[list[int], set[str]]:
    """The places of the files in a command, and its options, each letter of joined flags by itself."""
    files, given, places = [], set(), iter(range(1, len(command)))
    for place in places:
        word = command[place]
        if word in program.flags:
            given |= {_LONG.get(word, word), *(f"-{letter}" for letter in word[1:] if not word.startswith("--"))}
        elif word in program.valued and place + 1 < len(command):
            given.add(word)
            value = next(places)
            if word == "-i":
                files.append(value)
            elif not _allows(name, word, command[value]):
                raise _RefusedError(f"{name} is given {word} {command[value]}, which is not allowed")
        elif word.startswith("-") and word not in _STDOUT:
            raise _RefusedError(f"{name} is given {word}, which is not among the options that are allowed")
        elif len(files) <= program.writes:
            files.append(place)
        elif name == "sox" and _are_effects(command[place:]):
            break
        else:
            raise _RefusedError(f"{name} is given {' '.join(command[place:])}, which is not allowed")
    return files, given


def _allows(name: str, option: str, value: str) -> bool:
    """Return whether an option may have a value."""
    return bool(_VALUE.fullmatch(value)) and ((name, option) != ("ffmpeg", "-f") or value in _FORMATS)


def _are_effects(words: list[str]) -> bool:
    """Return whether words are effects of sox and their numbers."""
    return words[0] in _EFFECTS and all(word in _EFFECTS or _NUMBER.fullmatch(word) for word in words)


def _locate_input(command: list[str], place: int, first: bool) -> None:
    """Make the file that a command reads an absolute path."""
    word = command[place]
    if not first:
        if word not in ("-", "pipe:0"):
            raise _RefusedError(f"{word} is read in place of what the command before it writes")
        return
    if "|" in word or word.lower().endswith(_PLAYLISTS):
        raise _RefusedError(f"{word} could name other files or commands")
    if not Path(word).is_file():
        raise _RefusedError(f"there is no file {word}")
    command[place] = str(Path(word).absolute())
