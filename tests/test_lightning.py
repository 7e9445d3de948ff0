"""Checkpoints of Lightning, written by it; each fault beside the sound file."""

import argparse
import warnings

import pytest
import torch
from disk_source import DiskSource, candidate

from pytest_campaign.formats import formats, lightning
from pytest_campaign.formats.base import Depth, ProblemKind, Unit

NAME = "last.ckpt"


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    import lightning as library

    class Net(library.LightningModule):
        def __init__(self, width):
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Linear(width, 1)

        def training_step(self, batch, index):
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    folder = tmp_path_factory.mktemp("lightning")
    keep = library.pytorch.callbacks.ModelCheckpoint(dirpath=folder, filename="last")
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library about itself
        library.Trainer(max_epochs=1, callbacks=[keep], logger=False, enable_progress_bar=False, enable_model_summary=False,
                        accelerator="cpu").fit(Net(4), data)
    return torch.load(folder / NAME, weights_only=False)


def recognised(path):
    return [name for name, form in formats().items() if form.recognise(candidate(path))]


def read(root, name=NAME):
    return lightning.read(Unit(lightning.NAME, name, (name,)), DiskSource(root))


def test_a_sound_checkpoint(written, tmp_path):
    torch.save(written, tmp_path / NAME)
    assert recognised(tmp_path / NAME) == ["Lightning"]
    reading = read(tmp_path)
    assert (reading.format, reading.depth, reading.problems, reading.only_state) == ("Lightning", Depth.TENSORS, [], False)


def test_hyperparameters_in_a_namespace(written, tmp_path):
    torch.save(written | {"hyper_parameters": argparse.Namespace(width=4)}, tmp_path / NAME)
    assert [problem.kind for problem in read(tmp_path).problems] == [ProblemKind.FRAMEWORK_CLASS]


@pytest.mark.parametrize("empty", [True, False])
def test_no_state_dict(written, tmp_path, empty):
    rest = {key: value for key, value in written.items() if key != "state_dict"}
    torch.save(rest | ({"state_dict": {}} if empty else {}), tmp_path / NAME)
    assert recognised(tmp_path / NAME) == ["Lightning"]
    (problem,) = read(tmp_path).problems
    assert (problem.kind, problem.where) == (ProblemKind.NO_WEIGHTS, "state_dict")
    assert ("an empty state_dict" if empty else "no state_dict: callbacks, epoch") in problem.observed


def test_the_file_beside_the_shards_has_no_tensors(written, tmp_path):
    torch.save({key: value for key, value in written.items() if key != "state_dict"}, tmp_path / "meta.pt")
    assert ProblemKind.NO_WEIGHTS not in {problem.kind for problem in read(tmp_path, "meta.pt").problems}


def test_a_cut_file_is_still_recognised(written, tmp_path):
    torch.save(written, tmp_path / NAME)
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:-1000])
    assert recognised(tmp_path / NAME) == ["Lightning"]
    assert [problem.kind for problem in read(tmp_path).problems] == [ProblemKind.TRUNCATED]


def test_the_word_alone_is_no_sign(tmp_path):
    torch.save({"readme": "made with pytorch-lightning_version 2", "w": torch.ones(2)}, tmp_path / "model.pt")
    assert recognised(tmp_path / "model.pt") == ["torch zip"]


def test_not_a_number(written, tmp_path):
    state = {name: value.clone() for name, value in written["state_dict"].items()}
    state["net.weight"][0, 0] = float("nan")
    torch.save(written | {"state_dict": state}, tmp_path / NAME)
    (problem,) = read(tmp_path).problems
    assert (problem.kind, problem.where) == (ProblemKind.NAN, "state_dict.net.weight")
