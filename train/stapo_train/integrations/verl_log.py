"""verl's log, kept as ``metrics.jsonl`` and ``config.yaml`` in its ``trainer.default_local_dir`` too.

verl's trainer hands every step's numbers to its ``Tracking``, on the driver, whatever loggers it was asked for. The
plug-in has it write them where ``stapo-bench plot --train DIR`` and ``report --train DIR`` find them.
"""

import os
from functools import wraps
from pathlib import Path
from typing import Any

from verl.utils.tracking import Tracking

from stapo_train.integrations.metrics_file import VERL, MetricsFile, record_of
from stapo_train.integrations.verl_settings import VARIABLE, stated_settings


def extend_verls_log() -> None:
    """Have ``Tracking`` write our file; once in a process."""
    if hasattr(Tracking.log, "__wrapped__"):
        return
    begin, log = Tracking.__init__, Tracking.log

    @wraps(begin)
    def opened(self: Any, *others: Any, config: Any = None, **named: Any) -> None:
        begin(self, *others, config=config, **named)
        if config is not None and VARIABLE in os.environ:
            self.stapo_metrics = MetricsFile(
                Path(config["trainer"]["default_local_dir"]),
                seed=int(config["data"].get("seed") or 0),
                objective=stated_settings(os.environ[VARIABLE]),
                iterations=int(config["trainer"].get("total_training_steps") or 0),
                trainer="verl",
            )

    @wraps(log)
    def logged(self: Any, data: Any, step: int, *others: Any, **named: Any) -> None:
        log(self, data, step, *others, **named)
        record = record_of(VERL, data)
        if record is not None and hasattr(self, "stapo_metrics"):
            self.stapo_metrics.add(int(step), record)

    Tracking.__init__, Tracking.log = opened, logged
