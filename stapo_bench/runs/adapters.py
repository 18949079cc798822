"""LoRA adapters as checkpoints: a small folder that is a model only together with its base.

base_of(Path("runs/lora/step-40"), None)    # the folder of the base that adapter_config.json names
"""

from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs.checkpoint import check_format
from stapo_bench.runs.hub_models import local_checkpoint
from stapo_bench.tasks import read_foreign_object

_SETTINGS = "adapter_config.json"
_MOST_BYTES = 1 << 20


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no model of its own, by names of files."""
    return (folder / _SETTINGS).is_file() and not (folder / "config.json").exists()


def base_of(folder: Path, named: Path | None) -> Path:
    """The folder of an adapter's base: the one that is ``named`` for it, else the one that it names itself.

    Raises:
        UsageError: neither names one.
        StapoError: it is not there, or no checkpoint.
    """
    if named is not None:
        return local_checkpoint(named)
    settings = read_foreign_object(folder / _SETTINGS, _MOST_BYTES)
    told, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    if not isinstance(told, str) or not told:
        raise UsageError(f"{folder}: expected the adapter to name its base, found no name; give it: --base PATH")
    try:
        base = local_checkpoint(Path(told) if not isinstance(revision, str) else Path(f"{told}@{revision}"))
        check_format(base)
    except StapoError as error:
        raise StapoError(f"{folder}: the base that this adapter names: {error}; or give it: --base PATH") from None
    return base
