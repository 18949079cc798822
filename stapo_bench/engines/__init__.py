"""Engines generate completions: requests in, completions out.

The interface is one method, ``Engine.generate``; everything that decides a sample is in its arguments or in
``identity()``, which goes into the run's manifest.
"""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.engines.decoding import (
        REGIMES,
        preset,
        preset_names,
        same_distribution,
        sampling_in_words,
        with_off,
    )
    from stapo_bench.engines.devices import default_device, default_dtype, gpu_names
    from stapo_bench.engines.engine import (
        Charges,
        Engine,
        EngineType,
        Tells,
        check_options,
        check_sampling,
        check_tool,
        declared_identity,
        engine_names,
        has_engine,
        options_of,
        require_vllm,
    )
    from stapo_bench.engines.opening import open_engine, with_served_model
    from stapo_bench.engines.options import EngineOptions
    from stapo_bench.engines.params import check_params, cut_at_stop, declared_context, token_budget
    from stapo_bench.engines.probe import Probes
    from stapo_bench.engines.spent import Spent
    from stapo_bench.engines.tool_calls import ToolUse, generate_with_tools
else:
    __getattr__ = lazy_names(__name__, __file__)
