"""What communication costs: bounds, alpha-beta models, max-min fair rates, NCCL's own model, the overlapped hybrid."""

from __future__ import annotations
