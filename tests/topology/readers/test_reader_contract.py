"""What holds for every reader, over the examples of all of them.

`NETTUNE_FUZZ=20000` mutates that many inputs over all readers (`make fuzz`) instead of a few hundred small ones each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nettune.errors import InputError
from topology.readers import Source, detect, read, readers

HERE = Path(__file__).parent
CAMPAIGN = int(os.environ.get("NETTUNE_FUZZ", "0"))
MUTANTS = CAMPAIGN // len(readers()) + 1 if CAMPAIGN else 200
SIZE_BYTES = 4 << 20 if CAMPAIGN else 1 << 16
EXAMPLES = sorted((HERE / "examples").iterdir())


def load_fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_readers", HERE / "fuzz_readers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_reader_has_an_example() -> None:
    """Without one, neither detection nor mutations would try it."""
    assert {path.name.split(".")[0] for path in EXAMPLES} == set(readers())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_recognised_by_its_reader_alone(path: Path) -> None:
    """Exactly one reader takes it, whatever the order of the registry; and it reads into a fabric or events."""
    source = Source.open(path)
    assert [reader.name for reader in readers().values() if reader.recognises(source)] == [
        path.name.split(".")[0]
    ]
    said = read(source)
    assert said.format == detect(source).name
    assert said.to_fabric().nodes.name or said.events


def test_a_recorded_file_is_recognised_by_one_reader_at_most(shared: Path) -> None:
    """No real file is claimed twice."""
    claimed = {}
    for path in sorted((shared / "samples").rglob("*")):
        if path.is_file() and path.suffix != ".src":
            try:
                source = Source.open(path)
            except InputError:
                continue
            claimed[path.name] = [reader.name for reader in readers().values() if reader.recognises(source)]
    assert {name: by for name, by in claimed.items() if len(by) > 1} == {}


def test_an_unknown_format_lists_the_known_ones() -> None:
    """Neither a name nor content that no reader knows is guessed at."""
    with pytest.raises(
        InputError, match=r"^x: its format is not recognised; name one with --format: .*lldpcli"
    ):
        read(Source("x", "nothing in particular\n"))
    with pytest.raises(InputError, match=r"^format 'xyz' is not known; known: .*lldpcli"):
        read(Source("x", "nothing in particular\n"), "xyz")


@pytest.fixture(scope="module")
def failures() -> dict[str, list[str]]:
    """Run the mutants of all readers in processes with limits on memory and CPU time; one that ends is begun again."""
    wrong: dict[str, list[str]] = {reader: [] for reader in readers()}
    first, total = 0, MUTANTS * len(readers())
    while first < total:
        first = run_mutants(first, min(total - first, 2000), wrong)
    return wrong


def run_mutants(first: int, count: int, wrong: dict[str, list[str]]) -> int:
    """Run some mutants; returns the first that is still to run."""
    result = subprocess.run(
        [sys.executable, str(HERE / "fuzz_readers.py"), "run", *map(str, (first, count, SIZE_BYTES))],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert told, f"no mutant was run: {result.stderr[-500:]}"
    last = told[-1]
    if result.returncode:
        last |= {"wrong": f"ended with {result.returncode} (-27: over 10 s) {result.stderr[-300:]}"}
    for line in told:
        if "wrong" in line:
            wrong[line["reader"]].append(
                f"show {line['reader']} {line['number']} {SIZE_BYTES}: {line['wrong']}"
            )
    return int(last["position"]) + 1


@pytest.mark.parametrize("reader", readers())
def test_no_input_brings_a_reader_down(failures: dict[str, list[str]], reader: str) -> None:
    """Every mutant is refused with an error that names it, or is a fabric: no other exception, under 10 s and 1 GB."""
    assert failures[reader] == []


def test_a_mutant_can_be_made_again() -> None:
    """The number of a failing mutant is enough to look at it: none depends on those before it."""
    fuzz = load_fuzz()
    numbers = range(200)
    made = {number: fuzz.mutant("eos", number, 1000) for number in numbers}
    assert {number: fuzz.mutant("eos", number, 1000) for number in reversed(numbers)} == made
    assert len(set(made.values())) > 150


def test_the_contract_sees_a_reader_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign exception, an error that the net caught, and one without the input's name are failures."""
    fuzz = load_fuzz()

    def fail_with(error: Exception) -> str:
        def read_badly(source: Source, name: str) -> object:
            raise error

        monkeypatch.setattr(fuzz, "read", read_badly)
        return str(fuzz.what_is_wrong("cabling", b"text"))

    assert "does not name the input" in fail_with(InputError("what"))
    assert "an error of the program" in fail_with(InputError("unexpected content for x", file="in put.x"))
    assert "an error of 2010 characters" in fail_with(InputError("x" * 2000, file="in put.x"))
    with pytest.raises(KeyError):
        fail_with(KeyError("x"))
