"""Rows of a hub data set under our column names: from the hub, or from its local cache where the hub is out of reach.

One quick request without retries decides which, and finds the commit that is meant. Everything is then read at that
commit. ``HF_ENDPOINT`` names another hub, ``HF_HUB_OFFLINE=1`` asks for the cache alone.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal

from stapo_bench.errors import StapoError, missing_package
from stapo_bench.tasks.task import Source, Task

ANSWER_S = 10.0  # a hub that has not answered by then is out of reach


def read_rows(task: Task) -> list[dict[str, Any]]:
    """The rows of the task's hub set; see ``read_source``."""
    if task.source.path is None:
        raise StapoError(f"{task.path}: expected dataset_path, the id of a hub set, or --data-dir DIR")
    return read_source(task.source, f"task {task.name}", f"give --data-dir DIR with {task.name}.jsonl")


def read_source(source: Source, what: str, instead: str) -> list[dict[str, Any]]:
    """The rows of a hub set under our column names.

    Args:
        source: ``path`` is the set's id.
        what: names the caller, in errors.
        instead: what to do where the hub is out of reach, in errors.

    Raises:
        StapoError: no such set or revision, out of reach and not in the cache, or a column is missing.
    """
    if find_spec("datasets") is None:
        raise _failure(source, what, instead, str(missing_package("datasets")))
    import datasets

    with _quiet():
        try:
            commit, obstacle = find_commit("data set", source.path or "", source.revision)
        except HubRefusedError as refused:
            raise _failure(source, what, instead, str(refused)) from None
        try:
            with _from_cache(obstacle is not None):
                table = datasets.load_dataset(
                    source.path, source.config, split=source.split, revision=commit or source.revision
                )
        # The failures of datasets (no such split, broken file, broken cache) have no common base class.
        except Exception as error:
            reason = _first_line(error) if obstacle is None else f"{obstacle}; no copy of it in the cache"
            raise _failure(source, what, instead, reason) from error
    missing = [column for column in source.columns.values() if column not in table.column_names]
    if missing:
        raise StapoError(f"{source.path}: expected column {missing[0]}, got {', '.join(table.column_names)}")
    return [{ours: row[theirs] for ours, theirs in source.columns.items()} for row in table]


class HubRefusedError(Exception):
    """The hub refused the request, in words."""


def find_commit(kind: Literal["data set", "model"], name: str, revision: str | None) -> tuple[str | None, str | None]:
    """The commit that a revision of a data set or model names; else None, and why the hub cannot be asked.

    Raises:
        HubRefusedError: there is no such data set, model or revision.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    api = HfApi()
    try:
        if kind == "model":
            return api.model_info(name, revision=revision, timeout=ANSWER_S).sha, None
        return api.dataset_info(name, revision=revision, timeout=ANSWER_S).sha, None
    except RevisionNotFoundError:
        raise HubRefusedError(f"it has no revision '{revision}'") from None
    except RepositoryNotFoundError:
        raise HubRefusedError(f"there is no such {kind}, or no access to it") from None
    except HFValidationError:
        raise HubRefusedError("that is no name of the hub") from None
    except OfflineModeIsEnabled:
        return None, "HF_HUB_OFFLINE is set"
    except HfHubHTTPError as error:
        return None, f"the hub answered {error.response.status_code}"
    # No connection or a timeout, from whichever HTTP library this version of huggingface_hub uses.
    except Exception as error:
        return None, f"the hub is out of reach: {_first_line(error)}"


def _failure(source: Source, what: str, instead: str, reason: str) -> StapoError:
    return StapoError(f"{what}: cannot load {source.path} from the hub ({reason}); {instead}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def _from_cache(only: bool) -> Iterator[None]:
    """A context in which ``datasets`` uses its cache alone: it would otherwise retry each request for 30 s."""
    from datasets import config

    before = config.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = only or before
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = before


@contextmanager
def _quiet() -> Iterator[None]:
    """A context in which the libraries draw no progress bars and log errors only: a failure is one line, ours."""
    import datasets
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    had_bars = not datasets.are_progress_bars_disabled(), not are_progress_bars_disabled()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    disable_progress_bars()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if had_bars[0]:
            datasets.enable_progress_bars()
        if had_bars[1]:
            enable_progress_bars()
