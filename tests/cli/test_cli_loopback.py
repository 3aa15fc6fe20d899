"""`nettune demo` where the kernel refuses namespaces: ranks on loopback, and a list of what that cannot show."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from nettune.lab import lab_available

# A user namespace in which no other can be made, and in it a root without the right to make any other namespace.
REFUSED = [
    "unshare", "--user", "--map-root-user", "sh", "-c",
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$@"',
    "sh",
]  # fmt: skip


@pytest.fixture(scope="module")
def refusing() -> list[str]:
    """Prefix of a command that may make no namespace."""
    if not lab_available()[0]:
        return []
    if shutil.which("setpriv") is None or subprocess.run([*REFUSED, "true"], check=False).returncode != 0:
        pytest.skip("namespaces cannot be refused here")
    return REFUSED


@pytest.fixture(scope="module")
def loopback(nettune, refusing):
    return nettune("demo", "--output", "json", wrap=refusing)


@pytest.mark.slow
def test_demo_runs_on_loopback(loopback):
    """Exit 0, and busbw, sweep and training are measured; the gain of an order is null, not zero."""
    found = loopback.json

    assert loopback.code == 0, loopback.stderr
    assert found["mode"] == "loopback"
    assert found["busbw_gbps"]["loopback"]["median"] > 0
    assert found["mfu_delta_points"] is None
    assert found["mfu_delta_ci"] is None
    assert found["sweep"]["kept"] == found["train"]["config"]["bucket_cap_mib"]
    assert found["train"]["orders"]["loopback"]["mfu_percent"]["median"] > 0


@pytest.mark.slow
def test_demo_says_what_it_could_not_show(loopback, refusing):
    """The first line on stderr says why, with the setting to look at; `not_shown` says it again beside what is missing."""
    said = loopback.json["not_shown"]
    first = loopback.stderr.splitlines()[0]

    assert first.startswith("no emulated fabric here, so ranks run on loopback: ")
    if refusing:
        assert "user.max_user_namespaces" in first
        assert "user.max_user_namespaces" in said[-1]
    assert any("qualification" in line for line in said)
    assert any("MFU" in line for line in said)


@pytest.mark.slow
def test_loopback_report_claims_no_fabric(loopback, inside):
    """The report of such a run can be made again, fits the terminal and does not speak of an emulated fabric."""
    text = inside("report", loopback.json["run_dir"], "--form", "text").stdout

    assert "loopback" in text
    assert "an emulated fabric" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_fault_needs_a_fabric(nettune, refusing):
    """Where no fabric can be built, a fault cannot be injected: one line with the setting, exit 2."""
    done = nettune("demo", "--fault", "slow-link", wrap=refusing)

    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: a fault needs an emulated fabric: ")
    assert done.stderr.count("\n") == 1
