"""torch for modules that state settings, imported when one of their functions first uses it.

So an objective's settings are read and checked, and a wrong one refused, in the time before torch is there.

    from stapo_train.torch_later import Tensor, torch
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 (handed out)
    from torch import Tensor as Tensor  # noqa: PLC0414
else:
    from importlib import import_module
    from typing import Any

    class Tensor:
        """What annotations name; nothing is one."""

    class _Later:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("torch"), name)

    torch = _Later()
