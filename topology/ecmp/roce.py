"""RoCEv2 as switches see it: UDP to port 4791 from a source port that follows from the two QP numbers.

Linux (include/rdma/ib_verbs.h: rdma_calc_flow_label, rdma_flow_label_to_udp_sport; mlx5, rxe, hns and irdma use them) for
connected QPs whose flow label is 0, as NCCL leaves it; symmetric, so ACKs use the same port. Only 14 bits of it vary.
Some users set the port themselves (`mlx5dv_modify_qp_udp_sport`), draw it at random or keep one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Number = TypeVar("Number", int, "NDArray[np.int64]")
SPORT_FIRST, SPORT_LAST = 0xC000, 0xFFFF
"""Range of the source port."""
QPN_BITS = 24


def flow_label(lqpn: Number, rqpn: Number) -> Number:
    """20-bit flow label of local and remote QP numbers; columns too."""
    value = lqpn * rqpn
    value = value ^ (value >> 20)
    value = value ^ (value >> 40)
    return value & 0xFFFFF


def sport_of_label(label: Number) -> Number:
    """UDP source port of a flow label that is not 0; columns too."""
    return ((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) | SPORT_FIRST


def sport_of_qps(lqpn: Number, rqpn: Number) -> Number:
    """UDP source port of a connected QP whose flow label is 0; columns too."""
    return sport_of_label(flow_label(lqpn, rqpn))
