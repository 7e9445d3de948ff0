"""The documentation of the rules, as Markdown: what ``pytest-campaign rules`` prints and ``docs/rules.md`` holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..findings import Rule

HEADER = """\
# Rules

Every finding has one of these codes. An *error* rejects; a *warning* and a *note* do not. A rule marked *open* has
its cause in the machine that checks: it rejects nothing and leaves the deliverable unverified.
"""


def document(rules: Sequence[Rule]) -> str:
    """One section for each rule, in the order given."""
    return "\n".join(line for rule in rules for line in _section(rule))


def whole(rules: Sequence[Rule]) -> str:
    """The page of all rules."""
    return f"{HEADER}\n{document(rules)}"


def _section(rule: Rule) -> Iterator[str]:
    yield f"## {rule.code}"
    yield ""
    yield f"*{'open' if rule.unanswered else rule.level.value}*"
    yield ""
    yield rule.text
    yield ""


if __name__ == "__main__":  # python -m pytest_campaign.reporting.rules_text > docs/rules.md
    from ..checks import all_rules

    print(whole(list(all_rules().values())), end="")
