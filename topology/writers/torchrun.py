"""torchrun: a static launch, one script for every host, and one that starts it on all of them over ssh.

Never the c10d rendezvous: it sorts the hosts by name as strings and so undoes any order (pytorch#191190). Static: rank =
the ranks of all lower node ranks + local rank (torch/distributed/elastic/agent/server/api.py, _assign_worker_ranks).
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from topology.writers.rankmap import RankMap
from topology.writers.shell import HERE, script

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

MASTER_PORT = 29500

# What ssh takes for a host and not for an option; any other character is quoted.
_NAME = re.compile(r"(?!-)[^\s\x00-\x1f\x7f]+")


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`torchrun.sh`, to be run on every host with the training script as its arguments, and `torchrun-ssh.sh`.

    Raises:
        InputError: the ranks of one host do not follow one another, which torchrun cannot express.
    """
    ranks = RankMap.of(placement, fabric)
    ranks.check_names("torchrun", _NAME)
    ranks.host_by_host("torchrun")
    return {"torchrun.sh": host_script(placement, fabric), "torchrun-ssh.sh": _ssh_script(ranks)}


def host_script(placement: Placement, fabric: Fabric) -> str:
    """The script that each host runs: it finds its line by NODE_NAME or its host name, with or without the domain."""
    ranks = RankMap.of(placement, fabric)
    counts = ranks.host_by_host("torchrun")
    master = fabric.ports.address[int(placement.nic[0])] or ranks.hosts[0]
    lines = []
    for node, (host, count) in enumerate(counts.items()):
        devices = "" if ranks.natural_devices else f" devices={','.join(map(str, ranks.devices[host]))}"
        lines.append(f"    {shlex.quote(host)}) node_rank={node} nproc={count}{devices} ;;\n")
    return (
        script(
            "Run on every host of the map at about the same time: sh torchrun.sh train.py ARGS. Ranks follow the map.",
            "NODE_NAME says which host this is where `hostname` does not; MASTER_PORT is another port than 29500.",
        )
        + "find_host() {\n  node_rank=\n"
        + '  case "$1" in\n'
        + "".join(lines)
        + "  esac\n"
        + '  [ -n "$node_rank" ]\n}\n'
        + "name=${NODE_NAME:-$(hostname)}\n"
        + 'find_host "$name" || find_host "${name%%.*}" || {\n'
        + '  echo "error: $name is not in the map; set NODE_NAME to its name there" >&2\n  exit 2\n}\n'
        + ("" if ranks.natural_devices else 'export CUDA_VISIBLE_DEVICES="$devices"\n')
        # the fast path of equal hosts would number the ranks of unequal ones wrongly
        + ("" if len(set(counts.values())) == 1 else "unset TORCH_ELASTIC_WORKER_IDENTICAL\n")
        + f'exec torchrun --nnodes {len(counts)} --nproc-per-node "$nproc" --node-rank "$node_rank" \\\n'
        + f'  --master-addr {shlex.quote(master)} --master-port "${{MASTER_PORT:-{MASTER_PORT}}}" "$@"\n'
    )


def _ssh_script(ranks: RankMap) -> str:
    starts = "".join(f"start {shlex.quote(host)}\n" for host in ranks.ranks)
    return (
        script(
            "torchrun.sh on every host over ssh, until all have ended: sh torchrun-ssh.sh train.py ARGS, from a folder",
            "that all hosts share under one name. SSH is another command than `ssh -tt`, which ends ranks with it.",
        )
        + HERE
        + r"""quote() {
  printf '%s\n' "$1" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"
}
words="sh $(quote "$here/torchrun.sh")"
for word; do words="$words $(quote "$word")"; done
command="cd $(quote "$PWD") && exec env MASTER_PORT=$(quote "${MASTER_PORT:-}")"
pids=
stop() {
  trap '' INT TERM HUP
  for pid in $pids; do kill "$pid" 2>/dev/null; done
  wait
  exit "$1"
}
trap 'stop 130' INT TERM HUP
start() {
  # shellcheck disable=SC2086,SC2029 # SSH is words, and the command is made here
  ${SSH:-ssh -tt} "$1" "$command NODE_NAME=$(quote "$1") $words" </dev/null &
  pids="$pids $!"
}
"""
        + starts
        + """# a host that fails ends the others, which would wait for it
while [ -n "$pids" ]; do
  left=
  for pid in $pids; do
    if kill -0 "$pid" 2>/dev/null; then left="$left $pid"; else wait "$pid" || stop $?; fi
  done
  pids=$left
  [ -z "$pids" ] || sleep 1
done
"""
    )
