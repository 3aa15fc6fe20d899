"""The guard against foreign packages named like ours.

nettune installs four top-level packages with everyday names beside `nettune`. A folder of the same name in
the working directory, or another distribution earlier on `sys.path`, would silently replace one of them.
The guard finds this out before any code of the wrong package runs, in well under a millisecond a name.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from nettune.errors import NettuneError

SIBLINGS = ("topology", "collectives", "sweeps", "reports")


def check(home: str | None = None) -> None:
    """Make sure that each sibling package resolves to the one that was installed with this nettune.

    Nothing is imported: a sibling that is loaded already is judged by where it was loaded from, the others
    by where `import` would find them now. A folder without `__init__.py` does no harm as long as our package
    is found after it, since a regular package wins over such a folder; then it is not reported.

    Args:
        home: folder that holds the five packages; by default the one that holds this `nettune`.

    Raises:
        NettuneError: a sibling is missing or is a foreign module; the one line names its path and the way out.
    """
    if home is None:
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in SIBLINGS:
        found = _location(name)
        if found is None:
            raise NettuneError(
                f"nettune's own package `{name}` is missing from {home}: install nettune again"
            )
        if os.path.realpath(found) != os.path.realpath(os.path.join(home, name)):
            raise NettuneError(
                f"`import {name}` gives {found}, which is not part of nettune ({home}): run nettune from another"
                " folder or install it in an environment of its own, and start it by its console script"
                " (with torchrun: `torchrun --no-python nettune ...`)"
            )


def check_on_import() -> None:
    """Run `check()` while `nettune` is being imported.

    When nettune itself is the program, nobody above could catch the error of this import, so that it ends here
    as the command line promises: one line on stderr, exit 2. For any other importer it is an exception.
    """
    try:
        check()
    except NettuneError as error:
        if not _nettune_is_the_program():
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _location(name: str) -> str | None:
    """Return the folder of a package, the file of a plain module, or None if there is nothing importable."""
    loaded = sys.modules.get(name)
    try:
        spec = _spec_of(loaded) if loaded is not None else importlib.util.find_spec(name)
    except ValueError:  # a blocked name: sys.modules[name] is None
        spec = None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    if spec.origin and spec.origin not in {"built-in", "frozen", "namespace"}:
        return os.path.dirname(spec.origin) if folders else spec.origin
    return folders[0] if folders else None


def _spec_of(module: ModuleType) -> ModuleSpec:
    """Describe a loaded module by where its code came from; find_spec would only repeat its own claim."""
    folders = getattr(module, "__path__", None)
    file = getattr(module, "__file__", None)
    if file is None and folders is None:
        file = "a module without a file"
    spec = ModuleSpec(module.__name__, None, origin=file)
    spec.submodule_search_locations = None if folders is None else list(folders)
    return spec


def _nettune_is_the_program() -> bool:
    """Tell whether this process is `nettune ...` or `python -m nettune[.module] ...`."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":  # what runpy leaves in argv until it has found the module
        return any(word.split(".")[0] == "nettune" for word in sys.orig_argv)
    return os.path.basename(program) in {"nettune", "nettune.exe"}
