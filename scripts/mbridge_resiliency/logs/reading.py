# SPDX-License-Identifier: Apache-2.0
"""From paths to blocks of lines. Any bytes are accepted; memory stays bounded."""

from __future__ import annotations

import gzip
import os
import re
import stat
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Iterator, Sequence

from ..cli import InputError, is_named_pipe

BLOCK_BYTES = 4 << 20
#: A longer line is cut for searching; line numbers stay right.
LONGEST_LINE_BYTES = 1 << 20
#: Lines that belong to the one before them, a traceback's, are looked for so far ahead.
LOOK_AHEAD_BYTES = 64 << 10
#: Found in a folder, these are checkpoints, profiles and archives, not logs.
NOT_LOGS = frozenset(
    ".pt .pth .bin .distcp .safetensors .npy .npz .pkl .metadata .nsys-rep .sqlite .qdrep .so .zip .tar .tgz .whl "
    ".png .jpg .pdf .py .pyc .yaml .yml .json .lock".split()
)
#: torchelastic's --log-dir: <run>/attempt_<cycle>/<local rank>/stdout.log
_RANK_FILE = re.compile(r"attempt_(?P<cycle>[0-9]+)/(?P<local_rank>[0-9]+)/(?:stdout|stderr)\.log(?:\.gz)?$")
#: ft_launcher's --ft-per-cycle-applog-prefix: <prefix>_cycle<cycle>.log
_CYCLE_FILE = re.compile(r"_cycle(?P<cycle>[0-9]+)\.log(?:\.gz)?$")


@dataclass(frozen=True)
class LogFile:
    """One file to read.

    Attributes:
        path: where it is; None is standard input.
        name: how it is shown.
        cycle: the cycle that its name tells, if any.
        local_rank: the local rank that its name tells, if any.
        labels_are_ranks: a number in front of its lines is a global rank, not a task of srun.
    """

    path: Path | None
    name: str
    cycle: int | None = None
    local_rank: int | None = None
    labels_are_ranks: bool = False

    def open(self) -> BinaryIO:
        """The bytes, decompressed."""
        if self.path is None:
            return sys.stdin.buffer
        handle = self.path.open("rb")
        packed = handle.peek(2).startswith(b"\x1f\x8b")
        return gzip.GzipFile(fileobj=handle) if packed else handle  # type: ignore[return-value]


def find_files(paths: Sequence[Path]) -> tuple[list[LogFile], list[str]]:
    """The log files that the paths name, in a stable order, and notes on what was left out.

    Folders are walked without following links to folders; a file that two paths reach is read once.

    Raises:
        InputError: a named path does not exist or cannot be read.
    """
    files: list[LogFile] = []
    notes: list[str] = []
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if str(path) == "-":
            files.append(LogFile(None, "<stdin>"))
        elif path.is_dir():
            if not os.access(path, os.R_OK | os.X_OK):
                raise InputError(f"{path}: permission denied; log folders must be readable")
            for found in _walk(path):
                if _is_log(found, notes) and _first_time(found, seen):
                    files.append(_described(found))
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder")
        elif not os.access(path, os.R_OK):
            raise InputError(f"{path}: permission denied")
        elif is_named_pipe(path):
            raise InputError(f"{path}: a named pipe, which may never end; give a file, or - for standard input")
        elif not (stat.S_ISREG(path.stat().st_mode) or stat.S_ISFIFO(path.stat().st_mode)):
            raise InputError(f"{path}: not a regular file; give log files, folders or - for standard input")
        elif _first_time(path, seen):
            files.append(_described(path))
    return files, notes


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders.sort(key=_natural)
        for name in sorted(names, key=_natural):
            yield Path(root, name)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _is_log(path: Path, notes: list[str]) -> bool:
    if path.suffix.lower() in NOT_LOGS:
        return False
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as handle:
            start = handle.read(1024)
    except OSError as error:
        notes.append(f"{path}: not read ({error.strerror or error})")
        return False
    if b"\0" in start and not start.startswith(b"\x1f\x8b") and ".log" not in path.name and ".out" not in path.name:
        notes.append(f"{path}: not read (binary); name the file itself to read it")
        return False
    return True


def _first_time(path: Path, seen: set[tuple[int, int]]) -> bool:
    status = path.stat()
    identity = (status.st_dev, status.st_ino)
    if identity in seen and stat.S_ISREG(status.st_mode):
        return False
    seen.add(identity)
    return True


def _described(path: Path) -> LogFile:
    shown = path.as_posix()
    if match := _RANK_FILE.search(shown):
        return LogFile(path, shown, int(match["cycle"]), int(match["local_rank"]))
    if match := _CYCLE_FILE.search(shown):
        return LogFile(path, shown, int(match["cycle"]), labels_are_ranks=True)
    return LogFile(path, shown)


@dataclass(frozen=True)
class Block:
    """A piece of a file. What starts in data[:end] belongs to it; the rest is there to look ahead and comes again."""

    data: bytes
    end: int


def blocks(file: LogFile, notes: list[str]) -> Iterator[Block]:
    """The file in blocks that end at a line's end, except inside a line beyond LONGEST_LINE_BYTES.

    A truncated or damaged .gz yields what can be read of it and a note.
    """
    data = b""
    try:
        opened = file.open()
    except OSError as error:
        notes.append(f"{file.name}: not read ({error.strerror or error})")
        return
    with opened as handle:
        for piece in _pieces(handle, file.name, notes):
            data += piece
            ahead = max(len(data) - LOOK_AHEAD_BYTES, 0)
            end = data.rfind(b"\n", 0, ahead) + 1
            if ahead - end > LONGEST_LINE_BYTES:
                end = ahead
            if end:
                yield Block(data, end)
                data = data[end:]
    if data:
        yield Block(data, len(data))


def _pieces(handle: BinaryIO, name: str, notes: list[str]) -> Iterator[bytes]:
    """Pieces of about BLOCK_BYTES; what came before an error is kept."""
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            piece = handle.read1(BLOCK_BYTES)  # type: ignore[attr-defined]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            notes.append(f"{name}: damaged gzip, read up to there ({error})")
            piece = b""
        except OSError as error:
            notes.append(f"{name}: reading stopped ({error.strerror or error})")
            piece = b""
        pieces.append(piece)
        size += len(piece)
        if not piece or size >= BLOCK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
        if not piece:
            return
