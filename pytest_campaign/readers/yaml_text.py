"""The texts in YAML, by the parser's events: no object is built, no tag is obeyed and no alias is expanded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from .fields import Field, Unreadable

MOST_BYTES = 1 << 20
MOST_EVENTS = 200_000
DEEPEST = 64


@dataclasses.dataclass
class _Level:
    """One open mapping or sequence: the key or index of the item that comes next, None where a key comes next."""

    mapping: bool
    key: str | None = None
    count: int = 0

    def passed(self) -> None:
        """An item is complete."""
        self.key = None
        self.count += 1

    @property
    def part(self) -> str:
        return (self.key or "") if self.mapping else str(self.count)


def fields(data: bytes) -> Iterator[Field]:
    """Every scalar value in one or several YAML documents, with its line. Raises `Unreadable`, at the latest at the end."""
    import yaml

    if len(data) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES:,} bytes")
    levels: list[_Level] = []
    try:
        events = yaml.parse(data.decode("utf-8-sig"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for number, event in enumerate(events):
            if number > MOST_EVENTS:
                raise Unreadable(f"it has more than {MOST_EVENTS:,} parts")
            above = levels[-1] if levels else None
            at_key = above is not None and above.mapping and above.key is None
            if isinstance(event, yaml.ScalarEvent):
                if above is not None and at_key:
                    above.key = event.value
                    continue
                line = event.start_mark.line + 1 if event.start_mark is not None else None
                yield Field(tuple(level.part for level in levels), event.value, line, event.style not in (None, ""))
            elif isinstance(event, yaml.CollectionStartEvent):
                levels.append(_Level(isinstance(event, yaml.MappingStartEvent)))
                if len(levels) > DEEPEST:
                    raise Unreadable("it is nested too deeply")
                continue
            elif isinstance(event, yaml.CollectionEndEvent):
                levels.pop()
            elif not isinstance(event, yaml.AliasEvent):
                continue
            _passed(levels)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Unreadable(f"it is no YAML: {' '.join(str(error).split())[:200]}") from None


def _passed(levels: list[_Level]) -> None:
    """A scalar, an alias or a whole collection is behind us: the key of a mapping, or an item."""
    if not levels:
        return
    if levels[-1].mapping and levels[-1].key is None:
        levels[-1].key = ""  # a key that is a collection
    else:
        levels[-1].passed()
