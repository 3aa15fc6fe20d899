"""What was measured under several settings of NCCL, as files that make NCCL choose the best."""

from __future__ import annotations
