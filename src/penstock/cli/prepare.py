"""`penstock prepare`: all that a start needs, before the start."""

from __future__ import annotations

import typer

from penstock.cli.common import readable_errors, say


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Pipelines")(prepare)


def prepare() -> None:
    """Fetch, compile and rehearse all that a pipeline needs to start, so that it starts quickly.

    A start does the first two by itself, where they are not done yet. The rehearsal, about a minute, halves
    the time that Spark takes to come up, also when a pipeline that was killed is started again. For images,
    and for machines on which pipelines are started often.

    Example: penstock prepare
    """
    from penstock.toolchain import ensure_archive, ensure_jars, ensure_java, ensure_kernel

    with readable_errors():
        java = ensure_java(say)
        jars = ensure_jars("spark", say)
        kernel = ensure_kernel(jars, say)
        archive = ensure_archive(say)
        say(f"Java {java.version}, {len(jars)} jars and the kernel are there ({kernel.parents[1]})")
        if archive:
            say(f"Spark's classes are in {archive}")
