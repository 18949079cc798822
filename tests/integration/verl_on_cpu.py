"""verl on a CPU: a platform of that device for its engines. VERL_USE_EXTERNAL_MODULES has verl import it."""

import os
import types

import torch
from verl.plugin.platform import PlatformRegistry, set_platform
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.utils import distributed

# Engines are registered for devices by name, and there is none for "cpu".
os.environ |= {"VERL_ENGINE_DEVICE": "cuda", "VERL_ENGINE_VENDOR": "nvidia"}


def _nothing(*_, **__):
    return 0


_device = types.SimpleNamespace(
    **{name: getattr(torch.cpu, name) for name in ("Stream", "current_stream", "stream", "synchronize")},
    **dict.fromkeys(("empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
                     "memory_reserved", "set_device", "reset_peak_memory_stats"), _nothing),
    is_available=lambda: True,
    current_device=lambda: "cpu",
    device_count=lambda: 1,
    get_device_name=lambda: "CPU",
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
    mem_get_info=lambda: (0, 0),
)  # fmt: skip


@PlatformRegistry.register(platform="cpu")
class PlatformCpu(PlatformCUDA):
    device_name = "cpu"
    device_module = _device

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 1

    def communication_backend_name(self):
        return "gloo"

    set_device = synchronize = manual_seed = manual_seed_all = set_allocator_settings = empty_cache = _nothing


set_platform(PlatformCpu())

# verl asks for a backend of the CPU and one of the device, which torch refuses where the two are one.
_for_two_devices = distributed.initialize_global_process_group_ray


def _for_one_device(timeout_second=None, backend=None):
    _for_two_devices(timeout_second, backend or "gloo")


distributed.initialize_global_process_group_ray = _for_one_device
