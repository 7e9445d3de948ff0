"""The entry point of the pytest plugin: options and what must happen before collection.

PYTEST_DONT_REWRITE: this module is imported in every pytest run of an environment where the package is installed, so it
stays small and imports nothing heavy; everything else is imported only when a campaign directory is given.
"""

from __future__ import annotations

from typing import Literal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options and their settings in the ini file."""
    group = parser.getgroup("campaign", "training campaigns")
    group.addoption("--campaign-dir", action="append", default=[], metavar="DIR", dest="campaign_dir",
                    help="Check this campaign directory (repeatable).")
    group.addoption("--campaign-plan", metavar="FILE", dest="campaign_plan",
                    help="The reviewer's own copy of the plan; it decides what is expected.")
    group.addoption("--campaign-max-depth", metavar="DEPTH", dest="campaign_max_depth",
                    help="Reload no deeper: header, tensors, model or probe.")
    group.addoption("--campaign-require-depth", metavar="DEPTH", dest="campaign_require_depth",
                    help="What is reloaded less deep stays unverified.")
    group.addoption("--campaign-gate", metavar="LEVEL", dest="campaign_gate",
                    help="Which deliverables decide: essential (those alone) or all (the missing ones of lower priority too); "
                         "default: what was delivered, and what is essential.")
    group.addoption("--campaign-base-model", action="append", default=[], metavar="[NAME=]DIR", dest="campaign_base_model",
                    help="Where a base model lies: its directory, or a Hugging Face cache (repeatable).")
    group.addoption("--campaign-loader", action="append", default=[], metavar="KIND-OR-GLOB=CODE:FUNCTION",
                    dest="campaign_loader",
                    help="A loader of your own, module:function or /path/file.py:function, for the deliverables of a kind, or "
                         "whose id or path fits the pattern: it gets the path and returns a torch.nn.Module (repeatable).")
    group.addoption("--campaign-baseline", metavar="FILE", dest="campaign_baseline",
                    help="An earlier JSON report: what changed since, byte for byte and verdict for verdict.")
    group.addoption("--campaign-report", action="append", default=[], metavar="FILE", dest="campaign_report",
                    help="Write a report; the suffix decides its form: .json (repeatable).")
    group.addoption("--campaign-draft", action="store_true", dest="campaign_draft",
                    help="Write manifest.json from what lies in the directory, and stop; never overwrites.")
    group.addoption("--campaign-timeout", metavar="SECONDS", dest="campaign_timeout",
                    help="Limit of a reload without progress (default: 120).")
    group.addoption("--campaign-memory", metavar="SIZE", dest="campaign_memory",
                    help="Memory limit of a reload, for instance 8GiB (default: half of what is available).")
    group.addoption("--campaign-jobs", metavar="N", dest="campaign_jobs",
                    help="Reader threads of a reload (default: one for each core).")
    group.addoption("--campaign-isolation", metavar="LEVEL", dest="campaign_isolation",
                    help="Refuse to start where a reload would have less isolation: basic, filtered, confined or isolated.")
    settings: tuple[tuple[str, Literal["string", "float", "int", "linelist"], str], ...] = (
        ("plan", "string", "The reviewer's own copy of the plan, relative to the ini file."),
        ("max_depth", "string", "As --campaign-max-depth."),
        ("require_depth", "string", "As --campaign-require-depth."),
        ("gate", "string", "As --campaign-gate."),
        ("base_model", "linelist", "As --campaign-base-model, one a line, relative to the ini file."),
        ("loader", "linelist", "As --campaign-loader, one a line; files relative to the ini file."),
        ("baseline", "string", "An earlier JSON report, relative to the ini file."),
        ("timeout", "float", "As --campaign-timeout."),
        ("memory", "string", "As --campaign-memory."),
        ("jobs", "int", "As --campaign-jobs."),
        ("isolation", "string", "As --campaign-isolation."),
    )
    for name, kind, text in settings:
        parser.addini(f"campaign_{name}", text, type=kind, default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Make our hook specifications known, so that a misspelt implementation is an error."""
    from . import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Turn the campaign directories into arguments before any `conftest.py` is looked for."""
    if early_config.known_args_namespace.campaign_dir:
        from .arguments import prepare

        prepare(early_config, args)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker always and the session's plugin only when there is a campaign."""
    config.addinivalue_line("markers", "campaign: a check of a training campaign (added by pytest-campaign).")
    if config.option.campaign_dir:
        from .session import register

        register(config)
    elif config.option.campaign_report:
        raise pytest.UsageError("--campaign-report needs --campaign-dir=DIR")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Write drafts and stop, when that is all that is asked."""
    if not config.option.campaign_draft:
        return None
    if not config.option.campaign_dir:
        raise pytest.UsageError("--campaign-draft needs --campaign-dir=DIR")
    from .cli import draft
    from .settings import base_models

    return draft([str(config.invocation_params.dir / directory) for directory in config.option.campaign_dir], base_models(config))
