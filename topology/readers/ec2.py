"""Amazon EC2: the answer of DescribeInstanceTopology (`aws ec2 describe-instance-topology`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers.fields import Fields
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.jsontext import load_all, looks_like
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_KEYS = re.compile(r'"NetworkNodes"|"Instances"\s*:')
_OTHER = re.compile(r'"Reservations"\s*:')


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS) and not looks_like(source, _OTHER)


def _read(source: Source) -> Said:
    """Instances by id, under their network nodes.

    NetworkNodes go from the root down to the instance's own switch: 3 today, more where the network has more.
    CapacityBlockId is set on UltraServers only and names their NVLink domain; the documentation prints "null".
    """
    fields, tree = Fields(source), Hierarchy(source, READER.name)
    more = False
    for number, page in enumerate(load_all(source)):
        pages = (
            fields.entries(page, (number,))
            if isinstance(page, list)
            else [((number,), fields.mapping(page, (number,)))]
        )
        for path, answer in pages:
            if "Instances" not in answer:
                raise fields.error("has no Instances: is it the answer of DescribeInstanceTopology?", path)
            more = known(answer.get("NextToken")) != ""
            for at, instance in fields.entries(answer["Instances"], (*path, "Instances")):
                name = known(fields.text(instance, "InstanceId", at))
                if not name:
                    raise fields.error("an instance has no InstanceId", at)
                domain = known(fields.text(instance, "CapacityBlockId", at))
                tree.chain(name, fields.texts(instance, "NetworkNodes", at)[::-1], nvl_domain=domain)
    if more:
        tree.finding(
            "the last page has a NextToken: instances are missing",
            fix="ask for the next pages too and append them to the file",
        )
    return tree.finish(places=True)


READER = Reader(
    name="ec2",
    what="aws ec2 describe-instance-topology",
    recognises=_recognises,
    read=_read,
)
