"""``stapo-bench experiment`` with every command as a fork of one process: what is tested is the same, and torch is
imported once instead of a dozen times. Started by ``test_experiments.py``."""

import os
import signal
import sys

import torch

import stapo_bench.cli
import stapo_train.cli
import stapo_train.run
from stapo_bench.commands import run_commands
from stapo_train import jobs
from stapo_train.experiments.command import experiment


class Fork:
    """The part of Popen that ``jobs`` uses."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode = pid, None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def spawn(command, log, threads, niceness, guard) -> Fork:
    runner = os.getpid()
    pid = os.fork()
    if pid:
        return Fork(pid)
    # At this process's own priority: on a busy machine the lowest takes many times as long.
    jobs.die_with_the_runner(runner)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    code = 1
    try:
        commands = {"stapo-train": stapo_train.cli.cli, "stapo-bench": stapo_bench.cli.cli}
        commands[command[0]](list(command[1:]), standalone_mode=False)
        code = 0
    except BaseException as error:
        print(repr(error), flush=True)
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    jobs.spawn = spawn
    run_commands(experiment, "experiment", when_stopped="the same command goes on from here")
