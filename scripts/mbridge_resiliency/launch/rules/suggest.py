# SPDX-License-Identifier: Apache-2.0
"""The launch command of the guide's direct path, made of what another launcher's command says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ..model import HOLE, HOLE_VARIABLE, MISSING, Launch, PythonFile, Word, known, shown
from .reading import SUGGESTED_OUT_OF_SECTION, sections_option

ENABLE = (
    "from megatron.bridge.training.config import FaultToleranceConfig\n"
    "cfg.ft = FaultToleranceConfig(enable_ft_package=True)"
)
GUIDE = "references/fault-tolerance.md#the-direct-path"
HEAD_NODE = (
    'head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)   # in the batch script, before srun'
)
#: Programs that start a process on each node, or several.
MPI = frozenset(("mpirun", "mpiexec"))


def as_ft_launcher(launch: Launch) -> str:
    """The launch by ft_launcher: its nodes, ranks, script and arguments kept, the options of the guide around them."""
    slurm = launch.under_slurm
    several = launch.nodes() != (1, 1) if launch.program == "torchrun" else launch.step is not None or by_mpi(launch)
    if launch.program == "torchrun":
        nodes = ("$SLURM_NNODES" if slurm else "$NUM_NODES") if several else "1"
        words = [_kept(launch, "--nnodes", nodes), _kept(launch, "--nproc-per-node", "1", "gpu")]
    elif by_mpi(launch):
        words = ["--nnodes=$NUM_NODES", "--nproc-per-node=gpu"]
    elif launch.step is not None:
        words = ["--nnodes=$SLURM_NNODES", f"--nproc-per-node={_tasks_per_node(launch)}"]
    else:
        words = ["--nnodes=1", "--nproc-per-node=gpu"]
    restarts = launch.value("--max-restarts")
    words.append(f"--max-restarts={restarts if known(restarts) and restarts not in (MISSING, '0') else 3}")
    if several:
        words.append("--rdzv-backend=c10d")
        words.append(_endpoint(launch, slurm))
        words.append(_kept(launch, "--rdzv-id", "$SLURM_JOB_ID" if slurm else "$JOB_ID"))
    words += [sections_option({}), f"--ft-rank-out-of-section-timeout={SUGGESTED_OUT_OF_SECTION}"]
    words += ["-m"] if launch.module and launch.script is not None else []
    words.append(_written(launch.script) if launch.script is not None else "train.py")
    words += _arguments(launch)
    start = "srun --ntasks-per-node=1 --kill-on-bad-exit=0 " if launch.program != "torchrun" and launch.step else ""
    command = f"{start}ft_launcher {' '.join(words)}"
    return f"{HEAD_NODE}\n{command}" if "$head_node" in command else command


def by_mpi(launch: Launch) -> bool:
    """True if mpirun starts the program on the nodes."""
    return not MPI.isdisjoint(launch.wrappers)


def _kept(launch: Launch, name: str, absent: str, unknown: str | None = None) -> str:
    """The option with its value, as written where the files do not tell it; else the value for one that is unknown."""
    option = launch.option(name)
    if option is None or not option.value:
        return f"{name}={absent}"
    if known(option.value):
        return f"{name}={option.value}"
    written = launch.sources.get(name, "")
    alone = "[@]" not in written and list(launch.sources.values()).count(written) == 1
    if alone and re.search(r"[$`]", written) and HOLE_VARIABLE not in written:
        return f"{name}={written.partition('=')[2] if written.startswith('-') else written}"
    return f"{name}={unknown or absent}"


def _endpoint(launch: Launch, slurm: bool) -> str:
    head = "$head_node" if slurm else "$MASTER_ADDR"
    if launch.option("--rdzv-endpoint") is not None and launch.value("--rdzv-endpoint") != "":
        return _kept(launch, "--rdzv-endpoint", f"{head}:29500")
    host = _kept(launch, "--master-addr", head).partition("=")[2]
    port = _kept(launch, "--master-port", "29500").partition("=")[2]
    return f"--rdzv-endpoint={host}:{port}"


def _tasks_per_node(launch: Launch) -> str:
    own = launch.step.options.get("ntasks-per-node") if launch.step else None
    given = own or (launch.directives.get("ntasks-per-node") if launch.directives else None)
    return given if given and given.isdigit() and given != "1" else "gpu"


def _arguments(launch: Launch) -> list[str]:
    """The script's arguments as written: a variable or array stays one, unless it holds the launcher too."""
    whole = {*launch.sources.values(), launch.script.source if launch.script else ""}
    words: list[str] = []
    before = ""
    for word in launch.arguments:
        expansion = re.match(rf"\"?\$(?!{{?{HOLE_VARIABLE})", word.source) is not None and word.source not in whole
        if not expansion:
            words.append(_written(word))
        elif word.source != before:
            words.append(word.source)
        before = word.source if expansion else ""
    return words


def _written(word: Word) -> str:
    """The word for a shell: as in the file where a part of it is not known."""
    if HOLE in word.text:
        return shown(word.text) if HOLE_VARIABLE in word.source else word.source or shown(word.text)
    return word.text if re.fullmatch(r"[\w@%+=:,./-]+", word.text) else shlex.quote(word.text)


def enabling(script: PythonFile, launch: Launch) -> Iterator[str]:
    """The lines of the direct path for a job without fault tolerance."""
    yield from enabled_in(script).split("\n")
    yield f"# the launch; the whole path: {GUIDE}"
    yield from as_ft_launcher(launch).split("\n")


def enabled_in(script: PythonFile) -> str:
    """The script's lines of the direct path; a restart resumes only where checkpoint.load is set."""
    loads = any(s.name == "checkpoint.load" and s.value not in (None, "", MISSING) for s in script.settings)
    resume = "" if loads else "\ncfg.checkpoint.load = cfg.checkpoint.save"
    return f"# {script.path}, before training starts:\n{ENABLE}{resume}"
