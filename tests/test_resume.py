"""Points to resume from, written by the libraries: whether every part of the state is there, and whether the parts agree."""

import json
import shutil
import warnings

import hugging_face
import pytest
import torch
from campaigns import write
from disk_source import DiskSource, folder
from rule_examples import judge
from training_states import accelerate, trained, trainer

from pytest_campaign.findings import Level
from pytest_campaign.formats import accelerate_state, hf_model, lightning, peft_adapter, torch_zip, trainer_state
from pytest_campaign.formats.base import Depth, ProblemKind, Unit, from_json, to_json
from pytest_campaign.reload.client import Runner
