"""Checkpoints of the hub: ``--ckpt Qwen/Qwen3-1.7B-Base --revision REV`` as a folder of one commit.

    folder = local_checkpoint(Path("Qwen/Qwen3-1.7B-Base"))
    name_on_hub(folder)   # "Qwen/Qwen3-1.7B-Base@<commit>", which finds the same folder again

The revision is resolved to a commit first, and everything is read at that commit. Only weights in safetensors, settings
and the tokenizer come; no code.
"""

import re
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w./-]+)?")
_FOLDER = re.compile(r"models--(.+)")
_WANTED = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt"]


def local_checkpoint(ckpt: Path, revision: str | None = None) -> Path:
    """The folder of a checkpoint: itself where it is there, else that of the hub's model of this name, fetched.

    Args:
        ckpt: a path, a pattern, or ``owner/name`` of the hub, where no folder ``owner`` is there; it may end in
            ``@revision``.
        revision: branch, tag or commit of the hub's model; None: the one behind ``@``, else ``main``.

    Raises:
        UsageError: a revision of what is no model of the hub.
        StapoError: no such model or revision, or out of reach and not in the cache.
    """
    if not _names_a_model(ckpt):
        if revision is not None:
            raise UsageError(f"--revision: expected a model of the hub as --ckpt, such as Qwen/Qwen3-1.7B, got {ckpt}")
        return ckpt
    from stapo_bench.tasks import HubRefusedError, find_commit

    name, _, stated = str(ckpt).partition("@")
    wanted = revision or stated or None
    try:
        commit, obstacle = find_commit("model", name, wanted)
    except HubRefusedError as refused:
        raise StapoError(f"{ckpt}: no such folder here, and on the hub {refused}") from None
    return _fetch(name, commit or wanted, obstacle)


def _names_a_model(ckpt: Path) -> bool:
    is_name = _NAME.fullmatch(str(ckpt)) is not None
    return is_name and not ckpt.exists() and not Path(ckpt.parts[0]).exists()


def _fetch(name: str, revision: str | None, obstacle: str | None) -> Path:
    """The folder of a revision in the cache; fetched where the hub can be asked (``obstacle`` is None)."""
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            name, revision=revision, allow_patterns=_WANTED, ignore_patterns=["*/*"], local_files_only=bool(obstacle)
        )
    # The failures of huggingface_hub (connection, disk, cache) have no common base class.
    except Exception as error:
        why = f"{obstacle}; no copy of it in the cache" if obstacle else " ".join(str(error).split())[:200]
        at = f" --revision {revision}" if revision else ""
        raise StapoError(
            f"{name}: no such folder here, and the hub's model cannot be had ({why}); where there is a network: "
            f"hf download {name}{at}"
        ) from None
    return Path(folder)


def name_on_hub(folder: Path) -> str | None:
    """``owner/name@commit`` of a folder in the hub's cache; None: it is not one.

    >>> name_on_hub(Path("/cache/hub/models--Qwen--Qwen3-1.7B/snapshots/0123abcd"))
    'Qwen/Qwen3-1.7B@0123abcd'
    """
    if len(folder.parts) < 3 or folder.parts[-2] != "snapshots" or not (found := _FOLDER.fullmatch(folder.parts[-3])):
        return None
    return f"{found[1].replace('--', '/', 1)}@{folder.name}"
