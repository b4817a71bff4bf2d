import pytest
import torch

from fxopt_core import devices
from fxopt_core.devices import (
    DEVICE_VARIABLE,
    DeviceUnavailableError,
    available_devices,
    choose_device,
    peak_memory_bytes,
    reset_peak_memory,
    synchronize,
)
from fxopt_workbench.capabilities import CAPABILITIES, capabilities


@pytest.fixture(autouse=True)
def _no_override(monkeypatch):
    monkeypatch.delenv(DEVICE_VARIABLE, raising=False)


def only(monkeypatch, *kinds):
    """Pretend that this machine has exactly these kinds of device."""
    monkeypatch.setattr(devices, "_is_present", lambda kind: kind in kinds)


def test_cpu_is_always_there_and_comes_last():
    assert available_devices()[-1] == "cpu"


def test_the_preferred_device_is_chosen(monkeypatch):
    only(monkeypatch, "cpu", "mps")
    assert choose_device() == torch.device("mps")
    only(monkeypatch, "cpu", "mps", "cuda")
    assert choose_device() == torch.device("cuda")
    only(monkeypatch, "cpu")
    assert choose_device() == torch.device("cpu")


def test_the_environment_overrides_the_preference_and_the_argument_overrides_both(monkeypatch):
    only(monkeypatch, "cpu", "mps", "cuda")
    monkeypatch.setenv(DEVICE_VARIABLE, "cpu")
    assert choose_device() == torch.device("cpu")
    assert choose_device("mps") == torch.device("mps")


def test_an_empty_override_is_none(monkeypatch):
    only(monkeypatch, "cpu", "mps")
    monkeypatch.setenv(DEVICE_VARIABLE, "")
    assert choose_device() == torch.device("mps")


def test_an_absent_device_is_refused_with_what_is_here(monkeypatch):
    only(monkeypatch, "cpu")
    with pytest.raises(DeviceUnavailableError, match=r"the argument names the device 'mps'.*Present here: cpu"):
        choose_device("mps")
    monkeypatch.setenv(DEVICE_VARIABLE, "cuda")
    with pytest.raises(DeviceUnavailableError, match=f"the environment variable {DEVICE_VARIABLE}"):
        choose_device()


def test_a_name_that_is_none_is_refused():
    with pytest.raises(DeviceUnavailableError, match="not the name of a device"):
        choose_device("gpu")


def test_an_index_beyond_the_devices_is_refused(monkeypatch):
    only(monkeypatch, "cpu", "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(DeviceUnavailableError, match="cuda:2"):
        choose_device("cuda:2")


@pytest.mark.parametrize("kind", CAPABILITIES)
def test_every_kind_has_a_row_of_its_own(kind):
    assert capabilities(kind).kind == kind


def test_metal_has_no_double_precision_and_cuda_counts_memory():
    assert not capabilities("mps").float64
    assert capabilities("cpu").float64
    assert capabilities("cuda:3").memory_counters
    assert not capabilities("cpu").asynchronous


def test_a_kind_without_a_row_is_refused():
    with pytest.raises(DeviceUnavailableError, match=r"'xpu'.*cpu, cuda, mps"):
        capabilities("xpu")


def test_waiting_asks_the_device_it_is_given(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: asked.append(("cuda", str(device))))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: asked.append(("mps",)))
    synchronize("cpu")
    assert asked == []
    synchronize("cuda:1")
    synchronize("mps")
    assert asked == [("cuda", "cuda:1"), ("mps",)]


def test_peak_memory_is_counted_where_there_is_a_counter(monkeypatch):
    resets = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", resets.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 4096)
    reset_peak_memory("cpu")
    assert peak_memory_bytes("cpu") is None
    assert resets == []
    reset_peak_memory("cuda")
    assert resets == ["cuda"]
    assert peak_memory_bytes("cuda") == 4096
