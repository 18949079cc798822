"""DAPO's loss (arXiv:2503.14476, Eq. 8-12) and JustRL's recipe (arXiv:2512.16649), which is DAPO's without its extras.

    J = 1 / sum_i |y_i|  sum_i sum_t  min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A)

All response tokens of the mini-batch share one denominator, so long responses weigh more than short ones. JustRL's
script bounds the loss of a failed rollout's token as well, where the clip does not (dual clip, arXiv:1912.09729):

    J = ... max(min(rho A, clip(rho) A), 10 A)   where A < 0

DAPO's paper has no such bound, and its objective here has none; its authors' script sets 10 too (``dual_clip: 10``).
"""

from dataclasses import dataclass
from typing import ClassVar

from stapo_train.objective import LEAST, Needs, Objective
from stapo_train.origins import Origins


@dataclass(frozen=True, kw_only=True)
class Dapo(Objective):
    """The loss alone, without a dual clip; dynamic sampling and the overlong penalty are settings of other stages."""

    label: ClassVar[str] = "DAPO"
    look: ClassVar[str] = "sky triangle-down solid"
    source: ClassVar[str] = "arXiv:2503.14476, Eq. 8-12"
    origins: ClassVar[Origins] = {
        "clip_low clip_high dual_clip": ("published", "arXiv:2503.14476"),
    }
    needs: ClassVar[Needs] = LEAST


@dataclass(frozen=True, kw_only=True)
class JustRl(Dapo):
    """DAPO's loss with a dual clip of 10, without dynamic sampling or overlong penalty, all constants fixed."""

    label: ClassVar[str] = "JustRL"
    look: ClassVar[str] = "blue diamond dash-dot-dot"
    source: ClassVar[str] = "arXiv:2512.16649; constants of its published recipe"
    origins: ClassVar[Origins] = {
        "clip_low clip_high": ("published", "arXiv:2512.16649"),
        "dual_clip": ("code", "JustRL's script"),
    }
    needs: ClassVar[Needs] = LEAST

    dual_clip: float | None = 10.0
