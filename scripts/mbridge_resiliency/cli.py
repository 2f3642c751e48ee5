# SPDX-License-Identifier: Apache-2.0
"""What every command shares: exit codes, the error for bad input, and finding the libraries it needs."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from pathlib import Path
from typing import Callable, NoReturn, Sequence

EXIT_NOTHING = 0  # checked, and nothing to report
EXIT_FINDINGS = 1  # checked, and something to report
EXIT_USAGE = 2  # wrong usage, or input that cannot be read
EXIT_NOT_MEASURED = 3  # no input matched: nothing was measured, which is never "clean"

#: import name -> requirement, for the checkers; setup.sh installs the same list.
CHECKER_LIBRARIES = {
    "yaml": "PyYAML>=6.0",
    "packaging": "packaging>=23.0",
    "tree_sitter": "tree-sitter>=0.25,<0.27",
    "tree_sitter_bash": "tree-sitter-bash>=0.25,<0.26",
}


class InputError(Exception):
    """Input that cannot be used. The message says what was expected and what to try."""


def is_named_pipe(path: Path) -> bool:
    """True for a pipe with a name of its own: without a writer, opening it waits for ever. <(command) is none."""
    return path.is_fifo() and not path.as_posix().startswith(("/dev/fd/", "/proc/"))


def cache_dir() -> Path:
    """The folder that setup.sh installs into, outside the skill's own folder."""
    override = os.environ.get("MBRIDGE_RESILIENCY_CACHE")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nemo-mbridge-resiliency"


def require_libraries(*names: str) -> None:
    """Make the named libraries importable, or exit with code 2 and the exact command that installs them.

    Where the running interpreter lacks one and setup.sh has made its environment, the command starts
    again under that environment's interpreter.

    Args:
        names: keys of CHECKER_LIBRARIES.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    prepared = cache_dir() / "checkers" / "bin" / "python"
    if prepared.exists() and Path(sys.prefix).resolve() != prepared.parent.parent.resolve():
        os.execv(str(prepared), [str(prepared), *sys.argv])
    wanted = " ".join(f"'{CHECKER_LIBRARIES[name]}'" for name in missing)
    setup = Path(__file__).resolve().parents[1] / "setup.sh"
    fail(
        f"{Path(sys.argv[0]).name} needs {', '.join(missing)}, which {sys.executable} does not have.\n"
        f"Install with either of:\n"
        f"  {sys.executable} -m pip install {wanted}\n"
        f"  bash {setup} checkers     # into {cache_dir()}, outside this project\n"
        f"On a machine without network, run the same on one that has it and copy the folder."
    )


def fail(message: str) -> NoReturn:
    """Print the message to standard error and exit with EXIT_USAGE."""
    print(message, file=sys.stderr)
    raise SystemExit(EXIT_USAGE)


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command's main and exit with its code.

    Bad input, a folder or output that cannot be written, a closed pipe and Ctrl-C end without a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without the characters that a log holds
    try:
        code = main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except InputError as error:
        fail(f"{Path(sys.argv[0]).name}: {error}")
    except BrokenPipeError:
        # The reader has left (`| head`): what it read is whole, and there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_NOTHING
    except OSError as error:
        # A full disk, a cache folder that cannot be made. What is left in the buffer must not be tried again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        fail(f"{Path(sys.argv[0]).name}: {error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
