"""All kinds of faults by name."""

from __future__ import annotations

from nettune.lab.faults.base import Fault
from nettune.lab.faults.flapping import Flap
from nettune.lab.faults.link_down import LinkDown
from nettune.lab.faults.lossy_link import LossyLink
from nettune.lab.faults.miswire import Miswire
from nettune.lab.faults.mtu import Mtu
from nettune.lab.faults.slow_link import OneWaySlow, SlowLink
from nettune.lab.faults.spine_out import SpineOut
from nettune.lab.faults.straggler import Straggler

_ALL: tuple[Fault, ...] = (
    SlowLink(),
    OneWaySlow(),
    LossyLink(),
    Mtu(),
    LinkDown(),
    Flap(),
    Straggler(),
    SpineOut(),
    Miswire(),
)

FAULTS: dict[str, Fault] = {fault.kind: fault for fault in _ALL}
