"""Every recorded output of nccl-tests, with a reading that was made by hand and awk, without the parser."""

from __future__ import annotations

import pytest

from collectives.nccl_tests.jsonform import looks_like_json, parse_json
from collectives.nccl_tests.text import parse_text
from collectives.nccl_tests.verdict import judge
from nettune.checks import Status, exit_code

C, D, B, N, S, E = "complete", "data", "bandwidth", "network", "shape", "ended"

# name: (operation, rows, ranks, busbw at the largest size in GB/s (the slower half), average, exit code, what did not pass)
READINGS = {
    "01-gh200-2n8r-v2.17.1-ok.txt": ("all_reduce", 25, 8, 122.57, 19.7866, 0, {N}),
    "03-gh200-2n2r-v2.18.2-wide-columns.txt": ("all_reduce", 8, 2, 22.86, 14.9966, 0, {N}),
    "04-p4de-srun-label-prefix.txt": ("", 29, 0, 78.33, None, 2, {C}),
    "05-p5-srun-label-prefix.txt": ("", 32, 0, 487.09, None, 2, {C}),
    "06-p5-mpirun-tag-output-elided.txt": ("", 7, 0, 437.79, 52.9753, 2, {C}),
    "07-awsbatch-tag-output-header-edited.txt": ("", 32, 0, 483.05, 156.742, 0, {C}),
    "08-p5en-elided-first-row-cold.txt": ("", 3, 0, 369.42, 84.0569, 2, {C, S}),
    "11-gb200-1440-tail-only.txt": ("", 6, 1440, 404.77, 297.808, 0, {C}),
    "12-allgather-2r-none-redop.txt": ("all_gather", 28, 2, 36.67, 12.5463, 0, {N}),
    "14-gke-rdma-allgather.txt": ("all_gather", 24, 16, 259.25, 59.3638, 0, {N}),
    "20-5090-single-gpu-zero-busbw-overflow.txt": ("", 4, 1, 0.0, 0.0, 2, {C, B}),
    "22-alltoall-inplace-NA-1rank.txt": ("", 1, 1, 0.0, 0.0, 2, {B}),
    "23-alltoall-roce-slow-NA.txt": ("alltoall", 6, 0, 35.9, 9.04853, 2, {C}),
    "24-old-error-column-interleaved-ncclinfo.txt": ("", 7, 0, 32.97, None, 2, {C}),
    "25-old-error-column-root0-hang.txt": ("", 4, 0, 12.81, None, 2, {C}),
    "26-hang-after-header-2019.txt": ("", 0, 4, None, None, 2, {C}),
    "28-rccl-mi350x-asterisk.txt": ("", 2, 0, 360.97, 111.827, 2, {C}),
    "30-fake-8g-ok.txt": ("all_reduce", 12, 8, 84.74, 22.733, 0, set()),
    "31-fake-8g-wrong-FAILED.txt": ("all_reduce", 3, 8, 35.65, 56.0415, 1, {D, S}),
    "32-fake-c0-NA.txt": ("all_reduce", 3, 8, 31.25, 47.4182, 0, {D, S}),
    "33-fake-timestamps-S1.txt": ("all_reduce", 3, 8, 57.43, 55.1836, 0, set()),
    "34-fake-per-iter-I1-K5.txt": ("all_reduce", 3, 8, 77.81, 63.0459, 0, set()),
    "37-fake-cycles-N2.txt": ("all_reduce", 4, 8, 64.07, 55.7107, 0, set()),
    "38-fake-op-all-d-all.txt": ("all_reduce", 72, 2, 34.03, 32.7595, 0, set()),
    "39-fake-broadcast-root-all.txt": ("broadcast", 4, 4, 34.045, 34.0455, 0, set()),
    "40-fake-sendrecv.txt": ("sendrecv", 3, 8, 67.03, 50.559, 0, set()),
    "42-fake-reducescatter.txt": ("reduce_scatter", 6, 8, 10.18, 1.96239, 0, set()),
    "43-fake-hypercube.txt": ("hypercube", 3, 4, 12.28, 24.0418, 0, {S}),
    "45-fake-hang-killed.txt": ("all_reduce", 2, 8, 46.99, None, 2, {C, S}),
    "46-fake-async-remote-error.txt": ("all_reduce", 2, 8, 64.03, None, 2, {E}),
    "47-fake-min-bw-FAILED.txt": ("all_reduce", 2, 8, 95.81, 89.4414, 1, {B}),
    "48-fake-too-many-gpus.txt": ("all_reduce", 0, 0, None, None, 2, {E}),
    "49-fake-maxbytes-reduced.txt": ("all_reduce", 3, 2, 98.96, 98.8538, 0, {C}),
    "50-fake-json-stdout.txt": ("all_reduce", 3, 8, 39.57, 50.7538, 0, {S}),
    "50-fake.json": ("all_reduce", 3, 8, 39.574047, 50.753778, 0, {S}),
    "50-fake.json.0": ("all_reduce", 1, 8, 47.375585, 47.381641, 0, set()),
    "51-fake-json-second-run.txt": ("all_reduce", 1, 8, 47.38, 47.3816, 0, set()),
    "53-fake-tiny-and-huge-widths.txt": ("all_reduce", 3, 8, 98332.0, 46236.7, 0, set()),
    "54-fake-slow-1e.txt": ("all_reduce", 2, 2, 0.0, 0.00492501, 0, {D}),
    "awsome_p4d_mpi_prefixed.txt": ("all_reduce", 7, 0, 437.79, 52.9753, 2, {C}),
    "cscs_gh200_socket_fallback_BAD.txt": ("all_reduce", 25, 8, 5.41, 1.58767, 0, {N, S}),
    "dcgm_mock_fail_bw.txt": ("all_reduce", 1, 1, 0.0, 0.0, 1, {B}),
    "dcgm_mock_fail_wrong_values.txt": ("all_reduce", 1, 1, 0.0, 0.0, 1, {B, D}),
    "dranet_gke_avg11_SLOW.txt": ("all_gather", 0, 16, None, 11.2291, 2, {C, N}),
    "dranet_gke_avg15.txt": ("all_gather", 24, 2, 32.2, 15.0709, 0, {N}),
    "dranet_gke_avg22.txt": ("all_gather", 0, 16, None, 22.2173, 2, {C, N}),
    "dranet_gke_avg59.txt": ("all_gather", 24, 16, 259.25, 59.3638, 0, {N}),
    "dranet_mpi_operator_avg15.txt": ("all_reduce", 24, 2, 31.88, 15.5188, 0, {N}),
    "dranet_nvidia_part1.txt": ("all_gather", 8, 2, 482.71, None, 2, {C}),
    "dranet_nvidia_part2.txt": ("all_gather", 0, 4, None, None, 2, {C, N}),
    "failure_system_not_initialized.txt": ("", 0, 0, None, None, 2, {E}),
    "gb200_nvl72_72rank_partial.txt": ("", 1, 0, 576.74, 745.53, 2, {C}),
    "gcp_a3high_avg31.txt": ("", 10, 0, 70.9, 30.9622, 0, {C, D}),
    "gcp_a3mega_avg54_shifted_header.txt": ("", 31, 0, 188.73, 53.8932, 0, {C}),
    "gcp_a3ultra_placeholder_XXX.txt": ("", 0, 0, None, None, 2, {C}),
    "gcp_dws_avg120.txt": ("", 24, 0, 328.85, 120.248, 0, {C}),
    "rccl_json_line_partial_TRUNCATED.txt": ("", 0, 0, None, None, 2, {C}),
    "superbench_nccl_alltoall.log.txt": ("", 34, 8, 224.31, 58.6481, 0, {D}),
}  # fmt: skip


def runs_of(text):
    return [parse_json(text)] if looks_like_json(text) else parse_text(text.splitlines())


def test_every_sample_has_a_reading(shared):
    """A sample that comes is read by hand first."""
    names = {path.name for path in (shared / "samples" / "nccl-tests").iterdir() if path.suffix != ".src"}

    assert names == set(READINGS)


@pytest.mark.parametrize("name", sorted(READINGS))
def test_a_sample_is_read_as_by_hand(shared, name):
    """Operation, rows, ranks, bandwidths, exit code, and which checks did not pass."""
    op, rows, ranks, busbw, average, code, open_checks = READINGS[name]
    text = (shared / "samples" / "nccl-tests" / name).read_text(encoding="utf-8", errors="replace")

    (run,) = runs_of(text)
    findings = judge(run)

    assert (run.op, len(run.rows), run.ranks, run.average) == (op, rows, ranks, average)
    assert (
        run.busbw_gbytes_per_s == pytest.approx(busbw)
        if busbw is not None
        else run.busbw_gbytes_per_s is None
    )
    assert exit_code(findings) == code
    assert {
        one.check.removeprefix("nccl-tests-") for one in findings if one.status is not Status.PASS
    } == open_checks


def test_details_of_samples(shared):
    """What the table has no column for: the lowered -e, the torn row, versions, roots, widths, host of a failure."""
    folder = shared / "samples" / "nccl-tests"
    read = {name: runs_of((folder / name).read_text(encoding="utf-8"))[0] for name in READINGS}

    assert read["49-fake-maxbytes-reduced.txt"].reduced_max_bytes == 5010795178
    assert read["46-fake-async-remote-error.txt"].torn == 4194304
    assert read["46-fake-async-remote-error.txt"].failures[0].host == "vm"
    assert read["45-fake-hang-killed.txt"].next_size == 2097152
    assert read["03-gh200-2n2r-v2.18.2-wide-columns.txt"].version == "2.18.2"
    assert read["03-gh200-2n2r-v2.18.2-wide-columns.txt"].nccl_version == "2.30.7"
    assert read["dranet_gke_avg15.txt"].nccl_version == "2.25.1"
    assert [row.root for row in read["39-fake-broadcast-root-all.txt"].rows] == [0, 1, 2, 3]
    assert read["25-old-error-column-root0-hang.txt"].rows[0].root == 0
    assert read["24-old-error-column-interleaved-ncclinfo.txt"].rows[0].out_of_place.error == 5e-07
    assert read["24-old-error-column-interleaved-ncclinfo.txt"].rows[0].out_of_place.wrong is None
    assert {row.redop for row in read["43-fake-hypercube.txt"].rows} == {""}
    assert read["53-fake-tiny-and-huge-widths.txt"].rows[1].out_of_place.algbw_gbytes_per_s == 22370
    assert read["01-gh200-2n8r-v2.17.1-ok.txt"].hosts == ["nid005471", "nid005487"]
    assert read["11-gb200-1440-tail-only.txt"].devices[0].model == "NVIDIA GB200"
