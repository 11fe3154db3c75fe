"""Files are whole or not there; weights fit wholly or are refused; nothing is executed."""

import os
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from onestyle.checkpoint import (
    load,
    load_strictly,
    read_about,
    read_weights,
    save,
    save_weights,
    write_whole,
)
from onestyle.nn.backbone import make_backbone


class Evil:
    def __reduce__(self):
        return os.mkdir, ("/tmp/onestyle_was_here",)


@pytest.mark.parametrize("protocol", ["torch", "pickle"])
def test_nothing_in_a_file_is_executed(tmp_path, protocol):
    file = tmp_path / "evil.ckpt"
    if protocol == "torch":
        torch.save({"x": Evil()}, file)
    else:
        file.write_bytes(pickle.dumps(Evil(), 2))
    with pytest.raises(ValueError, match=r"evil\.ckpt cannot be read"):
        load(file)
    assert not os.path.exists("/tmp/onestyle_was_here")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    file = tmp_path / "x.ckpt"
    save(file, {"step": 1})

    def fails(opened):
        opened.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="cannot be written: No space left"):
        write_whole(file, fails)
    assert load(file) == {"step": 1} and os.listdir(tmp_path) == ["x.ckpt"]


@pytest.mark.parametrize("cut", [0, 10, 0.5])
def test_a_cut_file_is_refused(tmp_path, cut):
    file = tmp_path / "x.ckpt"
    save(file, {"x": torch.randn(1000)})
    data = file.read_bytes()
    file.write_bytes(data[: int(cut * len(data)) if cut == 0.5 else cut])
    with pytest.raises(ValueError, match=r"x\.ckpt cannot be read"):
        load(file)


@pytest.mark.parametrize("below", [None, "state_dict", "model"])
def test_weights_of_any_usual_file(tmp_path, below):
    net = nn.Linear(3, 2)
    state = net.state_dict() if below is None else {below: net.state_dict(), "epoch": 3}
    torch.save(state, tmp_path / "w.pth")
    assert_close(read_weights(tmp_path / "w.pth"), dict(net.state_dict()))
    save_weights(tmp_path / "w.safetensors", net, {"timm": "none"})
    assert_close(read_weights(tmp_path / "w.safetensors"), dict(net.state_dict()))
    assert read_about(tmp_path / "w.safetensors") == {"timm": "none"}


def test_keys_that_do_not_match_are_told(tmp_path):
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    state = {"0.weight": torch.ones(2, 3), "0.bias": torch.ones(3), "head.weight": torch.ones(1)}
    with pytest.raises(ValueError) as told:
        load_strictly(net, state, "w.pth")
    for part in (
        "1.weight is missing", "head.weight is unknown", "0.bias is (3,), not (2,)",
    ):  # fmt: skip
        assert part in str(told.value)


def test_a_backbone_from_a_file_or_not_at_all(tmp_path):
    net = make_backbone("test_resnet", 32)
    save_weights(tmp_path / "w.safetensors", net, {})
    again = make_backbone("test_resnet", 32, init=str(tmp_path / "w.safetensors"))
    assert_close(again.state_dict(), net.state_dict(), rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"does not fit the network: .* is missing"):
        make_backbone("test_vit", 32, init=str(tmp_path / "w.safetensors"))
    with pytest.raises(ValueError, match="is not a file of weights"):
        make_backbone("test_resnet", 32, init=str(tmp_path / "none.pth"))
    with pytest.raises(ValueError, match=r"no network 'resnet81'; did you mean resnet"):
        make_backbone("resnet81", 32)


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "resnet18", "test_convnext"])
@pytest.mark.parametrize("size", [48, 32])
def test_any_network_at_any_size_it_takes(name, size):
    net = make_backbone(name, 48).eval()
    assert net(torch.randn(2, 3, size, size)).shape == (2, net.num_features)
