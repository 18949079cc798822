"""An engine in this process, or several of them behind one queue: what callers open."""

import os
from dataclasses import replace
from pathlib import Path

from stapo_bench.engines.engine import Engine, check_taken, open_here
from stapo_bench.engines.options import EngineOptions, check_urls


def open_engine(options: EngineOptions, checkpoint: Path) -> Engine:
    """Start an engine: in this process, or as many replicas as were asked for, each with its share of the GPUs.

    Raises:
        UsageError: no engine has that name, it does not take one of the options, or there are too few GPUs.
        StapoError: a replica does not start, or there is no Ray cluster where one is named.
    """
    if options.replicas is None and options.ray is None:
        return open_here(options, checkpoint)
    check_taken(options)
    # What these import costs every other command time.
    if options.ray is not None:
        from stapo_bench.engines.ray_replicas import open_on_ray

        return open_on_ray(options, checkpoint)
    from stapo_bench.engines.replica_process import open_on_this_machine

    return open_on_this_machine(options, checkpoint)


def with_served_model(options: EngineOptions) -> EngineOptions:
    """The options; where they name servers and no model, with the one model that these have.

    Raises:
        StapoError: a server does not answer, or they have several models.
    """
    if options.name != "openai" or options.model is not None or not options.base_urls:
        return options
    from anyio.from_thread import start_blocking_portal

    from stapo_bench.engines.http import API_KEY, Http
    from stapo_bench.engines.openai import START_TIMEOUT_S
    from stapo_bench.engines.served_model import find_name

    check_urls(options.base_urls)
    urls = [url.rstrip("/") for url in options.base_urls]
    with start_blocking_portal() as portal:
        name = portal.call(find_name, Http(os.environ.get(API_KEY)), urls, START_TIMEOUT_S)
    return replace(options, model=name)
