"""Mutated inputs for the readers, and what must hold for each; run by test_reader_contract.py under limits.

    python tests/topology/readers/fuzz_readers.py run FIRST COUNT SIZE        mutants of all readers in turn
    python tests/topology/readers/fuzz_readers.py show READER NUMBER SIZE     one mutant, to standard output

A mutant is a function of (reader, number, size): any failure can be looked at again.
"""

from __future__ import annotations

import json
import random
import re
import resource
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from nettune.errors import InputError
from topology.readers import Source, read, readers

EXAMPLES = Path(__file__).parent / "examples"
CPU_S = 10
MEMORY_BYTES = 1 << 30
LONGEST_ERROR = 1000

Mutation = Callable[[str, random.Random, int], str]

NUMBERS = [
    "-1",
    "0",
    "1",
    "1.5",
    "1e308",
    "1e999",
    "NaN",
    "-Infinity",
    "9" * 19,
    "9" * 25,
    "9" * 400,
    "9" * 5000,
]
NUMBERS += ["0x" + "f" * 40, "00000000000000000007", "", "2147483648", "-9223372036854775809", "٣", "1_000"]
WORDS = [
    "null",
    "true",
    "[]",
    "{}",
    '""',
    '"\\ud800"',
    "--",
    ":",
    "/",
    " ",
    "{{ x }}",
    "{% if %}",
    "é",
    "\u2028",
    "\x85",
]
WORDS += [
    "%s",
    "&lt;",
    "&#x110000;",
    "\\",
    "\t",
    "'",
    '"',
    "<",
    ">",
    "[0-99999999]",
    "a[1-3,",
    "!!python/x",
    "*a",
    "&a",
    "\r",
]
DEEP = ["[", "{", '{"a":', "(", "<a>", "- ", "  ", "[[", "node[1-2]", "{a: "]
ENTITIES = "".join(f'<!ENTITY {b} "{f"&{a};" * 8}">' for a, b in pairwise("abcdefgh"))
ALIASES = "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 8)}]\n" for a, b in pairwise("abcdefgh"))
BOMBS = [
    f'<!DOCTYPE x [<!ENTITY a "ha">{ENTITIES}]><x name="&h;">&h;</x>\n',
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>\n',
    f"a: &a [x,x,x,x,x,x,x,x]\n{ALIASES}",
    "NodeName=n[0-9999][0-9999][0-9999] Nodes=n[0-9999][0-9999][0-9999]\n",
]


def cut(text: str, draw: random.Random, _: int) -> str:
    """Keep the beginning, the end, or both without a middle."""
    first, second = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    return draw.choice([text[:first], text[second:], text[:first] + text[second:]])


def repeated(text: str, draw: random.Random, size: int) -> str:
    """Some lines many times."""
    lines = text.split("\n")
    first = draw.randrange(len(lines))
    block = lines[first : first + draw.choice([1, 1, 2, 5, 50])]
    times = draw.choice([1, 2, 20, 2000])
    times = max(1, min(times, size // (1 + sum(map(len, block)))))
    return "\n".join([*lines[:first], *block * times, *lines[first:]])


def shuffled(text: str, draw: random.Random, _: int) -> str:
    """Lines in another order, all or a few neighbours."""
    lines = text.split("\n")
    first = draw.choice([0, draw.randrange(len(lines))])
    part = lines[first : first + draw.choice([3, 10, len(lines)])]
    draw.shuffle(part)
    return "\n".join([*lines[:first], *part, *lines[first + len(part) :]])


def deleted(text: str, draw: random.Random, _: int) -> str:
    """Some lines fewer."""
    share = draw.choice([0.02, 0.1, 0.5, 0.9])
    return "\n".join(line for line in text.split("\n") if draw.random() > share)


def binary(text: str, draw: random.Random, _: int) -> str:
    """Any bytes in place of some; they are written as they are, also where they are no UTF-8."""
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(draw.choice([1, 3, 30])):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(1, 256) if draw.random() < 0.97 else 0
    return data.decode("utf-8", "surrogateescape")


def huge_line(text: str, draw: random.Random, size: int) -> str:
    """One very long line: many characters at one place, or no line ends at all."""
    if draw.random() < 0.3:
        return text.replace("\n", draw.choice(["", " ", "\t"]))
    at = draw.randrange(len(text) + 1)
    piece: str = draw.choice(
        [*"a0 \t\"'[]{}<>=,:;-#\\&()|", text[at : at + draw.randrange(1, 40)] or "x", "a=1 ", "n[1-9],"]
    )
    return text[:at] + piece * (size // len(piece)) + text[at:]


def nested(text: str, draw: random.Random, size: int) -> str:
    """Many opening brackets, with or without the closing ones."""
    at = draw.choice([0, draw.randrange(len(text) + 1)])
    opening = draw.choice(DEEP)
    depth = min(draw.choice([10, 150, 900, 1100, 5000, 200_000]), size // len(opening))
    closing = {"[": "]", "{": "}", '{"a":': "}", "(": ")", "<a>": "</a>", "[[": "]]"}.get(opening, "")
    return text[:at] + opening * depth + draw.choice(["", "1", text[at:]]) + closing * depth + text[at:]


def bomb(text: str, draw: random.Random, _: int) -> str:
    """Entities, aliases or ranges that multiply."""
    lines = text.split("\n")
    lines.insert(draw.choice([0, 0, 1, draw.randrange(len(lines) + 1)]), draw.choice(BOMBS))
    return "\n".join(lines)


def numbers(text: str, draw: random.Random, _: int) -> str:
    """Huge, odd or no numbers in place of some, or of all."""
    share = draw.choice([0.01, 0.1, 1.0])
    number = draw.choice(NUMBERS)
    return re.sub(r"\d+", lambda match: number if draw.random() < share else match[0], text)


def words(text: str, draw: random.Random, _: int) -> str:
    """Other words of the text, or special ones, in place of some."""
    parts = re.split(r"(\w+|\s+)", text)
    for _ in range(draw.choice([1, 3, 20])):
        parts[draw.randrange(len(parts))] = draw.choice([*WORDS, draw.choice(parts), ""])
    return "".join(parts)


def characters(text: str, draw: random.Random, _: int) -> str:
    """A kind of character gone or another one: quotes, brackets, blanks, line ends."""
    old = draw.choice("\"'[]{}<>=,:\n\t #|()-.")
    new = draw.choice(["", old * 2, *"\"'[]{}<>=,: \n\t"])
    return text.replace(old, new, draw.choice([1, 5, -1]))


def foreign(text: str, draw: random.Random, _: int) -> str:
    """The beginning of one input and the end of another reader's."""
    other = draw.choice(sorted(EXAMPLES.iterdir())).read_text(encoding="utf-8")
    return text[: draw.randrange(len(text) + 1)] + other[draw.randrange(len(other) + 1) :]


# As JSON text: a mutable value that is put into several mutants would carry changes from one to the next.
VALUES = [
    "null",
    "true",
    "[]",
    "{}",
    '""',
    '"x"',
    "0",
    "-1",
    "3.5",
    "1e300",
    "1000000000000000000",
    '"\\ud800"',
]
VALUES += ['"a b"', '"--"', "[[]]", "[null]", '{"": null}', '"n[1-3]"']


def values(text: str, draw: random.Random, size: int) -> str:
    """JSON that is still JSON: values of other types, keys and items missing, moved or many times."""
    decoder, documents, position = json.JSONDecoder(), [], 0
    if len(text) > 200_000:  # the limit on memory is the reader's, not for this
        return words(text, draw, size)
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            documents.append(value)
            position += len(text[position:]) - len(text[position:].lstrip())
    except (ValueError, RecursionError):
        return words(text, draw, size)
    for _ in range(draw.choice([1, 1, 3, 10])):
        places: list[Any] = []
        stack: list[Any] = [documents]
        while stack and len(places) < 50_000:
            holder = stack.pop()
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            places += [(holder, key) for key in keys]
            stack += [holder[key] for key in keys if isinstance(holder[key], (dict, list))]
        if not 0 < len(places) < 50_000:
            break
        holder, key = draw.choice(places)
        other, other_key = draw.choice(places)
        action = draw.randrange(5)
        if action == 0:
            del holder[key]
        elif action == 1:
            holder[key] = json.loads(draw.choice(VALUES))
        elif action == 2:
            holder[key] = json.loads(json.dumps(other[other_key]))
        elif action == 3 and isinstance(holder, list):
            holder[key:key] = [holder[key]] * min(draw.choice([1, 100, 20_000]), size // 200)
        elif isinstance(holder, dict):
            holder[str(draw.choice(places)[1])] = holder.pop(key)
    return "\n".join(map(json.dumps, documents))


def empty(text: str, draw: random.Random, _: int) -> str:
    """Nothing, or next to nothing."""
    return draw.choice(
        ["", " \n\t\n", "\ufeff", "\n" * 1000, text[:1], "#", "0", "null", '""', "[]", "{}", "<a/>"]
    )


MUTATIONS: list[Mutation] = [
    cut,
    repeated,
    shuffled,
    deleted,
    binary,
    huge_line,
    nested,
    bomb,
    numbers,
    words,
    characters,
]
MUTATIONS += [numbers, words, foreign, empty, values, values, values]


def examples(reader: str) -> list[Path]:
    """The example files of a reader."""
    return sorted(path for path in EXAMPLES.iterdir() if path.name.split(".")[0] == reader)


def mutant(reader: str, number: int, size: int) -> bytes:
    """One mutated input of up to about `size` bytes more than the example; 1 to 3 mutations one after the other."""
    draw = random.Random(f"{reader} {number}")
    text = draw.choice(examples(reader)).read_text(encoding="utf-8")
    for _ in range(draw.choice([1, 1, 2, 3])):
        text = draw.choice(MUTATIONS)(text, draw, int(size ** draw.uniform(0.5, 1)))[: 4 * size]
    return text.encode("utf-8", "surrogateescape") if number % 50 else text.encode("utf-16", "replace")


def what_is_wrong(reader: str, data: bytes) -> str:
    """Hand data to a reader; empty where the contract holds: an error about this input, or a `Said` that is a `Fabric`."""
    name = "in put.x"
    try:
        source = Source.of_bytes(name, data)
        for other in readers().values():
            other.recognises(source)
        said = read(source, reader)
    except InputError as error:
        text = str(error)
        if not text.startswith(f"{name}:"):
            return f"the error does not name the input: {text[:200]}"
        if "unexpected content for" in text:
            return f"an error of the program, not about the input: {text[:200]}"
        return f"an error of {len(text)} characters" if len(text) > LONGEST_ERROR else ""
    fabric = said.to_fabric()
    json.dumps(fabric.to_json(), allow_nan=False)
    for texts in (
        fabric.nodes.name,
        fabric.ports.name,
        fabric.ports.address,
        fabric.ports.guid,
        fabric.nodes.guid,
    ):
        "".join(texts).encode()
    for count, element in (
        (len(fabric.nodes.name), fabric.node_element),
        (len(fabric.ports.name), fabric.port_element),
        (len(fabric.links.port_a), fabric.link_element),
    ):
        for row in range(0, count, 1 + count // 500):
            element(row)
    for finding in said.findings[:500]:
        json.dumps(finding.to_json(), allow_nan=False)
    return ""


def run(first: int, count: int, size: int) -> None:
    """Mutants of all readers in turn, `first` to `first + count`: a line before each, one for each failure.

    Memory and the CPU time of each are limited.
    """
    names = list(readers())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for position in range(first, first + count):
        number, place = divmod(position, len(names))
        data = mutant(names[place], number, size)
        told = {"position": position, "reader": names[place], "number": number}
        print(json.dumps(told), flush=True)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # ends the process, also inside a C loop
        try:
            wrong = what_is_wrong(names[place], data)
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is a failure of the reader)
            wrong = f"{type(error).__name__}: {str(error)[:200]}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        if wrong:
            print(json.dumps(told | {"wrong": wrong}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*map(int, sys.argv[2:]))
    else:
        sys.stdout.buffer.write(mutant(sys.argv[2], *map(int, sys.argv[3:])))
