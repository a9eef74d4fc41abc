"""docs/tuning.md, made from the settings, so that it cannot differ from them.

python -m penstock.tuning.document > docs/tuning.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from penstock.tuning.settings import Area, Setting, areas, settings

_HEAD = """\
# Settings

Every setting that Penstock gives to Kafka, Spark, the JVMs and the stores, what it would be otherwise, and
why. The file `src/penstock/tuning/settings.toml` is the only place that has the values, and this page is made
from it (`python -m penstock.tuning.document > docs/tuning.md`).

```sh
penstock explain                        # all of them
penstock explain state                  # those of one area
penstock explain producer.linger.ms     # one: default, ours, why, what it was measured to do, and by what
```

A few repeat the default on purpose: something rests on it. Figures come from one virtual machine with 2
shared cores; compare them with each other, not with another machine. "Not measured" stands where there is no
figure.

## Without them

For an experiment, single settings or all of them can be given back to their systems:

```sh
PENSTOCK_UNTUNED='producer.linger.ms' penstock produce clickstream --rate 20k/s --seconds 60
PENSTOCK_UNTUNED='state.*, jvm.*' penstock run clickstream --seconds 60
PENSTOCK_UNTUNED='*' penstock demo --seconds 60
```

A name is an id of the tables below (area, a dot, name); `*` stands for anything. One that is turned back is
not given to its system at all. An unknown name stops every command, with the nearest known one. Settings in
**bold** are about correctness: another value would lose, double or misjudge records, so they stay even with
`*`, and cannot be named. Every command says how many are turned back, and the journal of a run which. The
services that `penstock up` started go on with what they were started with.

What depends on the spec or the machine has a rule instead of a value; [plan.md](plan.md) helps with those.

`penstock bench baseline` measures all of them at once, together with engine, partitions and batches: the
shipped pipelines against themselves with defaults everywhere. `penstock bench settings` measures them one by
one, or area by area: the clickstream without each, and as it is.
"""


def document() -> str:
    return "\n".join([_HEAD, *(line for area in areas().values() for line in _section(area))])


def _section(area: Area) -> Iterator[str]:
    yield f"## {area.name}"
    yield ""
    prefix = f" All names begin with `{area.prefix}`." if area.prefix else ""
    yield f"{area.what[0].upper()}{area.what[1:]}. Defaults are those of {area.system}.{prefix}"
    yield ""
    yield "| setting | default | ours | why | effect |"
    yield "|---|---|---|---|---|"
    for setting in settings():
        if setting.area is area:
            yield _row(setting)
    yield ""


def _row(setting: Setting) -> str:
    name = f"**{setting.name}**" if setting.correctness else setting.name
    effect = f"{setting.effect} ({setting.measured})" if setting.measured else setting.effect
    cells = (name, setting.usual, setting.given, setting.why, effect)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("*::*", "\\*::\\*") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(document())
