"""Every verb from end to end on a small lab: exit code, both renderings, and the run directory that it leaves."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from nettune.records import read_records

pytestmark = pytest.mark.lab

ENVELOPE = ["schema", "verb", "status", "exit_code"]
ANY_RUN = {"command", "seed", "created", "version", "run_dir", "seconds", "report"}
FOUND = {"dropped", "findings", "link_rate_gbps"}
STRUCTURE = {
    "hosts", "switches", "links", "links_down", "gpus", "leaves", "rails", "planes", "parts", "tiers", "nvl_domains",
    "oversubscription", "nic_speeds", "trunk_speeds", "hosts_without_cable", "rails_told", "format", "sources", "logical",
    "files",
}  # fmt: skip
PLACED = {
    "job", "files", "refused", "launch", "links", "method", "before", "notes", "cost_us", "bound_us", "gap",
    "max_link_load_bytes", "moves", "orders", "placement",
}  # fmt: skip
KEYS = {
    "discover": {*FOUND, *STRUCTURE, "events", "fabric", "routing"},
    "qualify": {*FOUND, "drains", "files"},
    "place": {*FOUND, *PLACED},
    "place-file": {"link_rate_gbps", *PLACED},
    "bench": {*FOUND, "busbw_bytes", "busbw_gbps", "speedup"},
    "train": {*FOUND, "peak", "train", "mfu_delta_points", "mfu_delta_ci"},
    "sweep": {*FOUND, "peak", "sweep"},
}  # fmt: skip
VERBS = list(KEYS)
LAUNCHER_FILES = {
    "placement.json",
    "slurm.hostfile",
    "slurm.sh",
    "openmpi.hostfile",
    "openmpi.rankfile",
    "openmpi.sh",
    "hydra.hostfile",
    "hydra.sh",
    "torchrun.sh",
    "torchrun-ssh.sh",
    "deepspeed.hostfile",
    "kubernetes-job.yaml",
    "kubernetes-kueue.yaml",
    "kubernetes-positions.json",
    "nccl.env",
}


@pytest.mark.parametrize("verb", VERBS)
def test_json_has_the_promised_keys_and_nothing_else_is_on_stdout(ran, verb):
    """Stdout as a whole is one object: the envelope first, then exactly the keys of the verb; exit 0."""
    done = ran(verb)

    assert done.code == 0, done.stderr
    assert list(done.json)[:4] == ENVELOPE
    assert set(done.json) == {*ENVELOPE, *ANY_RUN, *KEYS[verb]}
    name = verb.split("-", maxsplit=1)[0]
    assert [done.json[key] for key in ENVELOPE[:2]] == [f"nettune.{name}/1", name]
    assert done.json["status"] in {"PASS", "WARN"}
    assert done.json["exit_code"] == 0


@pytest.mark.parametrize("verb", VERBS)
def test_progress_goes_to_stderr_without_control_codes(ran, verb):
    """A log gets one plain line a step, and no warning of a library."""
    lines = ran(verb).stderr.splitlines()

    assert any(line.endswith(" ...") for line in lines)
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if "arning" in line or "rror" in line or line.startswith("[")] == []


@pytest.mark.parametrize("verb", VERBS)
def test_run_directory_is_complete(ran, home, verb):
    """Results, environment and report are there, whole; measurements where something was measured; nothing else."""
    folder = home / ran(verb).json["run_dir"]
    files = {path.name for path in folder.iterdir()}

    expected = {"result.json", "environment.json", "report.html"}
    if verb == "bench":
        expected.add("records.jsonl")
    if verb == "qualify":
        expected |= set(ran(verb).json["files"])
    if verb.startswith("place"):
        assert set(ran(verb).json["files"]) >= LAUNCHER_FILES
        expected |= set(ran(verb).json["files"])
    assert files == expected
    assert json.loads((folder / "environment.json").read_text(encoding="utf-8"))["cores"] > 0
    assert json.loads((folder / "result.json").read_text(encoding="utf-8"))["command"].startswith("nettune ")
    Whole().feed((folder / "report.html").read_text(encoding="utf-8"))


class Whole(html.parser.HTMLParser):
    """Fails on a document that refers to anything outside itself."""

    def handle_starttag(self, tag, attrs):
        outside = [v for k, v in attrs if k in {"src", "href"} and v and not v.startswith(("#", "data:"))]
        assert outside == []


@pytest.mark.parametrize("verb", VERBS)
def test_report_makes_the_same_report_again(ran, home, inside, verb):
    """The run directory is enough: html is the same to the byte, and stdout is its path."""
    folder = ran(verb).json["run_dir"]
    first = (home / folder / "report.html").read_bytes()
    (home / folder / "report.html").unlink()

    again = inside("report", folder)

    assert again.code == 0, again.stderr
    assert again.stdout == f"{folder}/report.html\n"
    assert (home / folder / "report.html").read_bytes() == first


@pytest.mark.parametrize("verb", VERBS)
def test_text_fits_the_terminal(ran, inside, verb):
    """80 columns hold every line, and fitness is claimed only where transfers were made to test it."""
    done = inside("report", ran(verb).json["run_dir"], "--form", "text")

    assert done.code == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert done.stderr == ""
    assert ("the fabric is fit" in done.stdout) == (verb == "qualify")


def test_verbs_text_is_the_reports_with_where_to_find_it(nettune, inside, small):
    """Without --output the same summary is printed, then the paths, which can be copied whole."""
    done = nettune("discover", "--lab", small)
    *summary, _, report, run = done.stdout.splitlines()
    folder = run.split()[1]

    assert done.code == 0, done.stderr
    assert [report.split(), run.split()] == [["report", f"{folder}/report.html"], ["run", folder]]
    assert inside("report", folder, "--form", "text").stdout.splitlines() == summary


@pytest.mark.parametrize(("form", "start"), [("markdown", "# Discovery"), ("text", "Discovery")])
def test_other_forms_of_a_report_are_printed(ran, inside, form, start):
    """Markdown and text go to stdout, and into the JSON envelope."""
    folder = ran("discover").json["run_dir"]
    plain = inside("report", folder, "--form", form)
    wrapped = inside("report", folder, "--form", form, "--output", "json")

    assert plain.code == 0, plain.stderr
    assert plain.stdout.startswith(start)
    assert wrapped.json["form"] == form
    assert wrapped.json["text"] == plain.stdout.rstrip("\n")


def test_picture_of_a_run_is_a_file_of_its_own(ran, inside):
    """An SVG document, whole, whose fonts and colours come from nowhere else."""
    done = inside("report", ran("place").json["run_dir"], "--form", "picture")

    assert done.code == 0, done.stderr
    assert ET.fromstring(done.stdout.encode()).tag == "{http://www.w3.org/2000/svg}svg"
    assert "node20" in done.stdout


def test_report_takes_the_file_of_results_too(ran, inside):
    """The path of result.json names the run as its folder does."""
    folder = ran("discover").json["run_dir"]

    from_file = inside("report", f"{folder}/result.json", "--form", "text")

    assert from_file.stdout == inside("report", folder, "--form", "text").stdout != ""


def test_discover_writes_what_place_reads(ran, home):
    """The file of `-o` has the fabric and its routing; the hosts stand in the order of the cabling."""
    found = ran("discover").json
    written = json.loads((home / "fabric.json").read_text(encoding="utf-8"))

    assert written == {key: found[key] for key in ("fabric", "routing", "link_rate_gbps")}
    assert written["link_rate_gbps"] == pytest.approx(0.2)
    names = written["fabric"]["nodes"]["name"]
    assert [name for name in names if name.startswith("node")] == ["node1", "node10", "node2", "node20"]


def test_qualify_tells_what_passed(ran):
    """The findings name every kind of check that was made."""
    checks = {finding["check"] for finding in ran("qualify").json["findings"]}

    assert {"link-rate", "link-loss", "link-mtu", "link-flap", "host-cpu"} <= checks


def listed(hostfile: Path) -> list[str]:
    lines = hostfile.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_place_beats_depth_first_where_groups_interleave(ran, home):
    """PP x DP: neighbours by rank belong together, so gradient rings stay inside a leaf; all files agree on that."""
    found = ran("place").json
    folder = home / found["run_dir"]

    assert found["cost_us"] < found["orders"]["depth-first"]
    assert found["bound_us"] <= found["cost_us"]
    hosts = listed(folder / "slurm.hostfile")
    assert sorted(hosts) == ["node1", "node10", "node2", "node20"]
    leaf = {"node1": 0, "node10": 0, "node2": 1, "node20": 1}
    assert leaf[hosts[0]] == leaf[hosts[2]] != leaf[hosts[1]] == leaf[hosts[3]]
    script = folder / "torchrun.sh"
    assert "torchrun" in script.read_text(encoding="utf-8")
    assert "--rdzv" not in script.read_text(encoding="utf-8")


def test_place_from_a_file_keeps_off_excluded_hosts(ran, home):
    """No lab is touched, and of four hosts the two that are left are used."""
    found = ran("place-file").json
    hosts = listed(home / found["run_dir"] / "slurm.hostfile")

    assert sorted(hosts) == ["node10", "node20"]


def test_bench_measures_every_order(ran, home):
    """Each order has a median inside its interval, and each repeat of each initialisation is on record."""
    found = ran("bench").json
    records = list(read_records(home / found["run_dir"] / "records.jsonl"))

    assert set(found["busbw_gbps"]) == {"nettune", "lexicographic", "random", "depth-first"}
    for one in found["busbw_gbps"].values():
        assert 0 < one["lo"] <= one["median"] <= one["hi"] < 1
    assert set(found["speedup"]) == {"lexicographic", "random", "depth-first"}
    assert {record.init for record in records} == {0, 1}
    assert found["busbw_bytes"] == 64 << 10


def test_train_reports_the_change_between_two_orders(ran):
    """MFU's change has an interval around it, and FLOPs and peak are named."""
    found = ran("train").json
    lo, hi = found["mfu_delta_ci"]

    assert lo <= found["mfu_delta_points"] <= hi
    assert set(found["train"]["orders"]) == {"random", "nettune"}
    for order in found["train"]["orders"].values():
        assert 0 < order["mfu_percent"]["median"] < 100
        assert order["inits"] == 2
        assert order["flops"]["formula"]
    assert found["peak"]["measured"] is True


def test_sweep_keeps_one_of_the_values_and_says_why(ran):
    """Both values were tried, and the reason stands in the text, too."""
    swept = ran("sweep").json["sweep"]

    assert [trial["value"] for trial in swept["trials"]] == [25.0, 1.0]
    assert swept["kept"] in {25.0, 1.0}
    assert swept["reason"]


def test_gain_is_claimed_only_where_it_is_certain(ran, inside):
    """The verdict says that an order buys MFU when the interval is above zero, and else that none is shown."""
    found = ran("train").json
    text = inside("report", found["run_dir"], "--form", "text").stdout

    assert ("the order of ranks buys" in text) == (found["mfu_delta_ci"][0] > 0)
    assert ("no gain in MFU is shown" in text) == (found["mfu_delta_ci"][0] <= 0)


def test_text_shows_the_result_itself(ran, inside):
    """Place gives its price and its files, sweep the value to keep: nobody has to open the report for them."""
    place, sweep = (
        inside("report", ran(verb).json["run_dir"], "--form", "text").stdout for verb in ("place", "sweep")
    )

    assert f"{ran('place').json['cost_us'] / 1e3:.1f} ms" in place
    assert "torchrun.sh" in place
    assert f"bucket_cap_mib  {ran('sweep').json['sweep']['kept']:g}" in sweep
