# SPDX-License-Identifier: Apache-2.0
"""From the words of one command to the program it starts, through the wrappers around it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Sequence

from ..model import HOLE, Step, Word

FT_LAUNCHER_MODULE = "nvidia_resiliency_ext.fault_tolerance.launcher"
TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
SHELLS = ("bash", "sh", "zsh", "dash")
#: Programs that start ranks by another way than torchrun's options.
OTHER_LAUNCHERS = ("deepspeed", "accelerate", "colossalai", "torchx")
#: Programs that start ranks, or are one.
LAUNCHERS = ("ft_launcher", "torchrun", "python", *OTHER_LAUNCHERS)
#: A word that is a whole command line.
_COMMAND_LINE = re.compile(
    rf"(?:^|[\s;&|/])(?:ft_launcher|torchrun|{re.escape(FT_LAUNCHER_MODULE)}|torch\.distributed\.run)\s"
)
#: Programs that only mention a launcher.
TALKERS = frozenset(
    "echo printf which type grep pgrep pkill killall pip man cat ls cp mv rm test [ sed awk tee alias help hash".split()
)


@dataclass(frozen=True)
class Wrapper:
    """How a wrapper's own words are skipped.

    Attributes:
        valued: options that take the next word as their value.
        words: positional words before the wrapped command (an image, a duration).
        verbs: the sub-command that wraps (`exec`, `run`), where the wrapper has several.
    """

    valued: frozenset[str] = frozenset()
    words: int = 0
    verbs: frozenset[str] = frozenset()


def _wrapper(valued: str = "", words: int = 0, verbs: str = "") -> Wrapper:
    return Wrapper(frozenset(valued.split()), words, frozenset(verbs.split()))


_CONTAINER_RUN = (
    "-v --volume -e --env --name -w --workdir --gpus --network --net --ipc --shm-size --ulimit -u --user --mount "
    "--device --cap-add --security-opt -h --hostname -m --memory --cpus --entrypoint --env-file -p --publish --runtime "
    "--pid --label -l --cpuset-cpus --add-host"
)
_APPTAINER = "-B --bind --env --env-file -H --home --pwd --overlay -W --workdir -S --scratch --mount --hostname --app"
WRAPPERS: dict[str, Wrapper] = {
    "apptainer": _wrapper(_APPTAINER, 1, "exec run"),
    "singularity": _wrapper(_APPTAINER, 1, "exec run"),
    "docker": _wrapper(_CONTAINER_RUN, 1, "exec run"),
    "podman": _wrapper(_CONTAINER_RUN, 1, "exec run"),
    "nerdctl": _wrapper(_CONTAINER_RUN, 1, "exec run"),
    "enroot": _wrapper("-e --env -m --mount -c --conf", 1, "start exec"),
    "shifter": _wrapper("--image --volume -V --env -e --workdir -w --module"),
    "uv": _wrapper(
        "--with --python -p --project --extra --group --env-file --directory --package --index-url", 0, "run"
    ),
    "poetry": _wrapper("-C --directory -P --project", 0, "run"),
    "pixi": _wrapper("-e --environment --manifest-path", 0, "run"),
    "conda": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "micromamba": _wrapper("-n --name -p --prefix --cwd", 0, "run"),
    "nsys": _wrapper(
        "-o --output -t --trace -s --sample -c --capture-range --capture-range-end -y --delay -d --duration "
        "--cuda-graph-trace --gpu-metrics-devices --gpu-metrics-device -f --force-overwrite -w --show-output --stats "
        "-x --stop-on-exit --session-new --export --kill --cudabacktrace",
        0,
        "profile launch",
    ),
    "ncu": _wrapper("-o --export -k --kernel-name -c --launch-count -s --launch-skip --set --section"),
    "exec": _wrapper("-a"),
    "command": _wrapper(),
    "builtin": _wrapper(),
    "time": _wrapper("-f --format -o --output"),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c --class -n --classdata"),
    "chrt": _wrapper("", 1),
    "stdbuf": _wrapper("-i --input -o --output -e --error"),
    "timeout": _wrapper("-k --kill-after -s --signal", 1),
    "taskset": _wrapper("", 1),
    "numactl": _wrapper("-N -m -C -i -p"),
    "flock": _wrapper("-w --timeout -E", 1),
    "sudo": _wrapper("-u --user -g --group -h --host -C"),
    "mpirun": _wrapper(
        "-n -np -c -N -x -H --host -hostfile --hostfile --map-by --bind-to --mca -mca -npernode --npernode"
    ),
    "mpiexec": _wrapper("-n -np -c -N -x -H --host -hostfile --hostfile --map-by --bind-to --mca -mca -env"),
    "ssh": _wrapper("-i -p -l -o -F -J -L -R", 1),
    "pdsh": _wrapper("-w -x -f -R -l -t -u", 0),
    "catchsegv": _wrapper(),
    "gosu": _wrapper("", 1),
}

#: srun: short option -> long; the first five are the ones that rules read.
SRUN_SHORT = {
    "-N": "nodes",
    "-n": "ntasks",
    "-K": "kill-on-bad-exit",
    "-k": "no-kill",
    "-W": "wait",
    "-A": "account",
    "-c": "cpus-per-task",
    "-C": "constraint",
    "-d": "dependency",
    "-D": "chdir",
    "-e": "error",
    "-G": "gpus",
    "-i": "input",
    "-J": "job-name",
    "-m": "distribution",
    "-o": "output",
    "-p": "partition",
    "-q": "qos",
    "-r": "relative",
    "-t": "time",
    "-w": "nodelist",
    "-x": "exclude",
}
SRUN_FLAGS = frozenset(
    "-l --label -u --unbuffered -v --verbose -s --oversubscribe -Q --quiet -X --disable-status -O --overcommit -H "
    "--hold -k --no-kill -I --immediate -E --preserve-env -Z --no-allocate --overlap --exact --exclusive --pty "
    "--contiguous --no-requeue --requeue --container-mount-home --no-container-mount-home --container-writable "
    "--container-readonly --container-remap-root --no-container-remap-root --no-container-entrypoint --container- "
    "entrypoint --whole --kill-on-bad-exit -K --multi-prog --spread-job --use-min-nodes --mpi-combine --debugger- "
    "test --quit-on-interrupt --send-libs --propagate --export-all".split()
)


@dataclass
class Program:
    """What a command starts in the end.

    Attributes:
        name: the base name of the program; for `python -m MODULE` of a launcher, the launcher.
        words: its arguments.
        module: for python, that the first argument is a module.
        inline: for `bash -c`, the script text.
        environment: variables that the wrappers set.
    """

    name: str
    word: Word
    words: list[Word]
    module: bool = False
    inline: Word | None = None
    environment: dict[str, str] = field(default_factory=dict)
    step: Step | None = None
    wrappers: tuple[str, ...] = ()


def dissect(words: Sequence[Word]) -> Program | None:
    """The program that these words start, or None if that could not be told."""
    environment: dict[str, str] = {}
    wrappers: list[str] = []
    step: Step | None = None
    rest = list(words)
    while rest:
        word = rest[0]
        name = PurePath(word.text).name
        if _COMMAND_LINE.search(word.text):  # one word that another shell reads: ssh node "cd /x && ft_launcher ..."
            return Program("bash", word, [], inline=word, environment=environment, step=step, wrappers=tuple(wrappers))
        if HOLE in name:
            launcher = _find_launcher(rest)
            if launcher is None:
                if len(rest) > 1 and word.text == HOLE:
                    rest = rest[1:]
                    continue
                return None
            rest = rest[launcher:]
            continue
        if name in TALKERS or (name == "command" and len(rest) > 1 and rest[1].text in ("-v", "-V")):
            return None
        if name == "srun":
            step, rest, exported = _srun(word, rest[1:])
            environment.update(exported)
            wrappers.append(name)
        elif name == "env":
            rest = _env(rest[1:], environment)
        elif name in WRAPPERS:
            inner = _unwrap(WRAPPERS[name], rest[1:], environment)
            if inner is None:
                return None
            wrappers.append(name)
            rest = inner
        else:
            program = _program(name, word, rest[1:])
            if program is None:
                return None
            return replace(program, environment=environment, step=step, wrappers=tuple(wrappers))
    return None


def _program(name: str, word: Word, words: list[Word]) -> Program | None:
    if name in SHELLS:
        return _shell(name, word, words)
    if re.fullmatch(r"python(\d(\.\d+)?)?|ipython|pypy3?", name):
        return _python(word, words)
    if name in LAUNCHERS:
        return Program(name, word, words)
    launcher = _find_launcher(words)
    if launcher is not None and not name.endswith((".sh", ".py", ".sbatch")):
        # An unknown wrapper: what it wraps is what counts.
        inner = dissect(words[launcher:])
        if inner is not None:
            return replace(inner, wrappers=(name, *inner.wrappers))
    return Program(name, word, words)


def _find_launcher(words: Sequence[Word]) -> int | None:
    for index, word in enumerate(words):
        launches = PurePath(word.text).name in ("ft_launcher", "torchrun") or word.text == FT_LAUNCHER_MODULE
        if launches or _COMMAND_LINE.search(word.text):
            return index
    return None


def _shell(name: str, word: Word, words: list[Word]) -> Program:
    for index, argument in enumerate(words):
        if re.fullmatch(r"-[a-z]*c", argument.text):
            if index + 1 < len(words):
                return Program(name, word, words[index + 2 :], inline=words[index + 1])
            return Program(name, word, [])
        if argument.text in ("-o", "+o", "-O", "--rcfile", "--init-file") or re.fullmatch(r"-[a-z]*o", argument.text):
            continue
        if argument.text in ("pipefail", "errexit", "nounset", "xtrace", "posix"):
            continue
        if not argument.text.startswith(("-", "+")):
            return Program(name, word, words[index:])
    return Program(name, word, [])


def _python(word: Word, words: list[Word]) -> Program | None:
    position = 0
    while position < len(words) and words[position].text.startswith("-"):
        text = words[position].text
        if text == "-c":
            return None
        if text.startswith("-m"):
            module = words[position + 1] if text == "-m" and position + 1 < len(words) else None
            if text != "-m":
                module = replace(words[position], text=text[2:])
                position -= 1
            if module is None:
                return None
            rest = words[position + 2 :]
            if module.text == FT_LAUNCHER_MODULE:
                return Program("ft_launcher", module, rest)
            if module.text in TORCHRUN_MODULES:
                return Program("torchrun", module, rest)
            if module.text in ("accelerate.commands.launch", "deepspeed.launcher.runner"):
                return Program(module.text.partition(".")[0], module, rest)
            return Program("python", word, [module, *rest], module=True)
        position += 2 if text in ("-W", "-X") else 1
    if position < len(words) and (name := PurePath(words[position].text).name) in ("ft_launcher", "torchrun"):
        return Program(name, words[position], words[position + 1 :])
    return Program("python", word, words[position:])


def _env(words: list[Word], environment: dict[str, str]) -> list[Word]:
    position = 0
    while position < len(words):
        text = words[position].text
        name, equals, value = text.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            environment[name] = value
        elif text in ("-u", "--unset", "-C", "--chdir"):
            position += 1
        elif not text.startswith("-"):
            break
        position += 1
    return words[position:]


def _unwrap(wrapper: Wrapper, words: list[Word], environment: dict[str, str]) -> list[Word] | None:
    """The words of the wrapped command; None if this use wraps nothing."""
    position = 0
    skip = wrapper.words
    verbs = wrapper.verbs
    while position < len(words):
        text = words[position].text
        if text == "--":
            position += 1
            break
        if text.startswith("-") and len(text) > 1:
            if text in ("-e", "--env", "-x") and position + 1 < len(words):
                name, equals, value = words[position + 1].text.partition("=")
                if equals and re.fullmatch(r"\w+", name):
                    environment[name] = value
            elif text.startswith("--env="):
                name, equals, value = text[6:].partition("=")
                environment[name] = value if equals else HOLE
            position += 2 if text in wrapper.valued else 1
        elif verbs:
            if text not in verbs:
                return None
            verbs = frozenset()
            position += 1
        elif skip:
            skip -= 1
            position += 1
        elif words[position].text == HOLE and words[position].splits and position + 1 < len(words):
            position += 1  # more options of the wrapper, from a variable
        else:
            break
    return words[position:] or None


def _srun(srun: Word, words: list[Word]) -> tuple[Step, list[Word], dict[str, str]]:
    options: dict[str, str] = {}
    position = 0
    while position < len(words):
        text = words[position].text
        if text == HOLE and words[position].splits:
            options["..."] = HOLE
            position += 1
            continue
        if not text.startswith("-"):
            break
        position += 1
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            if equals:
                options[name] = value
            elif text in SRUN_FLAGS or position >= len(words) or words[position].text.startswith("-"):
                options[name] = "1" if name == "kill-on-bad-exit" else ""
            else:
                options[name] = words[position].text
                position += 1
        else:
            short, value = text[:2], text[2:]
            name = SRUN_SHORT.get(short, short)
            if short == "-K":
                options[name] = value or "1"
            elif short in SRUN_FLAGS:
                options[name] = ""
            elif value:
                options[name] = value
            elif position < len(words):
                options[name] = words[position].text
                position += 1
    exported = {}
    for pair in options.get("export", "").split(","):
        name, equals, value = pair.partition("=")
        if equals:
            exported[name] = value
    return Step(options, srun.place), words[position:], exported
