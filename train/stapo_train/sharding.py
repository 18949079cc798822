"""A model whose weights, gradients and moments are spread over ranks: PyTorch's FSDP2, and the whole of a part of it.

    shard(model)                         in place; every rank then keeps 1/N of each tensor
    run_whole(model, function)           a forward pass: a layer's weights are gathered while it computes
    gather_weights(model)                all weights on every rank until ``free_weights``, to sample token by token
    WholeWeights(model), whole(tensor)   one tensor after another, whole on every rank

Gradients are summed over ranks and not averaged: each rank's loss is its part of one numerator. Nothing here changes a
model that is not sharded. All ranks have to call each of these together.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MethodType
from typing import Any

from torch import Tensor
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

Tensors = tuple[Tensor, ...]


def shard(model: Any) -> None:
    """Spread a transformers model over all ranks: a unit for each layer, and one for what belongs to none."""
    for layer in model.base_model.layers:
        fully_shard(layer)
    # Freed after each forward pass, which is no default of a root: a pass without gradient would leave it gathered, and
    # the next would compute with what the optimizer has changed since.
    fully_shard(model, reshard_after_forward=True)
    for unit in _units(model):
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction, and NCCL's is the same
    # Clones: FSDP hooks onto what a forward pass returns, which must not be a view.
    model.run_whole = MethodType(lambda _, function: tuple(found.clone() for found in function()), model)
    register_fsdp_forward_method(model, "run_whole")
    run_whole(model, tuple)  # by which the model, and none of its layers, is the root of them all


def run_whole(model: Any, function: Callable[[], Tensors]) -> Tensors:
    """``function()``, which computes with the model's modules; its tensors carry their gradient to the shards."""
    found: Tensors = model.run_whole(function) if _is_sharded(model) else function()
    return found


def gather_weights(model: Any) -> None:
    """Keep all weights whole on every rank: passes then exchange nothing, and ranks may make any number of them."""
    for unit in _units(model):
        unit.set_reshard_after_forward(False, recurse=False)
        unit.unshard()


def free_weights(model: Any) -> None:
    """The reverse of ``gather_weights``."""
    for unit in _units(model):
        unit.set_reshard_after_forward(True, recurse=False)
        unit.reshard()


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of the one of which this rank has a shard."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """This rank's shard of ``tensor``, which every rank has, where the parameter is sharded; on its device."""
    if not isinstance(parameter, DTensor):
        return tensor.to(parameter.device)
    here = tensor.to(parameter.device)
    return distribute_tensor(here, parameter.device_mesh, parameter.placements, src_data_rank=None)


class WholeWeights(Mapping[str, Tensor]):
    """A model's ``state_dict()``, each tensor whole when it is asked for."""

    def __init__(self, model: Any) -> None:
        self._shards: dict[str, Tensor] = model.state_dict()

    def __getitem__(self, name: str) -> Tensor:
        return whole(self._shards[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)


def weights_to_save(model: Any, *, keep: bool) -> dict[str, Tensor] | None:
    """The weights as a file holds them, tied ones once, on the CPU; None: the model can save itself.

    ``keep``: False on ranks that only take part.
    """
    if not _is_sharded(model):
        return None
    parameters = dict(model.named_parameters())
    found = {}
    for name, shard_of in model.state_dict().items():
        if name in parameters and not parameters[name].requires_grad:
            continue  # the base's, of which an adapter holds nothing
        if name in parameters or not isinstance(shard_of, DTensor):
            tensor = whole(shard_of)
            if keep:
                found[name] = tensor.cpu()
    return found


def _is_sharded(model: Any) -> bool:
    return isinstance(model, FSDPModule)


def _units(model: Any) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]
