"""`nettune report`: a run's report again, from the results that it left."""

from __future__ import annotations

from pathlib import Path

from nettune.errors import InputError
from nettune.records import write_atomic
from nettune.workflows.compose import compose
from nettune.workflows.picture import picture
from nettune.workflows.run import read_results
from reports import html, markdown, text


def report_again(path: Path, form: str) -> str:
    """`nettune report`: the text to print; form html writes report.html and gives its path.

    Raises:
        InputError: no run directory, or results that cannot be read.
    """
    source = path / "result.json" if path.is_dir() else path
    if path.is_dir() and not source.exists():
        raise InputError("is missing: the folder is no run, or the run did not finish", source)
    data = read_results(source)
    try:
        if form == "picture":
            return picture(data)
        report = compose(data)
    except InputError as error:
        raise InputError(str(error), source) from error
    if form == "html":
        target = source.with_name("report.html")
        write_atomic(target, html.render(report))
        return str(target)
    return markdown.render(report) if form == "markdown" else text.render(report)
