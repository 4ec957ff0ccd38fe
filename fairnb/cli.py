"""The command line: thin, one line per thing that happens, and no traceback for an expected error."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairnb import __version__, paths
from fairnb.errors import DataError, FairnbError, ParameterError

if TYPE_CHECKING:
    from fairnb.pipeline import Outcome

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Rebuild, rerun and question two papers on the fairness of LLM recommenders.",
)
data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Data sets: download, check, import.")
app.add_typer(data_app, name="data")

# What typer makes of Ctrl-C.
INTERRUPTED = 130

Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set a parameter; repeatable.")
]


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairnb {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: _version(wanted=value), is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def reproduce(
    force: Annotated[bool, typer.Option("--force", help="Run also what is unchanged.")] = False,
) -> None:
    """Rebuild every table and chart under figures/, in place."""
    from fairnb import pipeline  # noqa: PLC0415  (each command imports what it needs; help stays fast)
    from fairnb.settings import DEFAULT_EXPERIMENTS  # noqa: PLC0415

    for name in DEFAULT_EXPERIMENTS:
        typer.echo(f"Experiment {name}")
        outcome = pipeline.reproduce(name, force=force, announce=typer.echo)
        _tell(outcome, paths.figures() / name)


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="An experiment's name, or a TOML file.")],
    parameters: Parameters = None,
    force: Annotated[bool, typer.Option("--force", help="Run also what is unchanged.")] = False,
) -> None:
    """Run an experiment with your settings, below runs/."""
    from fairnb import pipeline  # noqa: PLC0415
    from fairnb.settings import load_plan  # noqa: PLC0415

    given = _pairs(parameters or [])
    plan = load_plan(experiment)
    typer.echo(f"Experiment {plan.name}: {plan.title}")
    outcome = pipeline.run(plan, given, force=force, announce=typer.echo)
    _tell(outcome, outcome.folder / "figures")


@app.command("list")
def list_experiments() -> None:
    """List experiments, their notebooks and parameters."""
    from fairnb.notebook import read_cell  # noqa: PLC0415
    from fairnb.settings import load_plan, plans  # noqa: PLC0415

    for name in plans():
        plan = load_plan(name)
        typer.echo(f"{plan.name}: {plan.title}")
        typer.echo(f"  notebooks: {', '.join(sorted(plan.notebooks))}")
        cells = [read_cell(paths.notebooks() / f"{notebook}.ipynb") for notebook in sorted(plan.notebooks)]
        for parameter in {name: parameter for cell in cells for name, parameter in cell.items()}.values():
            typer.echo(f"  -p {parameter.name:<15} {parameter.default!r:<10} {parameter.help}")


@app.command()
def doctor() -> None:
    """Check this machine and checkout; say what to do."""
    from fairnb.doctor import examine  # noqa: PLC0415

    ill = 0
    for finding in examine():
        typer.echo(f"{'ok ' if finding.good else 'NOT'}  {finding.check}: {finding.found}")
        if not finding.good:
            ill += 1
            typer.echo(f"     -> {finding.remedy}")
    typer.echo("All is well." if not ill else f"{ill} to mend.")
    if ill:
        raise typer.Exit(1)


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A source, such as fairevalllm.")],
    to: Annotated[Path | None, typer.Option(help="Folder; data/external/NAME if not given.")] = None,
    mirror: Annotated[str | None, typer.Option(help="Another base address (https) with the same files.")] = None,
) -> None:
    """Show size and licence, download, and check."""
    from fairnb.datasets import fetch  # noqa: PLC0415

    fetch.get(name, to or paths.external() / name, base_url=mirror, announce=typer.echo, progress=sys.stderr.isatty())


@data_app.command("check")
def data_check(
    name: Annotated[str, typer.Argument(help="A source, such as fairevalllm.")],
    folder: Annotated[Path | None, typer.Argument(help="Folder; data/external/NAME if not given.")] = None,
) -> None:
    """Compare a source's files with their published SHA-256."""
    from fairnb.datasets import fetch  # noqa: PLC0415

    results = fetch.check(name, folder or paths.external() / name)
    for path, status in results:
        typer.echo(f"{status:<12} {path}")
    faulty = sum(status != "ok" for _, status in results)
    if faulty:
        remedy = f"`fairnb data get {name}` downloads them"
        typer.echo(f"fairnb: {faulty} of {len(results)} files are not as published; {remedy}", err=True)
        raise typer.Exit(1)


@data_app.command("import-released")
def data_import_released(
    folder: Annotated[Path, typer.Argument(help="The released files: a folder with data/ and results/ in it.")],
    to: Annotated[Path | None, typer.Option(help="Where the tables go; data/released if not given.")] = None,
) -> None:
    """Compute the benefit tables from the released files."""
    from fairnb import released  # noqa: PLC0415
    from fairnb.datasets import fetch  # noqa: PLC0415

    target = to or paths.released()
    other = [f"{path} ({status})" for path, status in fetch.check("fairevalllm", folder) if status != "ok"]
    if other and to is None and (folder / "results").is_dir():
        raise DataError(
            f"{folder}: not the published files: {', '.join(other)}; expected them for data/released; "
            f"name another folder with --to, or download them again with `fairnb data get fairevalllm`"
        )
    done = released.import_released(folder, target)
    for name in other:
        typer.echo(f"not the published file: {name}", err=True)
    for name, rows in done.written.items():
        typer.echo(f"{paths.shown(target / name)}: {rows:,} rows")
    for dataset, conditions in done.absent.items():
        for condition in conditions:
            typer.echo(f"{dataset}: the file has no column for {condition}")
    for dataset, cells in done.unread.items():
        typer.echo(f"{dataset}: {len(cells)} cells could not be read")
        for cell in cells:
            typer.echo(f"  {cell}")


def _tell(outcome: Outcome, figures: Path) -> None:
    counts = f"{len(outcome.ran)} ran, {len(outcome.unchanged)} unchanged"
    typer.echo(f"Notebooks: {counts}, {outcome.seconds:.1f} s. Exhibits: {paths.shown(figures)}/")
    agreement = figures / "agreement.csv"
    if agreement.is_file():
        with agreement.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                typer.echo(line["statement"])


def _pairs(parameters: Sequence[str]) -> dict[str, object]:
    given: dict[str, object] = {}
    for text in parameters:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ParameterError(f"-p {text}: expected a name and a value, as in -p protocol paper")
        if name in given:
            raise ParameterError(f"-p {name}: given twice; expected once")
        given[name] = value
    return given


def join_pairs(arguments: Sequence[str]) -> list[str]:
    """Turn papermill's ``-p name value`` into ``-p name=value``, which typer can read."""
    joined: list[str] = []
    rest = list(arguments)
    while rest:
        first = rest.pop(0)
        joined.append(first)
        if first in {"-p", "--parameter"} and rest:
            name = rest.pop(0)
            if "=" not in name and rest:
                name = f"{name}={rest.pop(0)}"
            joined.append(name)
    return joined


def main() -> None:
    """Run the command line; an expected error is one line on standard error and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without δ gets \u03b4, not a traceback
    try:
        app(args=join_pairs(sys.argv[1:]), prog_name="fairnb")
    except FairnbError as error:
        sys.stderr.write(f"fairnb: {' '.join(str(error).split())}\n")
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            sys.stderr.write("fairnb: interrupted; what is finished is kept, the same command goes on from there\n")
        raise


if __name__ == "__main__":
    main()
