"""``stapo-train pretrain`` with its tensors on the GPU, where there is one: a base of 20 M parameters in minutes.

python -m stapo_train.reproduce.pretrain_on_gpu train/configs/small/base.yaml out=runs/small/base
"""

import json
import sys
from pathlib import Path

import torch

from stapo_bench.engines import default_device
from stapo_bench.runs import write_atomically
from stapo_bench.tasks import read_foreign_object
from stapo_train.tiny.pretrain import FINISHED_FILE, load_config, pretrain


def main(config: Path, overrides: list[str]) -> None:
    """Make the base model, on the GPU where there is one."""
    torch.set_default_device(default_device())
    made = pretrain(load_config(config, overrides))
    # Label it so that no table takes it for the tiny suite's own base.
    facts = read_foreign_object(made / FINISHED_FILE)
    write_atomically(made / FINISHED_FILE, json.dumps({**facts, "base": "small"}) + "\n")
    print(f"checkpoint: {made}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
