# SPDX-License-Identifier: Apache-2.0
"""What a drill drives is upstream's own code, and only unrelated packages are placeholders."""

import pytest

from mbridge_resiliency.drills import stack

ASK = """
import inspect, json
from mbridge_resiliency.drills.job import Job
from mbridge_resiliency.drills.stack import load
loaded = load(Job(calc_ft_timeouts=True, exit_signal_handler=True))
print(json.dumps({
    "callbacks": loaded.callbacks.__file__,
    "state": inspect.getfile(type(loaded.state)),
    "configuration": inspect.getfile(type(loaded.state.cfg)),
    "ft": [inspect.getfile(type(loaded.state.cfg.ft)), loaded.state.cfg.ft.calc_ft_timeouts],
    "save": loaded.state.cfg.checkpoint.save,
    "signal_handler": inspect.getfile(type(loaded.state.signal_handler)),
}))
"""


@pytest.mark.drill
def test_bridge_s_callbacks_state_and_configuration_are_its_own(ask_bridge):
    seen = ask_bridge(ASK)
    assert seen["callbacks"].endswith("site-packages/megatron/bridge/training/fault_tolerance.py")
    assert seen["state"].endswith("site-packages/megatron/bridge/training/state.py")
    assert seen["configuration"].endswith("site-packages/megatron/bridge/training/config.py")
    assert seen["ft"] == [seen["configuration"], True]
    assert seen["save"] == "checkpoints"
    assert seen["signal_handler"].endswith("site-packages/megatron/bridge/training/utils/sig_utils.py")


def test_no_package_that_fault_tolerance_drives_is_a_placeholder():
    related = ("megatron.core", "megatron.bridge.training.fault_tolerance", "megatron.bridge.training.config")
    for package in (*related, "megatron.bridge.training.state", "nvidia_resiliency_ext", "torch", "omegaconf", "hydra"):
        assert stack._Placeholders().find_spec(package) is None
