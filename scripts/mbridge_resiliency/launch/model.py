# SPDX-License-Identifier: Apache-2.0
"""One training job as its files describe it: launches, settings, plugins, directives. Nothing here judges.

A text that is known only in part holds HOLE for each part that is not: `--nnodes=$N` is "--nnodes=" + HOLE. Whoever
reads a value asks `known()` first; what is not known never makes a finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Iterable, Mapping

from ..cli import InputError
from ..report.finding import Place

HOLE = "\0"
#: Stands for a HOLE in the text of an inner script, and so in the source of its words.
HOLE_VARIABLE = "MBRIDGE_RESILIENCY_HOLE"


class OtherKind(InputError):
    """The file is of a kind that is not read; the rest of a job can still be."""


class Missing:
    """The value of a setting that no file names."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


def known(value: Any) -> bool:
    """True if the value is there and has no unknown part."""
    if isinstance(value, str):
        return HOLE not in value
    if isinstance(value, (list, tuple)):
        return all(known(item) for item in value)
    return value is not MISSING


def shown(text: str) -> str:
    """The text for a reader: unknown parts as `...`."""
    return text.replace(HOLE, "...")


@dataclass(frozen=True)
class Word:
    """One word of a command line.

    Attributes:
        text: the word, unquoted and expanded; HOLE stands for what could not be resolved.
        place: where it stands.
        source: the word as written.
        splits: it may turn into several words, or into none.
        script: the text as an inner shell would get it line by line, where the word is a script (`bash -c "..."`).
    """

    text: str
    place: Place
    source: str = ""
    splits: bool = False
    script: str = ""


@dataclass(frozen=True)
class Option:
    """One option of a launcher, as given.

    Attributes:
        name: the canonical spelling; the spelling given where no version knows it.
        given: the spelling given.
        value: None for a flag.
    """

    name: str
    given: str
    value: str | None
    place: Place
    known: bool = True


@dataclass(frozen=True)
class Step:
    """The srun around a launch: its options by long name, and where it stands."""

    options: Mapping[str, str]
    place: Place


@dataclass(frozen=True)
class Directives:
    """The #SBATCH lines of a file. late: the first one that stands after a command, which sbatch ignores."""

    values: Mapping[str, tuple[str, Place]]
    late: Place | None = None

    def get(self, name: str) -> str | None:
        return self.values[name][0] if name in self.values else None


@dataclass
class Launch:
    """One start of a training program.

    Attributes:
        program: ft_launcher, torchrun, python, or another launcher's name.
        options: the launcher's own options, in order.
        complete: False if a part of the line that could not be resolved may hold more of them.
        script: what the launcher starts; None if that could not be told.
        arguments: the words after the script, which the launcher does not read.
        environment: variables that the files export to it.
        step: the srun around it.
        wrappers: names of the programs around it, outermost first.
        directives: the #SBATCH lines of the file whose execution leads here.
        per_node: it stands inside a step, so what it expands is expanded on every node.
        repeats: a loop or a requeue in the files starts it again after it ends.
        lost_status: how its exit status is lost, and where; None if it is kept or could not be told.
    """

    program: str
    place: Place
    options: list[Option] = field(default_factory=list)
    complete: bool = True
    script: Word | None = None
    module: bool = False
    arguments: list[Word] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    step: Step | None = None
    wrappers: tuple[str, ...] = ()
    directives: Directives | None = None
    per_node: bool = False
    repeats: bool = False
    lost_status: tuple[str, Place] | None = None
    #: option name -> its value as written
    sources: dict[str, str] = field(default_factory=dict)
    #: name -> environment variable that the launcher reads where the option is absent
    option_env: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str) -> Option | None:
        """The last occurrence, which wins; the environment's value where the option is absent."""
        for option in reversed(self.options):
            if option.name == name:
                return option
        variable = self.option_env.get(name)
        if variable and variable in self.environment:
            return Option(name, variable, self.environment[variable], self.place)
        return None

    def value(self, name: str) -> str | Missing:
        """The option's text. HOLE if it is there unresolved or may be there; MISSING if it is not there."""
        option = self.option(name)
        if option is not None:
            return HOLE if option.value is None else option.value
        return MISSING if self.complete else HOLE

    def place_of(self, name: str) -> Place:
        option = self.option(name)
        return option.place if option else self.place

    def nodes(self) -> tuple[int, int] | None:
        """(least, most) nodes, or None if that could not be told."""
        value = self.value("--nnodes")
        if value is MISSING:
            return (1, 1)
        least, _, most = str(value).partition(":")
        if least.strip().isdigit() and (most or least).strip().isdigit():
            return (int(least), int(most or least))
        return None

    @property
    def under_slurm(self) -> bool:
        """True if srun starts it, or the file that leads here has #SBATCH lines."""
        return self.directives is not None or self.step is not None


@dataclass(frozen=True)
class Setting:
    """A Bridge setting by dotted name (`checkpoint.save`), as assigned in Python, YAML or an override.

    Attributes:
        value: a literal; HOLE where it could not be resolved; MISSING where a constructor leaves it at its default.
        certain: False inside a branch that may not run.
        origin: python, override or yaml.
    """

    name: str
    value: Any
    place: Place
    certain: bool = True
    origin: str = "python"


@dataclass(frozen=True)
class Call:
    """A constructor call by class name, with its keyword arguments (HOLE where unresolved).

    open: `**kwargs` or unread positional arguments may set more.
    """

    name: str
    arguments: Mapping[str, Any]
    place: Place
    open: bool = False


@dataclass
class PythonFile:
    """What one Python file says.

    Attributes:
        bridge: it trains with Megatron Bridge.
        nemo_run: it starts jobs with NeMo-Run.
        monitored: it drives NVRx's rank monitor itself.
        settings: Bridge settings it assigns, in order.
        overrides: override strings it passes on (`ft.enable_ft_package=true`).
        calls: the plugins, executors, launchers and scripts it constructs.
        sources: files it names that could set more and were not given.
        lists: for each list literal, the names of the classes constructed in it.
    """

    path: str
    bridge: bool = False
    nemo_run: bool = False
    monitored: bool = False
    settings: list[Setting] = field(default_factory=list)
    overrides: list[Word] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    lists: list[list[Call]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class YamlFile:
    """A YAML file.

    Attributes:
        section: the `fault_tolerance:` mapping, or None if the file has none.
        lines: key of the section -> line.
        settings: Bridge settings (`ft`, `checkpoint`, ...) at its top level.
        shown: the file that findings name: the script, where a heredoc writes the YAML.
    """

    path: str
    section: Mapping[str, Any] | None
    section_line: int
    lines: Mapping[str, int]
    settings: tuple[Setting, ...] = ()
    shown: str = ""

    def place(self, key: str = "") -> Place:
        return Place(self.shown or self.path, self.lines.get(key, self.section_line))


@dataclass
class Job:
    """All files given, as one job.

    Attributes:
        unread: scripts that a given file runs and that were not given, and where.
        unclear: words that start something the files do not tell, and where.
        ignored: given files of a kind that is not read: one line each, with the reason.
    """

    files: list[str] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    python: list[PythonFile] = field(default_factory=list)
    yaml: list[YamlFile] = field(default_factory=list)
    unread: list[tuple[str, Place]] = field(default_factory=list)
    unclear: list[tuple[str, Place]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def ft_launches(self) -> list[Launch]:
        return [launch for launch in self.launches if launch.program == "ft_launcher"]

    def python_of(self, launch: Launch) -> PythonFile | None:
        """The given Python file that the launch starts, or None."""
        if launch.script is None or not launch.script.text.replace(HOLE, ""):
            return None
        wanted = launch.script.text.replace(".", "/") + ".py" if launch.module else launch.script.text
        return matching(wanted, self.python)

    def yaml_of(self, path: str) -> YamlFile | None:
        return matching(path, self.yaml)

    def settings(self) -> Iterable[Setting]:
        """Every Bridge setting of every file, constructors and assignments first, then YAML, then overrides."""
        for python in self.python:
            yield from python.settings
        for document in self.yaml:
            yield from document.settings

    def setting(self, name: str) -> Setting | None:
        """The last assignment that certainly happens; else the last that may."""
        found = [setting for setting in self.settings() if setting.name == name]
        certain = [setting for setting in found if setting.certain]
        if certain and found[-1] is certain[-1]:
            return certain[-1]
        return found[-1] if found else None


def matching(path: str, files: Iterable[Any]) -> Any | None:
    """The given file (an object with `path`) that a script means by this path: same name, deepest common folders."""
    wanted = PurePath(path.replace(HOLE, "")).parts
    best, best_depth = None, 0
    for file in files:
        parts = PurePath(file.path).parts
        depth = 0
        for a, b in zip(reversed(wanted), reversed(parts)):
            if a != b:
                break
            depth += 1
        if depth > best_depth:
            best, best_depth = file, depth
    return best
