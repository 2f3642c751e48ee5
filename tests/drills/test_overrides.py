# SPDX-License-Identifier: Apache-2.0
"""What Bridge's own code does with command-line overrides of the `ft` slot, which is None in every library recipe."""

import pytest

CLASS = "megatron.bridge.training.config.FaultToleranceConfig"
PLAIN = ("ft.enable_ft_package=true",)
ADDED = ("+ft.enable_ft_package=true",)
OBJECT = (f"ft={{_target_:{CLASS},enable_ft_package:true}}",)
ADDED_OBJECT = (f"++ft._target_={CLASS}", "++ft.enable_ft_package=true")

ASK = f"""
import json
from mbridge_resiliency.drills.job import Job
from mbridge_resiliency.drills.stack import load
config = load(Job()).state.cfg
from megatron.bridge.training.config import FaultToleranceConfig
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides

def what_becomes_of(ft, overrides):
    config.ft = ft
    try:
        process_config_with_overrides(config, cli_overrides=overrides)
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
    enabled = config.ft["enable_ft_package"] if isinstance(config.ft, dict) else config.ft.enable_ft_package
    return f"{{type(config.ft).__name__}} {{enabled}}"

cases = {[PLAIN, ADDED, OBJECT, ADDED_OBJECT]!r}
print(json.dumps([[what_becomes_of(None, list(each)), what_becomes_of(FaultToleranceConfig(), list(each))]
                  for each in cases]))
"""


@pytest.fixture(scope="module")
def answers(ask_bridge):
    """Override -> what becomes of the slot where it is None, and where the script has set it."""
    return dict(zip((PLAIN, ADDED, OBJECT, ADDED_OBJECT), ask_bridge(ASK)))


@pytest.mark.drill
@pytest.mark.parametrize(
    ("overrides", "on_none", "on_object"),
    [
        pytest.param(PLAIN, "OverridesError", "FaultToleranceConfig True", id="plain"),
        pytest.param(ADDED, "dict True", "OverridesError", id="added"),
        pytest.param(OBJECT, "FaultToleranceConfig True", "OverridesError", id="object"),
        pytest.param(ADDED_OBJECT, "FaultToleranceConfig True", "FaultToleranceConfig True", id="added-object"),
    ],
)
def test_what_becomes_of_the_slot(answers, overrides, on_none, on_object):
    assert [answer.partition(":")[0] for answer in answers[overrides]] == [on_none, on_object]


@pytest.mark.drill
def test_the_message_of_the_plain_override_suggests_the_one_that_puts_a_dict_there(answers):
    assert "+ft.enable_ft_package=true" in answers[PLAIN][0]
