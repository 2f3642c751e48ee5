# SPDX-License-Identifier: Apache-2.0
"""Names across files and packages: inheritance, re-exports, defaults, types."""

import pytest

from mbridge_resiliency.facts import Fact
from mbridge_resiliency.upstream import verify
from mbridge_resiliency.upstream.symbols import Symbols, Value, same_type, same_value

CORE = {
    "megatron/training/config/__init__.py": (
        "from .common_config import *\nfrom .training_config import CheckpointConfig\n"
        "from .deep import Deep as Renamed\n"
    ),
    "megatron/training/config/common_config.py": (
        "from dataclasses import dataclass\nfrom megatron.core.base import Base\nMINUTES = 10\n"
        "@dataclass\nclass DistributedInitConfig(Base):\n"
        "    timeout_minutes: int = MINUTES\n    backend: str = 'nccl'\n"
    ),
    "megatron/training/config/training_config.py": (
        "from dataclasses import dataclass\n@dataclass\nclass CheckpointConfig:\n"
        "    save: str | None = None\n    async_strategy: str = 'mcore'\n    keep: int = -1\n"
    ),
    "megatron/training/config/deep.py": "class Deep:\n    depth: int = 4\n",
    "megatron/core/base.py": "from dataclasses import dataclass\n@dataclass\nclass Base:\n    seed: int = 1234\n",
}
BRIDGE = {
    "megatron/bridge/training/config.py": (
        "from dataclasses import dataclass\nimport megatron.training.config\nfrom elsewhere import Unread\n"
        "from megatron.training.config import CheckpointConfig as MTrainCheckpointConfig\n"
        "from megatron.training.config import DistributedInitConfig, Renamed\n"
        "@dataclass\nclass CheckpointConfig(MTrainCheckpointConfig):\n    async_strategy: str = 'nvrx'\n    keep = 5\n"
        "@dataclass\nclass InitConfig(DistributedInitConfig, Renamed):\n    own: bool = True\n"
        "@dataclass\nclass Qualified(megatron.training.config.CheckpointConfig):\n    pass\n"
        "@dataclass\nclass Partly(Unread, MTrainCheckpointConfig):\n    pass\n"
    ),
}


def field(release, owner, name, default, kind="int"):
    says = {"class": owner, "field": name, "type": kind, "default": default}
    source = {"package": "megatron-bridge", "file": "megatron/bridge/training/config.py", "symbol": owner}
    return verify.verify(Fact("a", "config_field", says, {}, source), Symbols(release))


@pytest.fixture
def release(make_release):
    return make_release({"megatron-bridge": BRIDGE, "megatron-core": CORE})


@pytest.mark.parametrize(
    "owner,name,default,kind,place",
    [
        ("CheckpointConfig", "save", None, "Optional[str]", "megatron/training/config/training_config.py:4"),
        ("CheckpointConfig", "async_strategy", "nvrx", "str", "megatron/bridge/training/config.py:8"),
        ("CheckpointConfig", "keep", 5, "int", "megatron/bridge/training/config.py:9"),
        ("InitConfig", "timeout_minutes", 10, "int", "megatron/training/config/common_config.py:6"),
        ("InitConfig", "seed", 1234, "int", "megatron/core/base.py:4"),
        ("InitConfig", "depth", 4, "int", "megatron/training/config/deep.py:2"),
        ("Qualified", "async_strategy", "mcore", "str", "megatron/training/config/training_config.py:5"),
        ("Partly", "save", None, "Optional[str]", "megatron/training/config/training_config.py:4"),
    ],
)
def test_inherited_across_packages(release, owner, name, default, kind, place):
    verdict = field(release, owner, name, default, kind)
    assert (verdict.verdict, verdict.place) == ("holds", place)


def test_the_inherited_default_is_not_the_subclass_s(release):
    verdict = field(release, "CheckpointConfig", "async_strategy", "mcore", "str")
    assert (verdict.verdict, verdict.found) == ("differs", "async_strategy default 'nvrx'")


def test_a_field_behind_a_base_that_was_not_read_is_not_gone(release):
    verdict = field(release, "Partly", "other", 1)
    assert (verdict.verdict, "Unread" in verdict.reason) == ("could_not_tell", True)
    assert field(release, "CheckpointConfig", "other", 1).verdict == "gone"


def test_without_the_package_of_the_base_it_could_not_be_told(make_release):
    verdict = field(make_release({"megatron-bridge": BRIDGE}), "CheckpointConfig", "save", None, "Optional[str]")
    assert (verdict.verdict, "MTrainCheckpointConfig" in verdict.reason) == ("could_not_tell", True)


def test_an_import_circle_ends(make_release):
    files = {
        "nemo_run/a.py": "from nemo_run.b import X\nfrom nemo_run.b import *\n",
        "nemo_run/b.py": "from nemo_run.a import X\nfrom nemo_run.a import *\n",
    }
    symbols = Symbols(make_release({"nemo-run": files}))
    file = symbols.file("nemo_run/a.py")
    assert symbols.resolve(file, "X") is None
    assert symbols.resolve(file, "Y") is None


@pytest.mark.parametrize(
    "text,value",
    [
        ("3 * 60", 180),
        ("-1", -1),
        ("(1, 2)", (1, 2)),
        ("float('inf')", float("inf")),
        ("f'a{3}'", "a3"),
        ("1 << 4", 16),
    ],
)
def test_value(make_release, text, value):
    symbols = Symbols(make_release({"nemo-run": {"nemo_run/a.py": f"A = {text}\n"}}))
    assert symbols.value(symbols.file("nemo_run/a.py"), "A").value == value


@pytest.mark.parametrize("text", ["unknown", "f(3)", "10 ** 10 ** 10", "'a' * 10 ** 9", "A", "1 / 0", "{**x}"])
def test_an_expression_that_is_not_worked_out_is_kept_as_text(make_release, text):
    symbols = Symbols(make_release({"nemo-run": {"nemo_run/a.py": f"A = {text}\n"}}))
    assert symbols.value(symbols.file("nemo_run/a.py"), "A") == Value("A")


@pytest.mark.parametrize(
    "claimed,found,same",
    [
        (5, Value("5.0", True, 5.0), True),
        (True, Value("1", True, 1), False),
        (0, Value("False", True, False), False),
        ("5", Value("5", True, 5), True),
        ("SIGKILL", Value("signal.SIGKILL"), True),
        ("signal.SIGKILL", Value("signal.SIGKILL"), True),
        ("KILL", Value("signal.SIGKILL"), False),
        ("a", Value("'b'", True, "b"), False),
        ([1, 2], Value("(1, 2)", True, (1, 2)), True),
        (["b", "a"], Value("{'a', 'b'}", True, {"a", "b"}), True),
        ([], Value("list()", True, []), True),
        ("RerunConfig", Value("RerunConfig()"), True),
        (None, Value("x"), False),
    ],
)
def test_same_value(claimed, found, same):
    assert same_value(claimed, found) is same


@pytest.mark.parametrize(
    "claimed,found,same",
    [
        ("Optional[int]", "int | None", True),
        ("int or null", "Optional[int]", True),
        ("Optional[int]", "int", False),
        ("Union[str, Path, None]", "Optional[Union[Path, str]]", True),
        ("dict[str, Any]", "typing.Dict[str, Any]", True),
        ("Literal['b', 'a']", "Literal['a', 'b']", True),
        ("Literal['a']", "Literal['a', 'b']", False),
        ("Optional[Callable]", "Optional[Callable[[int], List[str]]]", True),
        ("'Config'", "Config", True),
        ("signal.Signals", "Signals", True),
        ("int", None, False),
        ("a path, or null", "str", None),
    ],
)
def test_same_type(claimed, found, same):
    assert same_type(claimed, found) is same
