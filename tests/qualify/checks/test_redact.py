"""Secrets are taken out of captures in every form in which tools print them, at a cost that a long line cannot raise."""

from __future__ import annotations

import json

import pytest

from nettune.qualify.redact import GONE, redacted, without_secrets
from topology.capture import Captured, CaptureState, HostCapture

FORMS = (
    "wandb_api_key=SECRET iommu=pt",
    "export MY_TOKEN = 'SECRET and more'",
    "PASSWORD: SECRET",
    "PGPASSWORD=SECRET psql",
    "SSHPASS=SECRET",
    "MYSQL_PWD=SECRET",
    "sshpass -p SECRET ssh g1",
    "srun --password SECRET --auth-token SECRET prog",
    "prog --token=SECRET",
    "AWS_SECRET_ACCESS_KEY=SECRET",
    "https://joe:SECRET@example.com/x",
    "redis://:SECRET@10.0.0.1/0",
    "X-Api-Key: SECRET",
    "Authorization: Bearer SECRETSECRET",
    '{"password": "SECRET", "port": 1}',
    '{"env": "{\\"token\\": \\"SECRET\\"}"}',
    '"password":"SEC\\"SECRET"',
    "-----BEGIN OPENSSH PRIVATE KEY-----\nSECRET\n-----END OPENSSH PRIVATE KEY-----\n",
    "-----BEGIN RSA PRIVATE KEY-----\nSECRET, cut",
    "M_Key: SECRET",
)
KNOWN = ("AKIA" + "A1" * 8, "hf_" + "a" * 34, "ghp_" + "b" * 36, "nvapi-" + "c" * 40, "sk-" + "d" * 40,
         "eyJ" + "e" * 20 + "." + "f" * 20 + "." + "g" * 20, "glpat-" + "h" * 20, "xoxb-" + "i" * 20)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_taken_out_and_the_rest_stays(form):
    """In the middle of other lines, which are kept."""
    text = f"NCCL_IB_HCA=mlx5\n{form}\nthe token ring is up\n" if "BEGIN" not in form else form
    cleaned = without_secrets(text)

    assert "SECRET" not in cleaned.replace("AWS_SECRET_ACCESS_KEY", "")
    assert GONE in cleaned
    assert "BEGIN" in form or cleaned.startswith("NCCL_IB_HCA=mlx5\n")
    assert "BEGIN" in form or cleaned.endswith("\nthe token ring is up\n")


@pytest.mark.parametrize("secret", KNOWN)
def test_tokens_of_known_kinds_are_taken_out_wherever_they_stand(secret):
    """Without any name before them."""
    assert without_secrets(f"line one\nprog {secret} x\n") == f"line one\nprog {GONE} x\n"


def test_whole_files_and_notes():
    """Environments and keys are left out as a whole; what a tool complained of is cleaned, too."""
    ok = CaptureState.OK
    capture = redacted(
        HostCapture("h0", "host",
            {"/proc/1/environ": Captured(ok, "X=SECRET"), "/srv/joe/.ssh/id_rsa": Captured(ok, "SECRET"),
             "/proc/cmdline": Captured(ok, "BOOT_IMAGE=/v root=UUID=1 x_token=SECRET iommu=pt")},
            {"x": Captured(CaptureState.ERROR, "", "login failed: password=SECRET")})
    )  # fmt: skip

    assert "SECRET" not in json.dumps(capture.to_json())
    assert capture.files["/proc/1/environ"].state is CaptureState.DENIED
    assert capture.files["/proc/cmdline"].text.endswith("iommu=pt")


def test_redaction_changes_nothing_that_checks_read(sound):
    """A sound host's sources pass unchanged."""
    capture = sound(0)
    assert redacted(capture) == capture


@pytest.mark.parametrize(
    "piece",
    ["token", "_pass", "--token", 'token="', 'token=\\"', "eyJ", "a://", "Bearer ", "token ", "İtoken"],
)
def test_a_long_line_costs_no_more_than_its_length(piece):
    """Lines of one piece over and over end within the test's patience; the square of their length would not."""
    assert without_secrets(piece * (200_000 // len(piece)))
