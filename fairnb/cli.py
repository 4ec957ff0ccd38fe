"""The command line: thin, one line per thing that happens, and no traceback for an expected error."""

from __future__ import annotations

import csv
import io
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
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
replies_app = typer.Typer(
    invoke_without_command=True, rich_markup_mode=None, help="Stored replies: counts, export, import, salvage."
)
app.add_typer(replies_app, name="replies")

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
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which of them; all if none is named.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run also what is unchanged.")] = False,
) -> None:
    """Rebuild every table and chart under figures/, in place."""
    from fairnb import pipeline  # noqa: PLC0415  (each command imports what it needs; help stays fast)
    from fairnb.settings import DEFAULT_EXPERIMENTS  # noqa: PLC0415

    strange = [name for name in names or () if name not in DEFAULT_EXPERIMENTS]
    if strange:
        raise ParameterError(
            f"{strange[0]!r}: not a default experiment; expected {', '.join(DEFAULT_EXPERIMENTS)}, or `fairnb run`"
        )
    for name in DEFAULT_EXPERIMENTS if not names else dict.fromkeys(names):
        typer.echo(f"Experiment {name}")
        outcome = pipeline.reproduce(name, force=force, announce=typer.echo)
        _tell(outcome, paths.figures() / name)


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="An experiment's name, or a TOML file.")],
    parameters: Parameters = None,
    force: Annotated[bool, typer.Option("--force", help="Run also what is unchanged.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be asked.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask again for what failed.")] = False,
) -> None:
    """Run an experiment with your settings, below runs/."""
    from fairnb import pipeline  # noqa: PLC0415
    from fairnb.settings import load_plan  # noqa: PLC0415

    given = _pairs(parameters or [])
    plan = load_plan(experiment)
    typer.echo(f"Experiment {plan.name}: {plan.title}")
    if dry_run:
        for line in pipeline.dry_run(plan, given, retry=retry_failed):
            typer.echo(f"  {line}")
        return
    settings = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    outcome = pipeline.run(
        plan,
        given,
        force=force,
        retry=retry_failed,
        command=shlex.join(["fairnb", "run", experiment, *settings]),
        progress=True,
        announce=typer.echo,
    )
    _tell(outcome, outcome.folder / "figures")


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="The file to write, such as my.toml.")],
) -> None:
    """Write an experiment file for a model of your own."""
    from importlib import resources  # noqa: PLC0415

    if file.suffix != ".toml":
        raise ParameterError(f"{file}: expected a name that ends in .toml, such as my.toml")
    if file.exists():
        raise ParameterError(f"{file}: is there already; expected a new name; nothing was written")
    text = (resources.files("fairnb") / "example.toml").read_text("utf-8")
    paths.write_text(file, text)
    typer.echo(f"{file}: fill in model and base_url, then `fairnb run {file} --dry-run`")


@app.command()
def models(
    base_url: Annotated[str, typer.Argument(help="Such as http://127.0.0.1:11434/v1.")],
    key: Annotated[str, typer.Option("--key-variable", help="Environment variable with the key.")] = "OPENAI_API_KEY",
) -> None:
    """List the models of an OpenAI-compatible server."""
    from fairnb.llm import client  # noqa: PLC0415
    from fairnb.llm.request import put_right  # noqa: PLC0415

    address = put_right(base_url)
    names = client.models(address, os.environ.get(key, ""))
    if names is None:
        raise FairnbError(f"{address}: no list of models came; is the server running, and the key in {key} right?")
    typer.echo(f"{address}: {len(names)} models")
    for name in names:
        typer.echo(f"  {name}")


@app.command("serve-simulated")
def serve_simulated(
    kind: Annotated[str, typer.Option(help="What it recommends: songs or films.")] = "songs",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8801,
    bias: Annotated[str, typer.Option(help="Share spoilt per word, such as female=0.3.")] = "",
    gap: Annotated[str, typer.Option(help="Share unknown per genre, such as jazz=0.8.")] = "",
    noise: Annotated[float, typer.Option(help="Share that changes from asking to asking.")] = 0.0,
    echo: Annotated[float, typer.Option(help="Share that repeats a title of the prompt.")] = 0.0,
    invented: Annotated[float, typer.Option(help="Share of titles that do not exist.")] = 0.0,
    refusals: Annotated[str, typer.Option(help="Share refused per word, such as any=0.1.")] = "",
    form: Annotated[str, typer.Option("--format", help="Form of replies; mixed for any.")] = "numbered",
    delay: Annotated[float, typer.Option(min=0, help="Seconds that an answer takes.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of its taste.")] = 20240502,
) -> None:
    """Serve the simulated recommender, OpenAI-compatible."""
    from fairnb.llm.server import serve  # noqa: PLC0415
    from fairnb.llm.simulated import Dials, bundled  # noqa: PLC0415

    if kind not in ("songs", "films"):
        raise ParameterError(f"kind = {kind!r}: expected songs or films")
    dials = Dials.of(bias=bias, gap=gap, noise=noise, echo=echo, invented=invented, refusals=refusals, format=form)
    try:
        server = serve(bundled(kind, dials, seed), port=port, delay=delay)
    except OSError as error:
        raise FairnbError(f"port {port}: cannot be used ({error.strerror}); name another one with --port") from None
    with server:
        typer.echo(f"simulated: serving {kind} at {server.base_url} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    typer.echo(f"simulated: answered {server.calls:,} questions")


Stored = Annotated[Path | None, typer.Option("--store", help="The store; runs/replies.sqlite if not given.")]


@replies_app.callback()
def replies_counts(context: typer.Context, store: Stored = None) -> None:
    """Count stored replies by model and status."""
    if context.invoked_subcommand is not None:
        return
    from fairnb.llm.store import ANSWERS, Store  # noqa: PLC0415

    file = _store(store, there=True)
    with Store(file) as opened:
        counts = opened.counts()
    typer.echo(f"{paths.shown(file)}: {sum(row[-1] for row in counts):,} replies")
    for model, base_url, status, count in counts:
        failed = "" if status in ANSWERS else "  (failed)"
        typer.echo(f"  {model} at {base_url}: {status.replace('_', ' ')} {count:,}{failed}")


@replies_app.command("export")
def replies_export(
    file: Annotated[Path, typer.Argument(help="The file to write, such as replies.jsonl.")],
    model: Annotated[str, typer.Option(help="Of this model only.")] = "",
    store: Stored = None,
) -> None:
    """Write stored replies as JSON lines, for sharing."""
    from fairnb.llm.store import Store, export  # noqa: PLC0415

    if file.suffix != ".jsonl":
        raise ParameterError(f"{file}: expected a name that ends in .jsonl, such as replies.jsonl")
    if file.exists():
        raise ParameterError(f"{file}: is there already; expected a new name; nothing was written")
    with Store(_store(store, there=True)) as opened:
        known = sorted({row[0] for row in opened.counts()})
        if model and model not in known:
            raise ParameterError(f"model = {model!r}: no reply of it; expected one of {', '.join(known) or 'none'}")
        number = export(opened, file, model)
    typer.echo(f"{file}: {number:,} replies")


@replies_app.command("import")
def replies_import(
    file: Annotated[Path, typer.Argument(help="A file that `fairnb replies export` wrote.")],
    store: Stored = None,
) -> None:
    """Add exported replies to a store; answers there stay."""
    from fairnb.llm.store import Store, read_lines  # noqa: PLC0415

    replies = read_lines(file)
    target = _store(store, there=False)
    with Store(target) as opened:
        new_ones = opened.add(replies)
    typer.echo(f"{paths.shown(target)}: {new_ones:,} added, {len(replies) - new_ones:,} there already")


@replies_app.command("salvage")
def replies_salvage(
    file: Annotated[Path, typer.Argument(help="A damaged store.")],
    to: Annotated[Path, typer.Argument(help="The file to write, such as salvaged.jsonl.")],
) -> None:
    """Write what can be read of a damaged store."""
    from fairnb.llm.store import salvage  # noqa: PLC0415

    good, lost = salvage(_store(file, there=True), to)
    typer.echo(f"{to}: {good:,} replies; {lost:,} could not be read; `fairnb replies import {to}` takes them up")


def _store(named: Path | None, *, there: bool) -> Path:
    file = named or paths.runs() / "replies.sqlite"
    if there and not file.is_file():
        raise DataError(f"{paths.shown(file)}: no such file; a run that asks a model writes it")
    return file


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
            value = plan.parameters.get(parameter.name, parameter.default)
            typer.echo(f"  -p {parameter.name:<15} {value!r:<10} {parameter.help}")


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


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(help="A table of group means, typed as CSV.")],
    role: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=COLUMN", help="Such as group1=Max; repeatable.")
    ] = None,
    block: Annotated[str, typer.Option(metavar="COLUMNS", help="Split rows by these, such as attribute,notion.")] = "",
    total: Annotated[int | None, typer.Option(min=4, help="Users of both groups together.")] = None,
    unit: Annotated[int | None, typer.Option(min=1, help="3 for HitRate@3; 1 to 10 if not given.")] = None,
    largest: Annotated[int, typer.Option(min=2, max=2000, help="Largest group to try.")] = 200,
    bound: Annotated[float, typer.Option(help="Largest size of a user's value.")] = 1.0,
    table: Annotated[Path | None, typer.Option("--csv", help="Write the checks to this file, too.")] = None,
) -> None:
    """Check a printed table of group means, from print alone."""
    import textwrap  # noqa: PLC0415

    from fairnb.audit import printed, report  # noqa: PLC0415

    strange = next((text for text in role or () if not all(text.partition("="))), None)
    if strange is not None:
        raise ParameterError(f"--role {strange}: expected a role and a column, as in --role group1=Max")
    roles = {name.strip(): column.strip() for name, _, column in (text.partition("=") for text in role or ())}
    if len(roles) < len(role or ()):
        raise ParameterError("--role: a role is given twice; expected once")
    columns = [name.strip() for name in block.split(",") if name.strip()]
    checks = report.report(
        printed.read(file, roles), total=total, unit=unit, largest=largest, bound=bound, block=columns
    )
    for check in checks:
        typer.echo(f"{check.name}: {check.question}")
        for text in (*check.result.replace(". ", ".\n").split("\n"), check.consequence):
            typer.echo(textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    ", break_long_words=False))
    if table is not None:
        names = ["name", "question", "method", "result", "consequence"]
        written = io.StringIO(newline="")
        csv.writer(written, lineterminator="\n").writerows(
            [names, *([getattr(check, name) for name in names] for check in checks)]
        )
        paths.write_text(table, written.getvalue())
        typer.echo(f"{table}: {len(checks)} checks")


@data_app.command("list")
def data_list() -> None:
    """List data sets: size, terms, whether they are here."""
    from fairnb.datasets.cards import CARDS, folder_of  # noqa: PLC0415

    for card in CARDS.values():
        typer.echo(f"{card.name}: {card.title}")
        typer.echo(f"  {card.size}; {card.terms}")
        if not card.folder:
            typer.echo("  -p dataset own -p data_folder FOLDER, with interactions.csv, users.csv and items.csv")
            continue
        folder = folder_of(card.name)
        here = folder.is_dir() and any(folder.iterdir())
        what = "here" if here else f"not here: `fairnb data get {card.name}` downloads it"
        typer.echo(f"  {paths.shown(folder)}: {what}")


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A data set, such as ml1m, or fairevalllm.")],
    to: Annotated[Path | None, typer.Option(help="Folder; below data/external if not given.")] = None,
    mirror: Annotated[str | None, typer.Option(help="Another base address (https) with the same files.")] = None,
    local: Annotated[Path | None, typer.Option(help="Your own download instead: an archive, or a folder.")] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Take what has no published checksum, or another one.")
    ] = False,
) -> None:
    """Show size and terms, download or take over, check."""
    from fairnb.datasets import fetch  # noqa: PLC0415

    source = _source(name)
    fetch.get(
        source,
        to or paths.external() / source,
        base_url=mirror,
        local=local,
        unchecked=unchecked,
        announce=typer.echo,
        progress=sys.stderr.isatty(),
    )


@data_app.command("check")
def data_check(
    name: Annotated[str, typer.Argument(help="A data set, such as ml1m, or fairevalllm.")],
    folder: Annotated[Path | None, typer.Argument(help="Folder; the one `get` writes to if not given.")] = None,
    most: Annotated[int, typer.Option("--most", min=0, help="Remarks to show.")] = 20,
) -> None:
    """Compare files with published checksums; read, count."""
    from fairnb.datasets import fetch  # noqa: PLC0415
    from fairnb.datasets.cards import CARDS, folder_of  # noqa: PLC0415

    faulty = 0
    if name not in {*CARDS, *fetch.SOURCES}:
        raise ParameterError(f"{name!r}: no such data set; expected one of {', '.join([*CARDS, 'fairevalllm'])}")
    if name == "own" and folder is None:
        raise ParameterError("own: expected the folder of your files, as in `fairnb data check own FOLDER`")
    if name not in CARDS or CARDS[name].source:
        source = _source(name)
        results = fetch.check(source, folder or paths.external() / source)
        for path, status in results:
            typer.echo(f"{status:<20} {path}")
        faulty = sum(not status.startswith("ok") for _, status in results)
        if faulty:
            remedy = f"`fairnb data get {name}` downloads them"
            typer.echo(f"fairnb: {faulty} of {len(results)} files are not as published; {remedy}", err=True)
    if name in CARDS and folder_of(name, folder).is_dir():
        _tell_data(name, folder, most)
    if faulty:
        raise typer.Exit(1)


@data_app.command("make-sample")
def data_make_sample(
    to: Annotated[Path, typer.Argument(help="Folder to write to.")],
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed makes other users.")] = None,
) -> None:
    """Make the bundled synthetic sample, or another one."""
    from fairnb.datasets import sample  # noqa: PLC0415
    from fairnb.seeds import ROOT_SEED  # noqa: PLC0415

    for path, content in sample.build(ROOT_SEED if seed is None else seed).items():
        paths.write_bytes(to / path, content)
        typer.echo(f"{to / path}: {len(content):,} bytes")


@app.command()
def template(
    name: Annotated[str, typer.Argument(help="fairnb-1, released-lastfm, or your own TOML file.")] = "fairnb-1",
    kind: Annotated[str, typer.Option(help="What the items are: songs or films.")] = "",
    k: Annotated[int, typer.Option(min=1, help="Items to ask for.")] = 3,
) -> None:
    """Check a wording of prompts, and show it."""
    from fairnb import prompts  # noqa: PLC0415

    wording = prompts.load_template(name, kind)
    typer.echo(f"Template {wording.version}\nSystem message: {wording.system}")
    for heading, text in prompts.preview(wording, k).items():
        typer.echo(f"\n--- {heading}\n{text}")


def _source(name: str) -> str:
    """Return the source that a data set is downloaded from."""
    from fairnb.datasets.cards import CARDS  # noqa: PLC0415
    from fairnb.datasets.fetch import SOURCES  # noqa: PLC0415

    if name in SOURCES:
        return name
    downloads = [card.name for card in CARDS.values() if card.source]
    if name not in CARDS:
        raise ParameterError(f"{name!r}: no such data set; expected one of {', '.join([*downloads, 'fairevalllm'])}")
    if not CARDS[name].source:
        raise ParameterError(f"{name}: nothing to download; expected one of {', '.join(downloads)}")
    return CARDS[name].source


def _tell_data(name: str, folder: Path | None, most: int) -> None:
    from fairnb.datasets.loading import open_raw  # noqa: PLC0415

    raw = open_raw(name, folder)
    counts = raw.activity
    users = raw.users
    lacking = ", ".join(
        f"{column} {users[column].isna().sum():,}" for column in ("gender", "age") if column in users.columns
    )
    active = f"{int((counts > 0).sum()):,} with interactions"
    typer.echo(f"{raw.card.title}: {len(users):,} users ({active}; missing: {lacking})")
    typer.echo(f"{int(counts.sum()):,} interactions, {counts[counts > 0].min():,} to {counts.max():,} per user")
    for facts in raw.facts:
        typer.echo(
            f"{facts.file}: {facts.lines_in:,} lines in, {facts.rows_out:,} rows out, "
            f"{facts.rejected:,} rejected ({facts.encoding})"
        )
    for remark in raw.remarks.head(most).itertuples():
        typer.echo(f"  {remark.file}, line {remark.line}: {remark.reason}{' (kept)' if remark.kept else ''}")
    if len(raw.remarks) > most:
        typer.echo(f"  and {len(raw.remarks) - most:,} more; --most {len(raw.remarks)} shows all")


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


def _warn(message: Warning | str, *_: object) -> None:
    sys.stderr.write(f"fairnb: {' '.join(str(message).split())}\n")


def main() -> None:
    """Run the command line; an expected error is one line on standard error and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without δ gets \u03b4, not a traceback
    warnings.showwarning = _warn  # type: ignore[assignment]
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
