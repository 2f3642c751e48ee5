# SPDX-License-Identifier: Apache-2.0
"""Shell and sbatch scripts: which programs they start, with which words and which environment.

The syntax tree is walked in order with what is known of each variable. Nothing is executed: a command substitution,
a variable of the caller and whatever differs between two branches is unknown (HOLE). A default that the file itself
gives, as in `${RESTARTS:-3}`, counts as the value unless a scheduler or launcher always sets the variable.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Callable, Iterator, Sequence

from ...report.finding import Place
from ..model import HOLE, HOLE_VARIABLE, Directives, Job, Launch, Step, Word, matching
from . import command as commands
from .options import read_options

#: More commands than this are not walked: a file that reaches it is no launch script.
MOST_COMMANDS = 20_000
MOST_NESTED = 24
#: Longer than this, in characters or words, a variable counts as unknown.
MOST_IN_VARIABLE = 20_000
_BRANCHES = ("if_statement", "case_statement")
#: Statements whose exit status is that of the launch in them.
_STATUS_OF = ("command", "pipeline", "redirected_statement", "list", "compound_statement", *_BRANCHES)
#: What a script does with a failure that it noticed.
_PASSES_ON = re.compile(r"\$\{?\?|PIPESTATUS|\b(?:exit|return|false|kill|exec|requeue|sbatch|break|continue)\b")
_REPLACED = "a later command's status replaces it"
#: Right of `||`, these turn a failure into success.
_SWALLOWS = re.compile(r"(?:true|:|echo|printf|logger|date)\b|:$")
#: Set by the scheduler or the launcher wherever they are used, so that their `:-default` says nothing.
_GIVEN_BY_OTHERS = re.compile(
    r"SLURM_|PBS_|LSB_|OMPI_|PMI|MASTER_|NODE_RANK|NNODES|WORLD_SIZE|RANK|LOCAL_RANK|GROUP_RANK|HOSTNAME|HOME|USER|PATH|TMPDIR"
)
_BACKGROUND = re.compile(r"(?<![&>|])&[\"']?\s*(?:$|[;)]|\bdone\b)", re.M)
#: Programs that print another one's path.
_FINDS_PROGRAM = re.compile(r"[$`(]+\s*(?:which|command -v|type -[pP])\s+([\w.-]+)\s*[)`]")
#: Stands for a continued line inside quotes, so that an inner script keeps its line numbers.
_CONTINUED = "\1"
SBATCH_SHORT = {
    "-N": "nodes",
    "-n": "ntasks",
    "-t": "time",
    "-J": "job-name",
    "-a": "array",
    "-d": "dependency",
    "-k": "no-kill",
}


@dataclass
class ShellFile:
    """A shell file, given or written by a heredoc of a given one."""

    path: str
    text: str
    first_line: int = 1
    shown: str = ""
    one_line: bool = False  # its text comes from a variable: every line counts as the first


@dataclass
class Scope:
    """What is known at one point of a script."""

    file: ShellFile
    variables: dict[str, str | list[Word]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    errexit: bool = False
    pipefail: bool = False
    all_exported: bool = False
    directives: Directives | None = None
    step: Step | None = None
    wrappers: tuple[str, ...] = ()
    repeats: bool = False
    depth: int = 0

    def fork(self, **changes: Any) -> Scope:
        return replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            functions=dict(self.functions),
            **changes,
        )

    def environment(self) -> dict[str, str]:
        """The exported variables that are scalars."""
        pairs = ((name, self.variables.get(name)) for name in self.exported)
        return {name: value for name, value in pairs if isinstance(value, str)}


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class ShellReader:
    """Reads shell files into a job. documents receives YAML files that a heredoc writes: (name, text, place)."""

    def __init__(
        self, job: Job, files: Sequence[ShellFile], on_document: Callable[[str, str, Place], None] | None = None
    ) -> None:
        self.job = job
        self.files = list(files)
        self.on_document = on_document
        self.visited: set[str] = set()
        self.commands = 0
        self.called: set[str] = set()

    def read_all(self) -> None:
        """Walk every file that no other given file starts, then those that nothing reached."""
        roots = [file for file in self.files if not self._named_elsewhere(file)]
        for file in roots:
            self.read_root(file)
        for file in list(self.files):
            if file.path not in self.visited:
                self.read_root(file)

    def read_root(self, file: ShellFile) -> None:
        directives = read_directives(file)
        scope = Scope(file, directives=directives, repeats=_comes_back(file.text, directives))
        nodes = directives.get("nodes") if directives else None
        if nodes and nodes.isdigit():
            for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"):
                scope.variables[name] = nodes
        before = len(self.job.launches)
        self.run_text(file, scope)
        if len(self.job.launches) == before and not self.called:
            for body in list(scope.functions.values()):
                self.walk(body, scope.fork())

    def _named_elsewhere(self, file: ShellFile) -> bool:
        name = re.compile(r"(?<![\w.-])" + re.escape(PurePath(file.path).name) + r"(?![\w.-])")
        return any(other is not file and name.search(other.text) for other in self.files)

    # ---- statements ----

    def run_text(self, file: ShellFile, scope: Scope) -> None:
        """Walk one text in the given scope, which keeps what the text assigns."""
        if scope.depth > MOST_NESTED:
            return
        self.visited.add(file.path)
        before, scope.file = scope.file, file
        root = _parser().parse(_ascii(file.text)).root_node
        self.statements(root, scope)
        scope.file = before

    def statements(self, parent: Any, scope: Scope) -> None:
        """Walk the statements of a program or block and note how the exit status of a launch gets lost."""
        children = parent.children
        for index, node in enumerate(children):
            if not node.is_named or node.type == "comment":
                continue
            before = len(self.job.launches)
            errexit, pipefail = scope.errexit, scope.pipefail
            self.walk(node, scope)
            fresh = [launch for launch in self.job.launches[before:] if launch.lost_status is None]
            if fresh and parent.type in ("program", "compound_statement", "subshell") and node.type in _STATUS_OF:
                background = index + 1 < len(children) and children[index + 1].type == "&"
                rest = [child for child in children[index + 1 :] if child.is_named and child.type != "comment"]
                lost = self._lost_status(node, rest, background, errexit, pipefail, scope)
                if node.type == "if_statement" and any(self._in_condition(launch, node, scope) for launch in fresh):
                    lost = self._lost_in_condition(node, rest, scope)
                for launch in fresh:
                    launch.lost_status = lost

    def _in_condition(self, launch: Launch, node: Any, scope: Scope) -> bool:
        conditions = node.children_by_field_name("condition")
        first, last = self.place(conditions[0], scope), conditions[-1].end_point[0] + scope.file.first_line
        return launch.place.file == first.file and first.line <= launch.place.line <= last

    def _lost_in_condition(self, node: Any, rest: list[Any], scope: Scope) -> tuple[str, Place] | None:
        if any(_PASSES_ON.search(_source(later)) for later in (node, *rest)):
            return None
        return ("`if` takes it, and nothing after it ends with an error", self.place(node, scope))

    def _lost_status(
        self, node: Any, rest: list[Any], background: bool, errexit: bool, pipefail: bool, scope: Scope
    ) -> tuple[str, Place] | None:
        text = scope.file.text
        if re.search(r"\btrap\b.*\b(ERR|EXIT)\b", text):
            return None
        if background:
            for later in rest:
                if later.type == "command" and _source(later) == "wait":
                    return ("`wait` without a process id returns 0", self.place(later, scope))
            return None
        pipe = node
        while pipe.type == "redirected_statement" and pipe.child_by_field_name("body"):
            pipe = pipe.child_by_field_name("body")
        if pipe.type == "pipeline" and not pipefail and "PIPESTATUS" not in text:
            last = _source(pipe.named_children[-1]).split()[:1]
            if not any(name in _source(pipe.named_children[-1]) for name in ("ft_launcher", "torchrun")):
                again = "" if errexit or self._replaced(node, rest, scope) is None else f", and {_REPLACED}"
                return (f"the pipe returns the status of `{' '.join(last)}`{again}", self.place(node, scope))
        if node.type == "list" and any(child.type == "||" for child in node.children):
            last = node.named_children[-1]
            if "$?" not in _source(last) and _SWALLOWS.match(_source(last)):
                return (f"`|| {_source(last).split()[0]}` turns a failure into success", self.place(last, scope))
            return None
        return None if errexit else self._replaced(node, rest, scope)

    def _replaced(self, node: Any, rest: list[Any], scope: Scope) -> tuple[str, Place] | None:
        """How what follows replaces the status, where the shell goes on after a failure."""
        if node.type in _BRANCHES and _PASSES_ON.search(_source(node)):
            return None
        rest = [later for later in rest if later.type != "function_definition"]
        if rest and "$?" not in _source(rest[0]) and not re.match(r"(exit|return)\b(?!\s+0\b)", _source(rest[0])):
            if re.search(r"PIPESTATUS|\$\{?\?", _source(rest[0])):
                return None
            return (_REPLACED, self.place(rest[-1], scope))
        return None

    def walk(self, node: Any, scope: Scope) -> None:
        """Walk one statement."""
        if self.commands > MOST_COMMANDS:
            return
        kind = node.type
        handler = getattr(self, f"_walk_{kind}", None)
        if handler is not None:
            handler(node, scope)
        else:
            for child in node.named_children:
                self.walk(child, scope)

    def _walk_comment(self, node: Any, scope: Scope) -> None:
        pass

    _walk_command_substitution = _walk_test_command = _walk_comment

    def _walk_program(self, node: Any, scope: Scope) -> None:
        self.statements(node, scope)

    def _walk_compound_statement(self, node: Any, scope: Scope) -> None:
        self.statements(node, scope)

    def _walk_subshell(self, node: Any, scope: Scope) -> None:
        self.statements(node, scope.fork())

    def _walk_pipeline(self, node: Any, scope: Scope) -> None:
        for child in node.named_children:
            self.walk(child, scope.fork())

    def _walk_function_definition(self, node: Any, scope: Scope) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            scope.functions[_source(name)] = body

    def _walk_if_statement(self, node: Any, scope: Scope) -> None:
        branches: list[list[Any]] = [[]]
        has_else = False
        for child in node.named_children:
            if child.type in ("elif_clause", "else_clause"):
                has_else |= child.type == "else_clause"
                branches.append(list(child.named_children))
            else:
                branches[-1].append(child)
        self._branches(branches, has_else, scope)

    def _walk_case_statement(self, node: Any, scope: Scope) -> None:
        items = [child for child in node.named_children if child.type == "case_item"]
        branches = [[c for c in item.named_children if c not in item.children_by_field_name("value")] for item in items]
        has_default = any(_source(item).lstrip("(").startswith("*)") for item in items)
        self._branches(branches, has_default, scope)

    def _branches(self, branches: list[list[Any]], exhaustive: bool, scope: Scope) -> None:
        ends = []
        for branch in branches:
            inner = scope.fork()
            for child in branch:
                self.walk(child, inner)
            ends.append(inner)
        if not exhaustive or not ends:
            ends.append(scope.fork())
        self._merge(ends, scope)

    def _walk_loop(self, node: Any, scope: Scope) -> None:
        # What a loop puts into the background it starts side by side, on one node after the other.
        inner = scope.fork(repeats=scope.repeats or not _BACKGROUND.search(_source(node)))
        variable = node.child_by_field_name("variable")
        if variable is not None:
            inner.variables[_source(variable)] = HOLE
        for child in node.named_children:
            self.walk(child, inner)
        self._merge([inner, scope.fork()], scope)

    _walk_for_statement = _walk_while_statement = _walk_c_style_for_statement = _walk_loop

    def _walk_list(self, node: Any, scope: Scope) -> None:
        left, *right = node.named_children
        self.walk(left, scope)
        for child in right:
            inner = scope.fork()
            self.walk(child, inner)
            self._merge([inner, scope.fork()], scope)

    def _merge(self, ends: list[Scope], scope: Scope) -> None:
        names = {name for end in ends for name in end.variables}
        for name in names:
            scope.variables[name] = _joined([end.variables.get(name, HOLE) for end in ends])
        scope.exported = set.union(*(end.exported for end in ends))
        for end in ends:
            scope.functions.update(end.functions)
        scope.errexit = all(end.errexit for end in ends)
        scope.pipefail = all(end.pipefail for end in ends)

    def _walk_variable_assignment(self, node: Any, scope: Scope) -> None:
        self._assign(node, scope)

    def _walk_declaration_command(self, node: Any, scope: Scope) -> None:
        exports = _source(node.children[0]) == "export" or any(
            re.fullmatch(r"-\w*x\w*", _source(child)) for child in node.named_children
        )
        for child in node.named_children:
            if child.type == "variable_assignment":
                name = self._assign(child, scope)
                if exports and name:
                    scope.exported.add(name)
            elif child.type == "variable_name" and exports:
                scope.exported.add(_source(child))

    def _walk_unset_command(self, node: Any, scope: Scope) -> None:
        for child in node.named_children:
            if child.type in ("variable_name", "word"):
                scope.variables.pop(_source(child), None)
                scope.exported.discard(_source(child))

    def _assign(self, node: Any, scope: Scope) -> str | None:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return None
        name = _source(name_node)
        if name_node.type == "subscript":
            name = name.partition("[")[0]
            scope.variables[name] = [Word(HOLE, self.place(node, scope), _source(node), splits=True)]
            return name
        appends = any(child.type == "+=" for child in node.children)
        value: str | list[Word]
        if value_node is None:
            value = ""
        elif value_node.type == "array":
            value = [
                w for child in value_node.named_children if child.type != "comment" for w in self.words(child, scope)
            ]
        else:
            value = self.text(value_node, scope)
        if appends:
            value = _appended(scope.variables.get(name, HOLE), value, self.place(node, scope))
        if len(value) > MOST_IN_VARIABLE:
            value = HOLE
        scope.variables[name] = value
        if scope.all_exported:
            scope.exported.add(name)
        return name

    def _walk_redirected_statement(self, node: Any, scope: Scope) -> None:
        body = node.child_by_field_name("body")
        heredoc = _heredoc_of(node)
        if heredoc is None:
            if body is not None:
                self.walk(body, scope)
            return
        text, line = self._heredoc(heredoc, scope)
        target = next((child for child in _descend(node) if child.type == "file_redirect"), None)
        destination = target.child_by_field_name("destination") if target is not None else None
        program = None
        if body is not None and body.type == "command":
            words = self._command_words(body, scope)[1]
            program = words[0].text if words else ""
            started = commands.dissect(words)
        if text is None:
            return
        shown = scope.file.shown or scope.file.path
        if program in ("cat", "tee", "") and (destination is not None or program == "tee"):
            where = self.text(destination, scope) if destination is not None else _last_text(words)
            self._write(where, ShellFile(where, text, line, shown), Place(shown, line))
        elif program == "read":
            scope.variables[_last_text(words)] = self._heredoc_value(heredoc, scope)
        elif program == "sbatch" or (program and started and started.name in commands.SHELLS and not started.words):
            inner = scope.fork(depth=scope.depth + 1)
            inner.step = (started.step if started else None) or scope.step
            if program == "sbatch":
                inner.directives = read_directives(ShellFile(shown, text, line, shown)) or scope.directives
            self.run_text(ShellFile(f"{shown}#{line}", text, line, shown), inner)
        elif body is not None:
            self.walk(body, scope)

    def _heredoc(self, node: Any, scope: Scope) -> tuple[str | None, int]:
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if body is None or start is None:
            return None, 0
        line = body.start_point[0] + scope.file.first_line
        if _source(start)[:1] in "'\"\\":
            return _source(body), line
        text = "".join(text for text, _ in self._pieces(body, scope)).replace(_CONTINUED, "\\\n")
        text = re.sub(r"\\([$`\\])", r"\1", text)
        return text.replace(HOLE, f"${HOLE_VARIABLE}"), line

    def _write(self, where: str, file: ShellFile, place: Place) -> None:
        name = PurePath(where.replace(HOLE, "")).name
        if name.endswith((".yaml", ".yml")) and self.on_document is not None:
            self.on_document(where.replace(HOLE, ""), file.text.replace(f"${HOLE_VARIABLE}", "${}"), place)
        elif name:
            self.files.append(replace(file, path=where.replace(HOLE, "")))
            self.visited.add(where.replace(HOLE, ""))

    # ---- commands ----

    def _command_words(self, node: Any, scope: Scope) -> tuple[dict[str, str], list[Word]]:
        """A command's own assignments and its words."""
        assigned: dict[str, str] = {}
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment" and not words:
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None:
                    assigned[_source(name)] = self.text(value, scope) if value is not None else ""
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                continue
            else:
                words.extend(self.words(child.named_children[0] if _is_name(child) else child, scope))
        return assigned, words

    def _walk_command(self, node: Any, scope: Scope) -> None:
        self.commands += 1
        assigned, words = self._command_words(node, scope)
        if not words:
            return
        name = words[0].text
        if name == "set":
            _set_options([word.text for word in words[1:]], scope)
            return
        if name == "shift":
            _shift(words[1].text if len(words) > 1 else "1", scope)
            return
        if name in (":", "true", "false", "cd", "module", "ulimit", "shopt", "trap", "return", "read"):
            return
        if name in ("source", "."):
            if len(words) > 1:
                self._source(words[1], scope)
            return
        if name in scope.functions and scope.depth < MOST_NESTED:
            inner = scope.fork(depth=scope.depth + 1)
            _bind(inner, words[1:])
            self.called.add(name)
            body = scope.functions[name]
            self.walk(body, inner)
            # A function assigns in its caller's scope, its positional parameters apart.
            for key, value in inner.variables.items():
                if not key.isdigit() and key not in ("@", "*", "#"):
                    scope.variables[key] = value
            scope.exported |= inner.exported
            return
        program = commands.dissect(words)
        if program is not None:
            self._started(program, assigned, scope, node)
        if HOLE in name and (program is None or re.search(r"^-|\.py$", program.name)):
            if any(word.text.endswith(".py") for word in words):
                self.job.unclear.append((words[0].source, words[0].place))

    def _started(self, program: commands.Program, assigned: dict[str, str], scope: Scope, node: Any) -> None:
        step = program.step or scope.step
        wrappers = scope.wrappers + program.wrappers
        environment = {**scope.environment(), **assigned, **program.environment}
        if program.step is not None and program.step.options.get("export", "").upper() == "NONE":
            environment = dict(program.environment)
        inside = scope.fork(step=step, wrappers=wrappers, depth=scope.depth + 1)
        inside.variables.update(environment)
        inside.exported.update(environment)
        if program.inline is not None and not program.inline.text.replace(HOLE, "").strip():
            self.job.unclear.append((program.inline.source, program.inline.place))
            return
        if program.inline is not None:
            _bind(inside, program.words[1:])
            text = program.inline.script.replace(HOLE, f"${{{HOLE_VARIABLE}}}")
            shown = scope.file.shown or scope.file.path
            line = program.inline.place.line
            flat = scope.file.one_line or "\n" not in program.inline.source
            self.run_text(ShellFile(f"{shown}#{line}:{scope.depth}", text, line, shown, flat), inside)
            return
        if program.name == "sbatch":
            self._submitted(program.words, inside)
            return
        if program.name in commands.LAUNCHERS:
            launch = Launch(
                program.name,
                program.word.place,
                environment=environment,
                step=step,
                wrappers=wrappers,
                directives=scope.directives,
                per_node=scope.step is not None,
                repeats=scope.repeats,
            )
            if program.name in ("ft_launcher", "torchrun"):
                read_options(launch, program.words)
            elif program.words:
                launch.module = program.module
                position = 0
                if program.name in commands.OTHER_LAUNCHERS:
                    position = next((i for i, w in enumerate(program.words) if w.text.endswith(".py")), 0)
                launch.script, launch.arguments = program.words[position], program.words[position + 1 :]
            asks = any(option.given in ("-h", "--help", "--version") for option in launch.options)
            if not asks and (program.name != "python" or launch.script is not None):
                self.job.launches.append(launch)
            return
        script = program.words[0] if program.name in commands.SHELLS and program.words else None
        arguments = program.words[1:]
        if program.name not in commands.SHELLS and (
            "/" in program.word.text or program.name.endswith((".sh", ".sbatch"))
        ):
            script, arguments = program.word, program.words
        if script is not None:
            self._called(script, arguments, inside)

    def _called(self, script: Word, arguments: Sequence[Word], scope: Scope) -> None:
        if not script.text.replace(HOLE, "") or scope.depth > MOST_NESTED:
            self._not_given(script, scope)
            return
        file = matching(script.text, self.files)
        if file is None:
            if not script.text.endswith(".py"):
                self._not_given(script, scope)
            return
        inner = scope.fork()
        inner.variables = dict(scope.environment())
        _bind(inner, arguments)
        inner.errexit = inner.pipefail = False
        self.run_text(file, inner)

    def _not_given(self, script: Word, scope: Scope) -> None:
        if (scope.step is not None or script.text.endswith((".sh", ".sbatch"))) and script.text != HOLE:
            self.job.unread.append((script.text.replace(HOLE, "..."), script.place))

    def _submitted(self, words: list[Word], scope: Scope) -> None:
        for index, word in enumerate(words):
            if word.text.startswith("--wrap"):
                value = word.text[7:] if "=" in word.text else words[index + 1].text if index + 1 < len(words) else ""
                text = value.replace(HOLE, f"${{{HOLE_VARIABLE}}}")
                shown = scope.file.shown or scope.file.path
                self.run_text(ShellFile(f"{shown}#{word.place.line}", text, word.place.line, shown), scope)
                return
            file = matching(word.text, self.files) if word.text.endswith((".sh", ".sbatch", ".slurm", ".sub")) else None
            if file is not None and file.path != scope.file.path:
                scope.directives = read_directives(file)
                _bind(scope, words[index + 1 :])
                self.run_text(file, scope)
                return

    def _source(self, word: Word, scope: Scope) -> None:
        file = matching(word.text, self.files) if word.text.replace(HOLE, "") else None
        if file is not None and file.path != scope.file.path and scope.depth < MOST_NESTED:
            scope.depth += 1
            self.run_text(file, scope)
            scope.depth -= 1

    # ---- words ----

    def place(self, node: Any, scope: Scope) -> Place:
        line = 0 if scope.file.one_line else node.start_point[0]
        return Place(scope.file.shown or scope.file.path, line + scope.file.first_line)

    def text(self, node: Any, scope: Scope) -> str:
        """The node as one text, without word splitting."""
        return "".join(text for text, _ in self._pieces(node, scope)).replace(_CONTINUED, "")

    def words(self, node: Any, scope: Scope) -> list[Word]:
        """The words that the node turns into, after expansion and splitting."""
        place, source = self.place(node, scope), _source(node)
        fields: list[tuple[str, bool, bool]] = []  # text, kept though empty, splits
        current, kept, splits, started = "", False, False, False

        def end() -> None:
            nonlocal current, kept, splits, started
            if started and (current or kept):
                fields.append((current, kept, splits))
            current, kept, splits, started = "", False, False, False

        for text, mode in self._pieces(node, scope):
            if mode == "quoted":
                current, kept, started = current + text, True, True
            elif mode == "next":
                end()
                current, kept, started = text, True, True
            elif mode == "many":
                end()
                current, started, splits = HOLE, True, True
                end()
            else:
                for index, part in enumerate(re.split(r"[ \t\n]+", text)):
                    if index:
                        end()
                    if part:
                        current, started = current + part, True
                        splits = splits or HOLE in part
        end()
        return [
            Word(
                text.replace(_CONTINUED, ""),
                place,
                source,
                splits and text == HOLE,
                text.replace(_CONTINUED, "\\\n"),
            )
            for text, _, splits in fields
        ]

    def _pieces(self, node: Any, scope: Scope) -> Iterator[tuple[str, str]]:
        """(text, mode): quoted; split (unquoted expansion); next (a further word); many (any number of words)."""
        kind = node.type
        if kind in ("word", "number", "extglob_pattern", "regex", "variable_name", "test_operator"):
            yield _unescaped(r"\\(\n|.)", _source(node)), "quoted"
        elif kind == "raw_string":
            yield _source(node)[1:-1], "quoted"
        elif kind == "ansi_c_string":
            yield _source(node)[2:-1], "quoted"
        elif kind in ("string", "translated_string"):
            if not re.search(r"\$(@|\{\w+\[@\]\}|\{@\})", _source(node)):
                yield "", "quoted"  # an empty string is a word; an empty array in quotes is none
            for text, mode in self._gaps(node, scope, skip=('"', '$"')):
                if mode == "split":
                    mode = "quoted"
                yield text, mode
        elif kind == "heredoc_body":
            yield from self._gaps(node, scope)
        elif kind in ("string_content", "heredoc_content"):
            yield _unescaped(r"\\(\n|[$`\"\\])", _source(node)), "quoted"
        elif kind == "concatenation":
            for child in node.children:
                yield from self._pieces(child, scope)
        elif kind == "simple_expansion":
            yield from self._variable(_source(node)[1:], scope)
        elif kind == "expansion":
            yield from self._expansion(node, scope)
        elif kind == "arithmetic_expansion":
            yield self._arithmetic(_source(node)[3:-2], scope), "split"
        elif kind == "command_substitution":
            yield self._substituted(node, scope), "split"
        elif kind == "process_substitution":
            yield HOLE, "split"
        elif kind == "brace_expression":
            yield HOLE, "many"
        elif not node.is_named:
            yield _source(node), "quoted"
        else:
            yield HOLE, "split"

    def _gaps(self, node: Any, scope: Scope, skip: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
        """The node's children and the bytes between them, which the grammar leaves out."""
        source, start = node.text, node.start_byte
        position = start
        for child in node.children:
            if child.start_byte > position:
                yield _text(source[position - start : child.start_byte - start]), "quoted"
            if child.is_named or _source(child).strip() not in skip:
                yield from self._pieces(child, scope)
            elif blanks := re.sub(r"\$?\"", "", _source(child)):
                yield blanks, "quoted"  # the grammar lets a closing quote take the blanks before it
            position = child.end_byte
        if position < node.end_byte:
            yield _text(source[position - start :]), "quoted"

    def _variable(self, name: str, scope: Scope) -> Iterator[tuple[str, str]]:
        if name in ("@", "*"):
            value = scope.variables.get("@")
            if isinstance(value, list):
                yield from _each(value)
            else:
                yield HOLE, "many"
        else:
            value = scope.variables.get(name, HOLE)
            yield (value if isinstance(value, str) else value[0].text if value else ""), "split"

    def _expansion(self, node: Any, scope: Scope) -> Iterator[tuple[str, str]]:
        source = _source(node)[2:-1]
        match = re.match(r"(\w+|[@*#?!$-])(\[[@*]\])?(.*)$", source, re.S)
        if match is None:
            yield HOLE, "split"
            return
        name, every, rest = match.groups()
        value = scope.variables.get("@" if name in "@*" else name)
        if (every or name in ("@", "*")) and not rest:
            if isinstance(value, list):
                yield from _each(value)
            elif isinstance(value, str) and every:
                yield value, "quoted"
            else:
                yield HOLE, "many"
            return
        if not rest:
            yield from self._variable(name, scope)
            return
        operator = re.match(r":?[-=?+]", rest)
        if operator is None or every:
            yield HOLE, "many" if every else "split"
            return
        default = self._after_operator(node, scope)
        if "+" in operator.group():
            yield (HOLE if value is None or default == HOLE else default if value else ""), "split"
        elif value is None:
            yield (HOLE if "?" in operator.group() or _GIVEN_BY_OTHERS.match(name) else default), "split"
        elif value == "" and operator.group().startswith(":"):
            yield default, "split"
        else:
            yield from self._variable(name, scope)

    def _substituted(self, node: Any, scope: Scope) -> str:
        """What a command substitution yields where the file tells it: a program's name, a heredoc's text."""
        if program := _FINDS_PROGRAM.fullmatch(_source(node)):
            return program.group(1)
        inner = node.named_children[0] if len(node.named_children) == 1 else None
        if inner is not None and inner.type == "redirected_statement":
            body, heredoc = inner.child_by_field_name("body"), _heredoc_of(inner)
            if heredoc is not None and body is not None and _source(body) == "cat":
                return self._heredoc_value(heredoc, scope)
        return HOLE

    def _heredoc_value(self, heredoc: Any, scope: Scope) -> str:
        text, _ = self._heredoc(heredoc, scope)
        return HOLE if text is None else text.replace(f"${HOLE_VARIABLE}", HOLE)

    def _after_operator(self, node: Any, scope: Scope) -> str:
        children = node.children
        for index, child in enumerate(children):
            if node.field_name_for_child(index) == "operator":
                return "".join(self.text(later, scope) for later in children[index + 1 : -1])
        return HOLE

    def _arithmetic(self, source: str, scope: Scope) -> str:
        def value(match: re.Match[str]) -> str:
            found = scope.variables.get(match.group(1), HOLE)
            return found if isinstance(found, str) else HOLE

        text = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", value, source)
        if not re.fullmatch(r"[\d\s+*/()-]{1,60}", text):
            return HOLE
        try:
            return str(_integer(ast.parse(text.replace("/", "//").strip(), mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError, OverflowError):
            return HOLE


def read_directives(file: ShellFile) -> Directives | None:
    """The #SBATCH lines that sbatch reads: those before the first command. None if the file has none at all."""
    values: dict[str, tuple[str, Place]] = {}
    late: Place | None = None
    command_seen = False
    for number, line in enumerate(file.text.split("\n"), file.first_line):
        stripped = line.strip()
        if stripped.startswith("#SBATCH"):
            place = Place(file.shown or file.path, number)
            if command_seen:
                late = late or place
            else:
                values.update(_directive(stripped[7:], place))
        elif stripped and not stripped.startswith("#"):
            command_seen = True
    return Directives(values, late) if values or late else None


def _directive(text: str, place: Place) -> dict[str, tuple[str, Place]]:
    found: dict[str, tuple[str, Place]] = {}
    words = re.sub(r"(^|\s)#.*$", "", text).split()
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SBATCH_SHORT.get(word[:2], word[:2]), word[2:].lstrip("=")
            equals = "=" if value else ""
        else:
            continue
        if not equals and position < len(words) and not words[position].startswith("-"):
            value = words[position]
            position += 1
        found[name] = (value.strip("\"'"), place)
    return found


def _comes_back(text: str, directives: Directives | None) -> bool:
    """True if the script starts itself again after a failure: a requeue, a resubmission, a chain of array tasks."""
    if re.search(r"^[^#\n]*\b(scontrol\s+requeue|sbatch\s[^\n]*(\$0|\$\{?BASH_SOURCE|dependency))", text, re.M):
        return True
    array = directives.get("array") if directives else None
    dependency = directives.get("dependency") if directives else None
    return bool(array and array.endswith("%1")) or dependency == "singleton"


def _integer(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_integer(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _integer(node.left), _integer(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv):
            return left // right
    raise ValueError("not plain arithmetic")


def _set_options(words: list[str], scope: Scope) -> None:
    for index, word in enumerate(words):
        on = word.startswith("-")
        if not word.startswith(("-", "+")):
            continue
        if "e" in word[1:] and not word.startswith("--"):
            scope.errexit = on
        if "a" in word[1:] and not word.startswith("--"):
            scope.all_exported = on
        if word.endswith("o") and index + 1 < len(words):
            if words[index + 1] == "pipefail":
                scope.pipefail = on
            elif words[index + 1] == "errexit":
                scope.errexit = on


def _bind(scope: Scope, words: Sequence[Word]) -> None:
    """Positional parameters."""
    for key in [key for key in scope.variables if key.isdigit()]:
        del scope.variables[key]
    scope.variables["@"] = list(words)
    for number, word in enumerate(words, 1):
        if word.splits:
            break
        scope.variables[str(number)] = word.text


def _shift(count: str, scope: Scope) -> None:
    """Drop positional parameters; all of them are unknown if the number is."""
    words = scope.variables.get("@")
    if isinstance(words, list) and count.isdigit() and not any(word.splits for word in words[: int(count)]):
        _bind(scope, words[int(count) :])
        return
    _bind(scope, [])
    del scope.variables["@"]


def _each(words: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """The words of an array as pieces: the first joins what stands before it, the others are words of their own."""
    for index, word in enumerate(words):
        if word.splits:
            yield HOLE, "many"
        else:
            yield word.text, "next" if index else "quoted"


def _joined(values: Sequence[str | list[Word]]) -> str | list[Word]:
    """What is known of a variable after branches that left it with these values."""
    first = values[0]
    if all(value == first for value in values[1:]):
        return first
    if all(isinstance(value, list) for value in values):
        common: list[Word] = []
        for words in zip(*values):
            if any(word != words[0] for word in words):
                break
            common.append(words[0])  # type: ignore[arg-type]
        place = next((w.place for v in values for w in v), Place(""))  # type: ignore[union-attr]
        return [*common, Word(HOLE, place, "${...[@]}", splits=True)]
    if all(isinstance(value, str) for value in values):
        texts = [str(value) for value in values]
        length = next(
            (i for i, letters in enumerate(zip(*texts)) if len(set(letters)) > 1), min(len(text) for text in texts)
        )
        prefix = texts[0][:length]
        # Keep whole words only.
        cut = prefix.rfind(" ") + 1 if not all(len(t) == length or t[length] == " " for t in texts) else length
        return f"{prefix[:cut].rstrip()} {HOLE}".lstrip() if prefix[:cut].strip() else HOLE
    return HOLE


def _appended(old: str | list[Word], new: str | list[Word], place: Place) -> str | list[Word]:
    if isinstance(new, list):
        base = old if isinstance(old, list) else [Word(old, place, splits=old == HOLE)] if old else []
        return [*base, *new]
    return (old if isinstance(old, str) else HOLE) + new


def _ascii(text: str) -> bytes:
    """The text with every other character spelt out: the grammar's scanner crashes on characters beyond ASCII."""
    return re.sub(r"[^\0-\x7f]", lambda match: f"xU{ord(match.group()):x}Ux", text).encode("ascii")


def _text(spelt: bytes) -> str:
    """The reverse of _ascii."""
    text = spelt.decode("ascii")
    if "xU" not in text:
        return text
    return re.sub(r"xU([0-9a-f]{2,6})Ux", lambda match: chr(int(match.group(1), 16) % 0x110000), text)


def _source(node: Any) -> str:
    return _text(node.text)


def _unescaped(escape: str, text: str) -> str:
    """The text without its backslashes; a continued line leaves its mark."""
    return re.sub(escape, lambda match: _CONTINUED if match.group(1) == "\n" else match.group(1), text, flags=re.S)


def _is_name(node: Any) -> bool:
    return node.type == "command_name" and bool(node.named_children)


def _heredoc_of(node: Any) -> Any:
    return next((child for child in node.children if child.type == "heredoc_redirect"), None)


def _last_text(words: list[Word]) -> str:
    return words[-1].text if len(words) > 1 else ""


def _descend(node: Any) -> Iterator[Any]:
    for child in node.children:
        yield child
        if child.type == "heredoc_redirect":
            yield from child.children
