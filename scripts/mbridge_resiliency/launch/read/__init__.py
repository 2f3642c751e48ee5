# SPDX-License-Identifier: Apache-2.0
"""From files to one Job: shell.py, python.py, document.py read one language each; command.py, options.py words."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Callable, Sequence

from ...cli import InputError, is_named_pipe
from ...report.finding import Place
from ..model import Job, OtherKind

#: A launch or training script is never larger (bytes).
LARGEST = 2_000_000
_OTHER_SUFFIXES = (".md", ".rst", ".txt", ".log", ".out", ".err", ".toml", ".ini", ".cfg", ".ipynb", ".j2", ".csv")
_SHELL_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".sub", ".job", ".lsf", ".pbs")


def read_job(names: Sequence[str]) -> Job:
    """Read the named files as one job; `-` is a shell script on standard input.

    Raises:
        InputError: a file cannot be read, or none is of a kind that is understood; the message says which and what to
            do.
    """
    texts: dict[str, str] = {}
    others: list[OtherKind] = []
    for name in dict.fromkeys(names):
        try:
            texts[name] = _load(name)
        except OtherKind as error:
            others.append(error)
    return job_of(texts, others)


def job_of(texts: dict[str, str], others: Sequence[OtherKind] = ()) -> Job:
    """One job of these files: name -> text; others: the files that are not read. Raises InputError as read_job."""
    job = Job(files=list(texts), texts=dict(texts))
    shell = []
    others = list(others)
    try:
        for name, text in texts.items():
            kind = _kind(name, text)
            if kind == "other":
                job.ignored.append(f"{name}: read as neither shell, Python nor YAML")
            elif kind == "python":
                from .python import read_python

                try:
                    job.python.append(read_python(name, text))
                except (SyntaxError, ValueError) as error:
                    line = getattr(error, "lineno", None)
                    raise InputError(f"{name}{f':{line}' if line else ''}: no valid Python: {error.args[0]}") from error
            elif kind == "yaml":
                from .document import read_yaml

                try:
                    job.yaml.append(read_yaml(name, text))
                except OtherKind as error:
                    others.append(error)
            else:
                shell.append((name, text))
        if others and not (shell or job.python or job.yaml):
            raise others[0]
        job.ignored.extend(str(error) for error in others)
        if shell:
            from .shell import ShellFile, ShellReader

            ShellReader(job, [ShellFile(name, text) for name, text in shell], _writer(job)).read_all()
    except (RecursionError, MemoryError) as error:
        raise InputError(f"{', '.join(texts)}: nested too deeply for a launch or training script") from error
    return job


def _writer(job: Job) -> Callable[[str, str, Place], None]:
    """Takes the YAML files that a script writes by heredoc."""

    def on_document(name: str, text: str, place: Place) -> None:
        from .document import read_yaml

        try:
            document = read_yaml(name, text, place.line)
        except InputError:
            return
        job.yaml.append(replace(document, shown=place.file))

    return on_document


def _load(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            path = Path(name)
            if path.is_dir():
                raise InputError(f"{name} is a folder; name the launch script and the training script in it")
            if is_named_pipe(path):
                raise InputError(f"{name} is a named pipe, which may never end; name a file, or - for standard input")
            with path.open("rb") as handle:
                data = handle.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{name!r}: {error}") from error
    if len(data) > LARGEST:
        raise OtherKind(f"{name} is larger than {LARGEST // 1_000_000} MB: no launch or training script")
    if b"\0" in data:
        raise OtherKind(f"{name} is a binary file; name shell, Python and YAML files")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start})") from error


def _kind(name: str, text: str) -> str:
    suffix = PurePath(name).suffix.lower()
    if suffix == ".py":
        return "python"
    if suffix in (".yaml", ".yml", ".json"):
        return "yaml"
    if suffix in _SHELL_SUFFIXES or name == "-":
        return "shell"
    if suffix in _OTHER_SUFFIXES:
        return "other"
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        return "python" if "python" in first else "shell"
    if re.search(r"^(from|import) \w", text, re.M) and not re.search(r"^#SBATCH|^\s*(export|srun) ", text, re.M):
        return "python"
    return "shell"
