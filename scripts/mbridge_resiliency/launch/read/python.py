# SPDX-License-Identifier: Apache-2.0
"""Python files by their syntax tree: Bridge settings, override strings, NeMo-Run plugins and executors."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from typing import Any, Iterator

from ...report.finding import Place
from ..model import HOLE, MISSING, Call, PythonFile, Setting, Word

#: Slots of Bridge's ConfigContainer that rules read.
SLOTS = ("ft", "checkpoint", "dist", "train", "logger", "profiling", "straggler", "nvrx_straggler", "inprocess_restart")
#: Class -> its slot, and the fields whose absence counts.
SLOT_CLASSES = {
    "FaultToleranceConfig": ("ft", ("enable_ft_package", "calc_ft_timeouts", "simulated_fault_base_delay")),
    "CheckpointConfig": ("checkpoint", ("save", "load")),
    "DistributedInitConfig": ("dist", ("distributed_timeout_minutes",)),
}
OVERRIDE = re.compile(r"^\+{0,2}(?:" + "|".join(SLOTS) + r")(?:\.[\w.]+)?=")
_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_CALLS = re.compile(r"(\w*Plugin|\w*Executor|FaultTolerance|Torchrun|Script)$")
#: Imported from here, nothing of the user's own can change the configuration.
_LIBRARIES = frozenset(
    "megatron nemo_run torch numpy omegaconf hydra transformers yaml wandb nvidia_resiliency_ext transformer_engine "
    "apex datasets huggingface_hub tqdm einops modelopt psutil requests safetensors accelerate PIL triton "
    "tensorboard mlflow click typer fiddle rich nvtx multistorageclient".split()
)
_ARGUMENT_PARSERS = ("argparse", "click", "typer", "hydra", "fire", "absl")


def read_python(path: str, text: str) -> PythonFile:
    """Read one file.

    Raises:
        SyntaxError: it is no Python that this interpreter reads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the file's own invalid escapes
        tree = ast.parse(text)
    file = PythonFile(path, text=text)
    reader = _Reader(file, tree)
    if file.bridge or file.nemo_run:
        reader.visit(tree)
    return file


class _Reader(ast.NodeVisitor):
    def __init__(self, file: PythonFile, tree: ast.Module) -> None:
        self.file = file
        self.uncertain = 0
        self.values: dict[str, ast.expr | None] = {}
        self.origins: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        #: by name: defaults of parameters and command-line options, and what calls pass by keyword
        self.usual: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        """Imports, and which names are bound exactly once to something."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imported(alias.name, alias.asname or alias.name.partition(".")[0], 0)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._imported(node.module or alias.name, alias.asname or alias.name, node.level)
                self.aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bound(target, node.value)
        elif isinstance(node, ast.AnnAssign):
            self._bound(node.target, node.value)
        elif isinstance(node, (ast.AugAssign, ast.NamedExpr)):
            self._bound(node.target, None)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._bound(node.target, None)
        elif isinstance(node, ast.arg):
            self.values[node.arg] = None
        elif isinstance(node, ast.arguments):
            self._note_defaults(node)
        elif isinstance(node, ast.Call):
            self._note_keywords(node)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bound(node.optional_vars, None)

    def _imported(self, module: str, name: str, level: int) -> None:
        root = module.partition(".")[0]
        self.origins[name] = module
        if module == "megatron.bridge" or module.startswith("megatron.bridge."):
            self.file.bridge = True
        if root == "nemo_run":
            self.file.nemo_run = True
        if module.startswith("nvidia_resiliency_ext.fault_tolerance"):
            self.file.monitored = True
        if level or (root not in sys.stdlib_module_names and root not in _LIBRARIES):
            self.file.sources.append(module)

    def _note_defaults(self, node: ast.arguments) -> None:
        positional = [*node.posonlyargs, *node.args]
        pairs = list(zip(reversed(positional), reversed(node.defaults))) + list(zip(node.kwonlyargs, node.kw_defaults))
        for argument, default in pairs:
            if default is not None:
                self.usual.setdefault(argument.arg, []).append(default)

    def _note_keywords(self, node: ast.Call) -> None:
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if _name(node.func) != "add_argument":
            for name, value in keywords.items():
                self.usual.setdefault(name, []).append(value)
        elif "default" in keywords:
            for option in node.args:
                if isinstance(option, ast.Constant) and str(option.value).startswith("--"):
                    name = str(option.value).lstrip("-").replace("-", "_")
                    self.usual.setdefault(name, []).append(keywords["default"])

    def _count(self, node: ast.expr) -> Any:
        """A number; where a parameter or a parsed option holds it, the largest that the file gives it."""
        value = self.value(node)
        if value == HOLE and isinstance(node, (ast.Name, ast.Attribute)):
            found = [self.value(usual) for usual in self.usual.get(_name(node), ())]
            numbers = [number for number in found if type(number) is int]
            return max(numbers) if numbers else HOLE
        return value

    def _bound(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.values[target.id] = None if target.id in self.values else value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._bound(element, None)

    # ---- values ----

    def value(self, node: ast.expr | None, depth: int = 0) -> Any:
        """The node's value as far as it stands in the file; HOLE for the rest."""
        if node is None or depth > 20:
            return HOLE
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.value(self.values.get(node.id), depth + 1)
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.value(part.value if isinstance(part, ast.FormattedValue) else part, depth + 1)
                for part in node.values
            ]
            return "".join(str(part) for part in parts)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand, depth + 1)
            return -value if isinstance(value, (int, float)) else HOLE
        if isinstance(node, ast.BinOp):
            return self._operation(node, depth)
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if name in ("str", "Path", "int", "float") and len(node.args) == 1:
                return self.value(node.args[0], depth + 1)
            if (
                name == "join"
                and node.args
                and not isinstance(node.func, ast.Name)
                and _name(node.func.value) == "path"
            ):
                parts = [self.value(argument, depth + 1) for argument in node.args]
                return "/".join(str(part).rstrip("/") for part in parts)
        return HOLE

    def _operation(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(node.op, ast.Div) and isinstance(left, str) and isinstance(right, str):
            return f"{left.rstrip('/')}/{right}"
        if isinstance(node.op, ast.Mult) and type(left) in (int, float) and type(right) in (int, float):
            return left * right
        return HOLE

    # ---- statements that may not run ----

    def visit_If(self, node: ast.If) -> None:
        if _is_main(node.test):
            self.generic_visit(node)
            return
        self.visit(node.test)
        self._uncertainly(*node.body, *node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._uncertainly(node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self._uncertainly(*node.body)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._uncertainly(*node.body)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._uncertainly(*node.body)

    def visit_Match(self, node: Any) -> None:
        self._uncertainly(*node.cases)

    def _uncertainly(self, *nodes: ast.AST) -> None:
        self.uncertain += 1
        for node in nodes:
            self.visit(node)
        self.uncertain -= 1

    # ---- what counts ----

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._assigned(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._assigned(node.target, node.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            key = self.value(target.slice)
            if isinstance(key, str) and _ENVIRONMENT_NAME.fullmatch(key):
                self.file.environment[key] = str(self.value(value))
            return
        if not isinstance(target, ast.Attribute):
            return
        parts = _dotted(target)
        if parts and parts[-1] == "launcher" and len(parts) > 1:
            self._launcher(value)
            return
        start = next((i for i, part in enumerate(parts) if part in SLOTS and i), None)
        if start is None and len(parts) > 1 and self._slot_of(parts[0]):
            parts, start = [self._slot_of(parts[0]) or "", *parts[1:]], 0
        if start is None:
            return
        name = ".".join(parts[start:])
        if not (isinstance(value, ast.Call) and self._class(value) in SLOT_CLASSES):
            self._set(name, self.value(value), target)

    def _slot_of(self, name: str) -> str | None:
        value = self.values.get(name)
        found = SLOT_CLASSES.get(self._class(value)) if isinstance(value, ast.Call) else None
        return found[0] if found else None

    def _class(self, node: ast.Call) -> str:
        """The class that the call constructs; for run.Config(Class, ...) and run.Partial, Class."""
        name = _name(node.func)
        if name in ("Config", "Partial") and node.args:
            name = _name(node.args[0])
        first = _dotted(node.func)[:1] or [""]
        origin = self.origins.get(name, self.origins.get(first[0], ""))
        name = self.aliases.get(name, name)
        if name in SLOT_CLASSES and origin.startswith("nvidia_resiliency_ext"):
            return ""
        if name.endswith("Plugin") and not origin.startswith("megatron.bridge") and "resiliency_plugins" not in origin:
            return ""  # NeMo 2.0 has plugins of the same names that work in another way
        return name

    def visit_Call(self, node: ast.Call) -> None:
        name = self._class(node)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        is_open = any(keyword.arg is None for keyword in node.keywords)
        if name in SLOT_CLASSES:
            slot, fields = SLOT_CLASSES[name]
            # run.Config(Class, ...) has the class itself first; ft's fields stand in the order of the class.
            positional = [
                argument for argument in node.args if self.aliases.get(_name(argument), _name(argument)) != name
            ]
            if slot == "ft":
                keywords.update(zip(fields[:2], positional))
            is_open |= len(positional) > (2 if slot == "ft" else 0)
            self._set(slot, name, node)
            for key, value in keywords.items():
                self._set(f"{slot}.{key}", self.value(value), value)
            for field in fields:
                if field not in keywords:
                    self._set(f"{slot}.{field}", HOLE if is_open else MISSING, node)
        elif name == "ConfigContainer":
            for key, value in keywords.items():
                if key in SLOTS and not isinstance(value, (ast.Call, ast.IfExp, ast.Name)):
                    self._set(key, self.value(value), value)
        elif _CALLS.search(name):
            arguments = {key: self.value(value) for key, value in keywords.items()}
            if "nodes" in keywords:
                arguments["nodes"] = self._count(keywords["nodes"])
            if node.args and name == "Script":
                arguments.setdefault("path", self.value(node.args[0]))
            if "launcher" in keywords:
                self._launcher(keywords["launcher"])
            if not self.uncertain or name == "Script":
                self.file.calls.append(Call(name, arguments, self._place(node), is_open))
        self.generic_visit(node)

    def _launcher(self, value: ast.expr) -> None:
        if self.value(value) == "ft":
            self.file.calls.append(Call("FaultTolerance", {}, self._place(value)))

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and _ENVIRONMENT_NAME.fullmatch(key.value):
                self.file.environment[key.value] = str(self.value(value))
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        constructed = [element for element in node.elts if isinstance(element, ast.Call)]
        self.file.lists.append([Call(self._class(call), {}, self._place(call)) for call in constructed])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and OVERRIDE.match(node.value):
            self.file.overrides.append(Word(node.value, self._place(node)))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text = self.value(node)
        if OVERRIDE.match(text):
            self.file.overrides.append(Word(text, self._place(node)))

    def _set(self, name: str, value: Any, node: ast.AST) -> None:
        self.file.settings.append(Setting(name, value, self._place(node), certain=not self.uncertain))

    def _place(self, node: ast.AST) -> Place:
        return Place(self.file.path, getattr(node, "lineno", 0))


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.expr) -> list[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif parts:
        parts.append("")
    return parts[::-1]


def overrides_in(words: list[Word]) -> Iterator[Word]:
    """The words that are override strings for Bridge's configuration."""
    for word in words:
        if OVERRIDE.match(word.text):
            yield word
