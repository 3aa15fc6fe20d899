"""Settings in a job script: export, assignments before a command, srun --export, mpirun -x, docker -e, setenv."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from collectives.nccl.settings import Origin, Setting
from collectives.nccl.shellwords import Word, commands
from collectives.nccl.variables import is_meant_for_nccl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ASSIGNMENT = re.compile(r"([A-Za-z_][\w-]*)(\+?)=(.*)", re.DOTALL | re.ASCII)
_EXPORTERS = {"export", "declare", "typeset", "local", "readonly"}
_TAKE_ASSIGNMENTS = {"env", "sudo", "exec", "time", "nohup", "command"}
_KEYWORDS = {"then", "do", "else", "if", "while", "until", "!", "{"}
_TELLERS = {"echo", "printf", "#"}
_ONE_WORD_OPTIONS = {"-x", "-e", "--env"}  # mpirun -x NAME=VALUE, docker -e NAME=VALUE
_TWO_WORD_OPTIONS = {"-genv", "-env"}  # mpiexec of MPICH: -genv NAME VALUE; of Intel: NAME=VALUE
_LIST_OPTION = "--export"
_SHOUTED = re.compile(r"[A-Z_][A-Z0-9_]*")  # a variable that is passed on, or ALL, NONE, NIL
_NESTED = re.compile(r"\s|;")
_GLUED = re.compile(r"-[xe](NCCL_\w+)=(.*)", re.DOTALL | re.ASCII)  # docker -eNAME=VALUE
_INTO_CONTAINER = re.compile(r"^(?:APPTAINER|SINGULARITY)ENV_")
_PROGRAM = re.compile(r"-\w*c")
"""`-c`, `-lc`: the next word is a program."""
_MOST_NESTED = 3

TAKEN_APART = (
    "--export separates variables by commas: this piece of the list is taken for a variable of its own"
    " (by srun's documentation; not tried)"
)


def script_settings(name: str, text: str) -> list[Setting]:
    """The settings of a job script in its order; a variable that is never exported is LOCAL.

    Args:
        name: of the file.
        text: any shell text.
    """
    return _Script(name).read(text)


class _Script:
    def __init__(self, file: str) -> None:
        self.file = file
        self.settings: list[Setting] = []
        self.variables: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        self.exported: set[str] = set()
        self.all_exported = False

    def read(self, text: str) -> list[Setting]:
        self._run(text, 1, 0)
        return self.settings

    def _run(self, text: str, first_line: int, depth: int) -> None:
        for command in commands(text, self.variables, first_line):
            words = command.words
            if words[0].text.startswith("#"):
                self._directive(words[0])
                continue
            self._command(words)
            if depth == _MOST_NESTED:
                continue
            if command.document is not None and "NCCL" in command.document.text:
                self._document(words, command.document, depth)
            if words[0].text == "eval":
                self._run(" ".join(word.text for word in words[1:]), words[0].line, depth + 1)
            elif words[0].text not in _TELLERS:
                # bash -c "export NCCL_X=1; ..."; srun bash -c '...'
                for before, word in itertools.pairwise(words):
                    program = _PROGRAM.fullmatch(before.text) is not None
                    holds = _NESTED.search(word.text) and not _ASSIGNMENT.match(word.text)
                    if "NCCL" in word.text and (program or holds):
                        self._run(word.text, word.line, depth + 1)

    def _document(self, words: Sequence[Word], document: Word, depth: int) -> None:
        """A here-document: of nccl.conf if it is written there, else taken for a script."""
        if any(word.text.endswith("nccl.conf") for word in words):
            for number, line in enumerate(document.text.split("\n"), document.line):
                name, equals, value = line.partition("=")
                if equals and not line.startswith("#"):
                    self._keep(name, value, Word(line, number, "$" in value), Origin.EXPORT)
        else:
            self._run(document.text, document.line, depth + 1)

    def _directive(self, comment: Word) -> None:
        """`#SBATCH --export=ALL,NCCL_X=1`."""
        if comment.text.startswith("#SBATCH"):
            for command in commands(comment.text[1:], self.variables, comment.line):
                self._options(command.words)

    def _command(self, words: Sequence[Word]) -> None:
        rest = list(words)
        if rest[0].text == "function":
            rest = rest[2:]
        while rest and rest[0].text in _KEYWORDS:
            rest.pop(0)
        before: list[tuple[str, Word, str]] = []
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)):
            word = rest.pop(0)
            before.append(self._assigned(match, word))
        if not rest:
            for name, word, value in before:
                shared = self.all_exported or name in self.exported
                self._set(name, value, word, Origin.EXPORT if shared else Origin.LOCAL)
            return
        for name, word, value in before:
            self._keep(name, value, word, Origin.COMMAND)
        head, following = rest[0].text, rest[1:]
        if head in _EXPORTERS:
            flags = [word.text for word in following if word.text.startswith("-")]
            if head == "export" and any("n" in flag for flag in flags):
                for word in following:
                    self._unset(replace(word, text=word.text.partition("=")[0]))
                return
            self._export(following, shared=head == "export" or any("x" in flag for flag in flags))
        elif head == "unset":
            for word in following:
                self._unset(word)
        elif head == "setenv" and following:
            given = following[1] if len(following) > 1 else Word("", following[0].line)
            self._set(following[0].text, given.text, given, Origin.EXPORT)
        elif head == "set" and following:
            self._flags([word.text for word in following])
        else:
            for place, word in enumerate(rest):
                if word.text.rpartition("/")[2] in _TAKE_ASSIGNMENTS:
                    self._command_assignments(rest[place + 1 :])
            self._options(rest)

    def _assigned(self, match: re.Match[str], word: Word) -> tuple[str, Word, str]:
        """(name, word, value) of an assignment; NAME+=more needs what was there before."""
        name, value = match[1], match[3]
        if match[2]:
            held = self.variables.get(name)
            known = held is not None or name not in self.unknown
            value = f"{held or ''}{value}"
            word = replace(word, expands=word.expands or not known)
        return name, word, value

    def _flags(self, flags: Sequence[str]) -> None:
        for flag, following in itertools.pairwise([*flags, ""]):
            named = flag[1:].endswith("o") and following == "allexport"
            if named or (flag[:1] in {"-", "+"} and "a" in flag[1:]):
                self.all_exported = flag[0] == "-"

    def _export(self, words: Sequence[Word], *, shared: bool) -> None:
        for word in words:
            match = _ASSIGNMENT.fullmatch(word.text)
            if match:
                name, given, value = self._assigned(match, word)
                self._set(name, value, given, Origin.EXPORT if shared else Origin.LOCAL)
            elif shared and not word.text.startswith("-"):
                name = word.text
                self.exported.add(name)
                known = self.variables.get(name)
                if known is not None:
                    self._keep(name, known, word, Origin.EXPORT)
                elif name in self.unknown:
                    self._keep(name, self.unknown[name], replace(word, expands=True), Origin.EXPORT)

    def _command_assignments(self, words: Sequence[Word]) -> None:
        """What follows `env` and its like: assignments, options, and names that -u takes away."""
        following = iter(words)
        for word in following:
            match = _ASSIGNMENT.fullmatch(word.text)
            if match:
                self._keep(match[1], match[3], word, Origin.COMMAND)
            elif word.text in {"-u", "--unset"}:
                taken = next(following, None)
                if taken is not None:
                    self._unset(taken)
            elif word.text in {"-i", "-", "--ignore-environment"}:
                for name in sorted({one.name for one in self.settings}):
                    self._unset(replace(word, text=name))
            elif not word.text.startswith("-"):
                return

    def _options(self, words: Sequence[Word]) -> None:
        """Options of launchers, whichever they are: what they set is told by its name."""
        for word, following, third in _triples(words):
            option, equals, value = word.text.partition("=")
            if option == _LIST_OPTION:
                listed = Word(value, word.line, word.expands) if equals else following
                if listed is not None:
                    self._listed(listed)
            elif option in _ONE_WORD_OPTIONS:
                given = Word(value, word.line, word.expands) if equals else following
                match = _ASSIGNMENT.fullmatch(given.text) if given else None
                if given and match:
                    self._keep(match[1], match[3], given, Origin.COMMAND)
                elif given and given.text in self.variables:
                    self._keep(given.text, self.variables[given.text], given, Origin.COMMAND)
            elif word.text in _TWO_WORD_OPTIONS and following:
                match = _ASSIGNMENT.fullmatch(following.text)
                if match:
                    self._keep(match[1], match[3], following, Origin.COMMAND)
                elif third:
                    self._keep(following.text, third.text, third, Origin.COMMAND)
            elif match := _GLUED.fullmatch(word.text):
                self._keep(match[1], match[2], word, Origin.COMMAND)

    def _listed(self, word: Word) -> None:
        """`ALL,NCCL_X=1,NCCL_IB_HCA=mlx5_0,mlx5_1`: the last piece is lost."""
        before = ""
        for part in word.text.split(","):
            match = _ASSIGNMENT.fullmatch(part)
            if match:
                before = match[1]
                self._keep(before, match[3], word, Origin.COMMAND)
            elif before and is_meant_for_nccl(before) and part and not _SHOUTED.fullmatch(part):
                self._lost(before, part, word)

    def _lost(self, name: str, piece: str, word: Word) -> None:
        self.settings.append(Setting(name, piece, self.file, word.line, Origin.LOST, why=TAKEN_APART))

    def _set(self, name: str, value: str, word: Word, origin: Origin) -> None:
        """An assignment that later expansions see."""
        if word.expands:
            self.variables.pop(name, None)
            self.unknown[name] = value
        else:
            self.variables[name] = value
        if origin is Origin.EXPORT:
            self.exported.add(name)
        self._keep(name, value, word, origin)

    def _keep(self, name: str, value: str, word: Word, origin: Origin) -> None:
        name = _INTO_CONTAINER.sub("", name)
        if is_meant_for_nccl(name):
            self.settings.append(Setting(name, value, self.file, word.line, origin, expands=word.expands))

    def _unset(self, word: Word) -> None:
        self.variables.pop(word.text, None)
        self.exported.discard(word.text)
        if is_meant_for_nccl(word.text):
            self.settings.append(Setting(word.text, "", self.file, word.line, Origin.UNSET))


def _triples(words: Sequence[Word]) -> Iterator[tuple[Word, Word | None, Word | None]]:
    padded = [*words, None, None]
    for index, word in enumerate(words):
        yield word, padded[index + 1], padded[index + 2]
