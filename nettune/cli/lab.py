"""`nettune lab`: an emulated fabric on this machine, and its faults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nettune.cli.common import Output, OutputOption, finish

if TYPE_CHECKING:
    from nettune.lab import ActiveFault, Lab

app = typer.Typer(
    help="An emulated Clos fabric of network namespaces on this machine, and its faults.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
fault_app = typer.Typer(help="Inject faults into a lab, list and undo them.", no_args_is_help=True)
app.add_typer(fault_app, name="fault")

LabOption = Annotated[
    str | None, typer.Option("--name", "-n", help="the lab; may be left out while a single one is up")
]


@app.command()
def up(
    file: Annotated[
        Path | None,
        typer.Argument(help="lab.toml; without it 4 leaves x 2 hosts and 2 spines", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="name of the lab instead of the file's")
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Bring a lab up."""
    from nettune.lab import Lab, LabSpec, load_spec
    from nettune.lab.spec import make_spec

    spec = LabSpec() if file is None else load_spec(file)
    if name is not None:
        spec = make_spec({**spec.model_dump(), "name": name})
    _finish_labs([Lab.up(spec)], output)


@app.command()
def down(
    name: Annotated[
        str | None, typer.Argument(help="the lab; may be left out while a single one is up")
    ] = None,
    all_labs: Annotated[bool, typer.Option("--all", help="every lab of this user")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Take a lab down and leave nothing behind."""
    from nettune.lab import Lab

    labs = [Lab.load(each) for each in Lab.names()] if all_labs else [_find(name)]
    for lab in labs:
        lab.down()
    names = [lab.name for lab in labs]
    finish(
        "lab",
        output,
        0,
        {"down": names},
        lambda: "\n".join(f"lab {each} is down" for each in names) or "no lab was up",
    )


@app.command()
def status(output: OutputOption = Output.TEXT) -> None:
    """Show the labs that are up, with their faults."""
    from nettune.lab import Lab

    _finish_labs([Lab.load(name) for name in Lab.names()], output)


@app.command(
    name="exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def exec_(
    host: Annotated[str, typer.Argument(help="a host or switch of the lab")],
    command: Annotated[list[str], typer.Argument(help="the command and its arguments")],
    name: LabOption = None,
) -> None:
    """Run a command on a host or switch; its exit code is this one's."""
    from nettune.lab.frame.client import tool_path

    # `exec h3 -- ls -l`: the separator is for this command line, not for the host
    words = command[1:] if command[0] == "--" else command
    # We become nsenter, whose child the command is: what ends us would leave it running.
    ended_with_us = ["setpriv", "--pdeathsig", "TERM", "--", *words]
    argv = _find(name).launcher().argv(host, ended_with_us)
    os.execvpe(argv[0], argv, {**os.environ, "PATH": tool_path()})  # noqa: S606 (built by us, no shell wanted)


@fault_app.command("add")
def fault_add(
    kind: Annotated[str, typer.Argument(help="the kind; see `nettune lab fault kinds`")],
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="KEY=VALUE, repeatable")] = None,
    name: LabOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Inject a fault."""
    from nettune.errors import InputError

    params = {}
    for text in param or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise InputError(f"--param {text!r}: write KEY=VALUE")
        params[key] = value
    _finish_faults([_find(name).faults.apply(kind, **params)], output)


@fault_app.command("undo")
def fault_undo(
    which: Annotated[str, typer.Argument(help="id of the fault, or all")],
    name: LabOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Undo a fault."""
    _finish_faults(_find(name).faults.undo(which), output, prefix="undone: ")


@fault_app.command("list")
def fault_list(name: LabOption = None, output: OutputOption = Output.TEXT) -> None:
    """List the active faults of a lab."""
    _finish_faults(_find(name).faults.active(), output)


@fault_app.command("kinds")
def fault_kinds(output: OutputOption = Output.TEXT) -> None:
    """List the kinds of faults with their parameters and defaults."""
    from nettune.lab.faults.registry import FAULTS

    kinds = [
        {
            "kind": fault.kind,
            "summary": fault.summary,
            "params": [{"name": p.name, "default": p.default, "help": p.help} for p in fault.params],
        }
        for fault in FAULTS.values()
    ]
    lines = []
    for fault in FAULTS.values():
        lines.append(f"{fault.kind:<14} {fault.summary}")
        lines += [f"    {param.name + '=' + param.default:<18} {param.help}" for param in fault.params]
    finish("lab", output, 0, {"kinds": kinds}, lambda: "\n".join(lines))


def _find(name: str | None) -> Lab:
    from nettune.errors import InputError
    from nettune.lab import Lab

    if name is None:
        names = Lab.names()
        if len(names) > 1:
            raise InputError(f"several labs are up ({', '.join(names)}); say which one")
        name = names[0] if names else "lab"
    return Lab.load(name)


def _finish_labs(labs: list[Lab], output: Output) -> None:
    data = {"labs": [_lab_json(lab) for lab in labs]}
    finish("lab", output, 0, data, lambda: "\n".join(map(_lab_text, labs)) or "no lab is up")


def _lab_text(lab: Lab) -> str:
    spec = lab.spec
    line = (
        f"lab {lab.name}: {len(lab.hosts)} hosts ({spec.rails} x {spec.host_rate}), {spec.leaves} leaves, "
        f"{spec.spines} spines ({spec.parallel_uplinks} x {spec.uplink_rate} to each leaf), "
        f"{'rootless' if lab.rootless else 'as root'}, held by process {lab.holder_pid}"
    )
    return "\n".join([line, *(f"  fault {_fault_line(fault)}" for fault in lab.faults.active())])


def _lab_json(lab: Lab) -> dict[str, Any]:
    return {
        "name": lab.name,
        "spec": lab.spec.model_dump(mode="json"),
        "hosts": lab.hosts,
        "switches": lab.switches,
        "links": [list(link) for link in lab.links],
        "rootless": lab.rootless,
        "holder_pid": lab.holder_pid,
        "faults": [_fault_json(fault) for fault in lab.faults.active()],
    }


def _finish_faults(faults: list[ActiveFault], output: Output, prefix: str = "") -> None:
    data = {"faults": [_fault_json(fault) for fault in faults]}
    finish(
        "lab",
        output,
        0,
        data,
        lambda: "\n".join(prefix + _fault_line(fault) for fault in faults) or "no fault is active",
    )


def _fault_line(fault: ActiveFault) -> str:
    return f"{fault.id} {fault.kind}: {fault.what}"


def _fault_json(fault: ActiveFault) -> dict[str, Any]:
    return {
        "id": fault.id,
        "kind": fault.kind,
        "params": dict(fault.params),
        "where": list(fault.where),
        "what": fault.what,
    }
