"""The description of a whole pipeline: written in TOML (see `load`) or in Python, with the same checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from penstock.errors import SpecError
from penstock.spec.checks import problems_between
from penstock.spec.names import Name
from penstock.spec.problems import Problem, explain, fields, sections_in
from penstock.spec.sections import (
    Cleanse,
    Enrich,
    Grouping,
    Section,
    ServiceAddresses,
    Sessions,
    Source,
    Windows,
)
from penstock.spec.sinks import Sink
from penstock.spec.sql import columns_of
from penstock.spec.units import Duration

Model = TypeVar("Model", bound=BaseModel)
Tier = Literal["groups", "events"]
"""What makes sessions or windows, with state; and what makes rows of single events, without."""


class PipelineSpec(Section):
    """Events of one topic, cleansed, enriched, made into sessions or windows, and written to sinks."""

    name: Name = Field(
        description="The pipeline's name; its checkpoint and transactional ids carry it.",
        examples=["clickstream"],
    )
    engine: Literal["kernel", "plain"] = Field(
        default="kernel",
        description="kernel: the hot loops in Java. plain: Spark's own functions, where no jar may be added.",
        examples=["plain"],
    )
    trigger: Duration = Field(
        default=Duration(0),
        description="The least time between two micro-batches.",
        examples=["0 seconds", "1 second"],
    )
    source: Source
    cleanse: Cleanse = Cleanse()
    enrich: tuple[Enrich, ...] = ()
    sessions: Sessions | None = None
    windows: Windows | None = None
    sink: tuple[Sink, ...] = Field(min_length=1)
    services: ServiceAddresses = ServiceAddresses()

    def __init__(self, **given: Any) -> None:
        if problems := find_problems(given):
            raise SpecError(str(given.get("name", "pipeline")), [problem.line(given) for problem in problems])
        super().__init__(**given)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # see Section

    @property
    def grouping(self) -> Grouping | None:
        """What events are made into, if anything."""
        return self.sessions or self.windows

    def clean_columns(self) -> list[str]:
        """The columns of a cleansed event: those of the schema, then those that cleanse makes."""
        return list(dict.fromkeys([*(column.name for column in self.source.columns), *self.cleanse.set]))

    def columns(self) -> list[str]:
        """The columns of an enriched event: the cleansed ones, then those taken from reference data."""
        return self.clean_columns() + [column for table in self.enrich for column in table.take]

    def event_columns(self, sink: Sink) -> list[str]:
        """The columns of a sink's events rows."""
        return list(sink.columns) or self.columns()

    def used_columns(self, tier: Tier) -> set[str]:
        """The columns that a tier reads: of the schema, of those that cleanse makes, of reference data."""
        expressions = list(self.cleanse.where.values())
        used = {
            self.source.key,
            self.source.event_time,
            # An event without it is rejected, in either tier.
            *([self.grouping.key] if self.grouping else []),
            *self.cleanse.require,
            *(table.on for table in self.enrich),
        }
        if self.source.created:
            used.add(self.source.created)
        if tier == "events":
            used |= {name for sink in self.sink if "events" in sink.rows for name in self.event_columns(sink)}
        elif self.grouping:
            expressions += [m.expression for m in self.grouping.measures if m.expression]
            if self.cleanse.dedupe:
                used.add(self.cleanse.dedupe.on)
        used |= {column for text in expressions for column in columns_of(text)}
        made_of = [columns_of(text) for name, text in self.cleanse.set.items() if name in used]
        return used | {column for columns in made_of for column in columns}


def find_problems(given: Mapping[str, Any]) -> list[Problem]:
    """Everything wrong with a description: in each field, and between the fields that are valid."""
    try:
        return list(problems_between(PipelineSpec.model_validate(given)))
    except ValidationError as error:
        found = list(explain(PipelineSpec, error, given))
        draft = _without_invalid(PipelineSpec, given)
        return found + list(problems_between(draft, draft=True))


def _without_invalid(model: type[Model], given: Mapping[str, Any]) -> Model:
    """A section that has its valid fields and its defaults; one that was given and is invalid it lacks."""
    valid = _valid_fields(model, given)
    draft = model.model_construct(**valid)
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key in given and key not in valid:
            draft.__dict__.pop(name, None)
    return draft


def _valid_fields(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are valid by themselves, and drafts of the sections that are not."""
    valid = {key: _valid_part(model, key, given[key]) for key in fields(model) if key in given}
    return {key: value for key, value in valid.items() if value is not None}


def _valid_part(model: type[BaseModel], key: str, given: Any) -> Any:
    """The field's value if it is valid, else what can be saved of it, or None."""
    try:
        return _adapter(model, key).validate_python(given)
    except ValidationError as error:
        if sections := sections_in(fields(model)[key].annotation):
            several = isinstance(given, list | tuple)
            return tuple(_draft(sections, item) for item in given) if several else _draft(sections, given)
        wrong = {details["loc"][0] for details in error.errors() if details["loc"]}
        if wrong and isinstance(given, Mapping):
            return _valid_part(
                model, key, {name: value for name, value in given.items() if name not in wrong}
            )
        return None


def _draft(sections: Mapping[str, type[BaseModel]], given: object) -> object:
    """A section with the valid fields of what was given; one that is valid already stays as it is."""
    if not isinstance(given, Mapping):
        return given if isinstance(given, BaseModel) else None
    model = sections.get("") or sections.get(str(given.get("kind")))
    return _without_invalid(model, given) if model else None


@cache
def _adapter(model: type[BaseModel], key: str) -> TypeAdapter[Any]:
    """What validates one field without its section."""
    field = fields(model)[key]
    # The None is there because Annotated wants at least one thing beside the type.
    return TypeAdapter(Annotated[(field.annotation, None, *field.metadata)])  # type: ignore[arg-type]
