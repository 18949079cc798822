"""One training on several processes of a machine: ``stapo-train CONFIG --ranks N``, or torchrun by hand.

    torchrun --nproc_per_node 8 -m stapo_train CONFIG           the ranks, started by PyTorch's launcher
    start_ranks(8, ["CONFIG"])                                  the same launcher, called; a failure becomes one line
    with joined("auto") as ranks: ...                           within each of them

A rank is a process with a GPU of its own, or a process on the CPU where the config computes there. Where one ends, for
whatever reason, the launcher ends all others: none could go on without it. A rank records why it failed, in the file
that the launcher names, and prints nothing; only the first prints at all.
"""

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stapo_bench.errors import StapoError, Stopped, UsageError, exit_code_of
from stapo_train.jobs import die_with_the_runner
from stapo_train.objective import ONE_PROCESS, Reduce
from stapo_train.stopping import launched

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure


def start_ranks(count: int, arguments: Sequence[str]) -> None:
    """Run ``python -m stapo_train ARGUMENTS`` on so many ranks, and wait until all have ended.

    Raises:
        StapoError: a rank failed, with what it said and its exit code.
        Stopped: this process was asked to stop, and has stopped them.
    """
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable(logging.ERROR)  # the launcher's own words on what we say in one line
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # whatever the machine's name resolves to
    with tempfile.TemporaryDirectory() as logs:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            run_id="stapo-train",
            local_addr="localhost",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "stapo_train", *arguments)
        except SignalException as stop:
            raise Stopped(stop.sigval) from None
        except ChildFailedError as failed:
            raise _first_failure(failed) from None


def _first_failure(failed: "ChildFailedError") -> StapoError:
    """Why the ranks ended: one was killed, else one failed first; SIGTERM is how the launcher then ends the others."""

    def order(each: tuple[int, "ProcessFailure"]) -> tuple[int, int, int]:
        code = each[1].exitcode
        return (2 if code == -signal.SIGTERM else int(code >= 0)), each[1].timestamp, each[0]

    rank, failure = min(failed.failures.items(), key=order)
    if failure.exitcode < 0:
        name = failure.signal_name()
        why = ", as the system does where memory runs out" if name == "SIGKILL" else ""
        return StapoError(f"rank {rank} was ended by {name}{why}; --resume goes on from the last checkpoint")
    error = StapoError(_said(failure) or f"rank {rank} ended with exit code {failure.exitcode} and said nothing")
    error.exit_code = failure.exitcode
    return error


def _said(failure: "ProcessFailure") -> str:
    """What a single process would have printed."""
    message = failure.error_file_data.get("message", "")
    kind, _, line = str(message.get("message", "") if isinstance(message, dict) else "").partition(": ")
    return line if kind in (StapoError.__name__, UsageError.__name__) or not line else f"unexpected {kind}: {line}"


@contextmanager
def joined(device: str) -> Iterator[Reduce]:
    """All ranks of this training, of which this process is one; ``ONE_PROCESS`` where no launcher started it.

    A rank's process ends with the block.

    Args:
        device: the config's; ``auto``: a GPU for each rank where there are any.

    Raises:
        UsageError: more ranks than GPUs, or a device that all ranks would share.
    """
    if not launched():
        yield ONE_PROCESS
        return
    die_with_the_runner(os.getppid())
    try:
        with _in_group(device) as ranks:
            yield ranks
    except KeyboardInterrupt as stop:
        _be_quiet()
        sys.exit(exit_code_of(stop))  # the launcher was stopped, and says so
    except Exception as error:
        from torch.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

        ErrorHandler().record_exception(error)
        _be_quiet()
        sys.exit(error.exit_code if isinstance(error, StapoError) else 1)


@contextmanager
def _in_group(device: str) -> Iterator[Reduce]:
    import torch
    import torch.distributed as dist

    from stapo_bench.engines import default_device
    from stapo_train.distributed import PATIENCE, ProcessGroup, end_rank

    rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if rank:
        _be_quiet()
    kind = default_device() if device == "auto" else device
    if kind not in ("cpu", "cuda"):
        raise UsageError(f"device: expected auto, cpu or cuda on several ranks, each with its own GPU, got {device}")
    here = torch.device("cpu")
    if kind == "cuda":
        if local >= torch.cuda.device_count():
            raise UsageError(f"expected at most {torch.cuda.device_count()} ranks, one for each GPU, got {size}")
        here = torch.device("cuda", local)
        torch.cuda.set_device(here)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=PATIENCE)
    yield ProcessGroup(here)
    end_rank()  # only here: after a failure it would wait for ranks that are gone


def _be_quiet() -> None:
    """Print nothing until the process ends, nor what an interrupted interpreter says of its own end."""
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the end)
