"""How large everything must be: arithmetic on figures that were measured. No service is asked."""

from __future__ import annotations

from penstock.sizing.figures import Figure, Figures, figures, keep
from penstock.sizing.plan import Plan, plan
from penstock.sizing.sheet import Step
from penstock.sizing.wanted import Wanted

__all__ = ["Figure", "Figures", "Plan", "Step", "Wanted", "figures", "keep", "plan"]
