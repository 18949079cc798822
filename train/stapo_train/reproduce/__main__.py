"""One of three scales, by name; each has its own options (``--scale small --help``).

python -m stapo_train.reproduce [--scale tiny|small|paper] [options of that scale]
"""

import argparse
import importlib
import sys

from stapo_train.reproduce.table import run_script

SCALES = ("tiny", "small", "paper")


def main(arguments: list[str]) -> None:
    """Run the scale that ``--scale`` names with the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--scale", choices=SCALES, default="tiny")
    chosen, rest = parser.parse_known_args(arguments)
    sys.argv = [f"reproduce_table.sh --scale {chosen.scale}", *rest]
    run_script(importlib.import_module(f"stapo_train.reproduce.{chosen.scale}").main)


if __name__ == "__main__":
    main(sys.argv[1:])
