"""ONNX: real files of the onnx package, and each fault beside its nearest sound neighbour."""

import hashlib
import pickle
import random

import numpy as np
import pytest
from disk_source import DiskSource, candidate

from pytest_campaign.formats import onnx as ours
from pytest_campaign.formats.base import Candidate, Depth, Folder, ProblemKind, Unit, from_json, to_json

onnx = pytest.importorskip("onnx")
helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto


class UnitSource(DiskSource):
    """As in a reload, only the files of the unit exist."""

    def __init__(self, root, unit, **options):
        super().__init__(root, **options)
        self.unit = unit

    def exists(self, path):
        return path in self.unit.files and super().exists(path)


def recognised(path):
    return ours.recognise(candidate(path))


def unit_of(path, root=None):
    name = path.relative_to(root or path.parent).as_posix()
    folder = Folder(name.rpartition("/")[0], {path.name: candidate(path, name)})
    return next(ours.gather(folder), None) or Unit("ONNX", name, (name,))


def read(path, root=None, **options):
    root, unit = root or path.parent, unit_of(path, root)
    return ours.read(unit, UnitSource(root, unit, **options))


def kinds(reading):
    return [problem.kind for problem in reading.problems]


def weights(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def model(*initializers, **options):
    """A linear layer, and further initializers that nothing uses."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width]) for name, width in (("x", 4), ("y", 3))]
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    own = [numpy_helper.from_array(weights(4, 3), "w"), numpy_helper.from_array(weights(3), "b")]
    graph = helper.make_graph([node], "linear", value[:1], value[1:], [*own, *initializers])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="a trainer", **options)


@pytest.fixture
def path(tmp_path):
    made = model()
    onnx.checker.check_model(made)
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def external(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    return tmp_path / "m.onnx"


def save(made, path):
    path.write_bytes(made.SerializeToString())
    return path


def change(path, edit):
    made = onnx.load(path, load_external_data=False)
    edit(made)
    return save(made, path)


# The tables


def test_messages_are_those_that_lead_to_a_tensor():
    def leads(message, above=()):
        return message.name == "TensorProto" or (message.name not in above and any(
            field.message_type and leads(field.message_type, (*above, message.name)) for field in message.fields))

    for name, known in ours.MESSAGES.items():
        descriptor = getattr(onnx, name).DESCRIPTOR
        assert known == {field.number: field.message_type.name for field in descriptor.fields
                         if field.message_type and leads(field.message_type)}, name


def test_fields_are_those_of_the_package():
    wires = {field.number: 2 if field.message_type or field.type == field.TYPE_STRING else 0
             for field in onnx.ModelProto.DESCRIPTOR.fields}
    assert wires == ours.MODEL_FIELDS
    assert {field.number for field in onnx.GraphProto.DESCRIPTOR.fields} == ours.GRAPH_FIELDS


def test_data_types_are_those_of_the_package():
    assert {number: name for name, number in TensorProto.DataType.items() if number} == {
        number: name for number, (name, _, _) in ours.TYPES.items()}


@pytest.mark.parametrize(("name", "raw"), [
    (name, raw) for name, number in TensorProto.DataType.items() if number
    for raw in (False, True) if not (raw and name == "STRING")])  # text is never raw data
def test_every_data_type_in_both_places(path, name, raw):
    number = TensorProto.DataType.Value(name)
    values = [b"a", b"b", b"c", b"d", b"e"]
    if name != "STRING":
        zero = 1 if name == "FLOAT8E8M0" else 0  # this type has no zero
        values = np.array([1, zero, 1, 1, zero], helper.tensor_dtype_to_np_dtype(number))
    tensor = numpy_helper.from_array(values, "t") if raw else helper.make_tensor("t", number, [5], values)
    assert tensor.HasField("raw_data") is raw
    save(model(tensor), path)
    assert kinds(read(path)) == []
    tensor.dims[0] += 4  # more than what the padding of the narrow types allows
    save(model(tensor), path)
    [problem] = read(path).problems
    assert (problem.kind, problem.where) == (ProblemKind.DAMAGED, "t")


# Sound files


def test_a_sound_model(path):
    reading = read(path)
    assert reading.problems == []
    assert (reading.depth, reading.tensors, reading.elements, reading.dtypes) == (Depth.TENSORS, 2, 15, {"FLOAT": 2})
    assert reading.bytes_read == 60
    assert from_json(to_json(reading)) == reading
    assert read(path, depth=Depth.HEADER).depth is Depth.HEADER


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "c8"])
def test_nan_in_a_parameter(path, dtype):
    values = weights(30).astype(dtype)
    save(model(numpy_helper.from_array(values, "t")), path)
    assert kinds(read(path)) == []
    values[7] = np.nan
    save(model(numpy_helper.from_array(values, "t")), path)
    [problem] = read(path).problems
    assert (problem.kind, problem.where) == (ProblemKind.NAN, "t")
    assert kinds(read(path, depth=Depth.HEADER)) == []


def test_nan_in_typed_data(path):
    for value, found in ((2, []), (float("nan"), [ProblemKind.NAN]), (float("inf"), [ProblemKind.INFINITE])):
        save(model(helper.make_tensor("t", TensorProto.FLOAT, [3], [1, value, 3])), path)
        reading = read(path)
        assert (kinds(reading), reading.depth) == (found, Depth.TENSORS)
    save(model(helper.make_tensor("t", TensorProto.FLOAT16, [3], [1, 2, 3])), path)
    assert read(path).depth is Depth.HEADER  # half precision as a list of numbers of any length


def test_nan_in_external_data(external):
    data = bytearray((external.parent / "w.bin").read_bytes())
    data[4:8] = np.float32(np.nan).tobytes()
    (external.parent / "w.bin").write_bytes(data)
    [problem] = read(external).problems
    assert (problem.kind, problem.path) == (ProblemKind.NAN, "w.bin")


def test_a_constant_may_be_infinite(path):
    made = model(numpy_helper.from_array(np.array(-np.inf, "f4"), "fill"),
                 numpy_helper.from_array(np.array([0, -np.inf, 0], "f4"), "causal"))
    constant = numpy_helper.from_array(np.array([np.nan, np.inf], "f4"), "value")
    made.graph.node.append(helper.make_node("Constant", [], ["c"], value=constant))
    save(made, path)
    assert kinds(read(path)) == []


def test_digest_and_progress(external):
    for digest in (False, True):
        unit = unit_of(external)
        source = UnitSource(external.parent, unit, digest=digest)
        facts = ours.read(unit, source).files
        assert [fact.path for fact in facts] == ["m.onnx", "w.bin"]
        for fact in facts:
            data = (external.parent / fact.path).read_bytes()
            assert fact.bytes == len(data)
            assert fact.sha256 == (hashlib.sha256(data).hexdigest() if digest else None)
        assert source.done == sum(fact.bytes for fact in facts)


def test_a_model_without_weights_is_fine(tmp_path):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    reading = read(save(helper.make_model(graph), tmp_path / "m.onnx"))
    assert (reading.problems, reading.tensors) == ([], 0)


def test_tensors_of_subgraphs_constants_functions_and_sparse_ones_are_seen(path):
    body = helper.make_graph([helper.make_node("Identity", ["inner"], ["o"])], "body", [], [],
                             [numpy_helper.from_array(weights(7), "inner")])
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weights(11), "constant"))
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(weights(2), "sparse"),
                                       numpy_helper.from_array(np.array([1, 5]), ""), [9])

    def edit(made):
        made.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=body, else_branch=body))
        made.graph.sparse_initializer.append(sparse)
        made.functions.append(helper.make_function("d", "f", [], ["c"], [constant], [helper.make_opsetid("", 17)]))

    reading = read(change(path, edit))
    assert (reading.problems, reading.tensors, reading.elements) == ([], 6, 15 + 7 + 7 + 11 + 2)


# Recognition


def test_recognised_whatever_the_name_and_as_far_as_there_is_a_graph(path):
    data = path.read_bytes()
    other = path.with_name("weights.bin")
    graph = data.index(b"linear") - 40  # inside the first node
    for length in (graph, len(data) // 2, len(data) - 20, len(data) - 1, len(data)):
        other.write_bytes(data[:length])
        assert recognised(other), length


@pytest.mark.parametrize("options", [{}, {"doc_string": "lines\n" * 2000, "model_version": 7, "domain": "org.example"},
                                     {"producer_version": "1.0", "doc_string": "é" * 5000}])
def test_recognised_with_every_field(tmp_path, options):
    assert recognised(save(model(**options), tmp_path / "m.onnx"))


def length_field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


NOT_MODELS = {
    "empty": b"",
    "text": b"a text that begins with a letter\n" * 40,
    "backspace": b"\x08\x08 and text, which is no field",
    "pickle": pickle.dumps({"w": list(range(300))}),
    "zip": b"PK\x03\x04" + bytes(100),
    "json": b'{"graph": {}}',
    "zeros": bytes(5000),
    "event file":  # of TensorBoard
        b"\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK\x22" + b"\x09\x00\x00\xc0\x9e\xcd\x80\xd9A\x1a\x0dbrain.Event:2" + bytes(4),
    "saved model": b"\x08\x01" + length_field(2, length_field(1, length_field(5, b"serve") + length_field(6, b"2.16"))),
    "core ml": b"\x08\x07" + length_field(2, length_field(1, length_field(1, b"image"))),
    "version only": b"\x08\x09",
    "version and producer": b"\x08\x09" + length_field(2, b"pytorch"),
    "graph is no message": b"\x08\x09" + length_field(7, b"\xff" * 20) + length_field(8, b"\x10\x11"),
    "producer is no text": b"\x08\x09" + length_field(2, b"\n\x03abc") + length_field(7, length_field(2, b"g"))
        + length_field(8, b"\x10\x11"),
    "opset is none": b"\x08\x09" + length_field(7, length_field(2, b"g")) + length_field(8, length_field(5, b"x")),
    "version is too high": b"\x08\x40" + length_field(7, length_field(2, b"g")) + length_field(8, b"\x10\x11"),
}


@pytest.mark.parametrize("name", NOT_MODELS)
def test_other_contents_are_not(tmp_path, name):
    (tmp_path / "m.onnx").write_bytes(NOT_MODELS[name])
    assert not recognised(tmp_path / "m.onnx")


def test_the_nearest_neighbour_of_those_is(tmp_path):
    (tmp_path / "m").write_bytes(b"\x08\x09" + length_field(7, length_field(2, b"g")) + length_field(8, b"\x10\x11"))
    assert recognised(tmp_path / "m")


def test_a_tensor_file_is_no_model(tmp_path):
    for shape in ((3,), (3, 4), ()):
        assert not recognised(save(numpy_helper.from_array(weights(*shape), "w"), tmp_path / "t.pb"))


def test_random_bytes_are_not(tmp_path):
    dice = random.Random(0)
    for _ in range(3000):
        data = b"\x08" + bytes([dice.randrange(1, 31)]) + dice.randbytes(200)
        assert not ours.recognise(Candidate("f", len(data), data, lambda offset, length, data=data: data[offset:offset + length]))


@pytest.mark.parametrize(("opsets", "expected"), [(500, True), (500_000, False)])
def test_recognition_looks_at_the_first_fields_only(tmp_path, opsets, expected):
    (tmp_path / "m").write_bytes(b"\x08\x09" + length_field(8, b"\x10\x11") * opsets + length_field(7, length_field(2, b"g")))
    assert recognised(tmp_path / "m") is expected


# Faults of the message


def test_a_cut_names_the_tensor_and_the_numbers(path):
    big = numpy_helper.from_array(weights(100, 100), "big")
    data = save(model(big), path).read_bytes()
    end = data.index(big.raw_data) + len(big.raw_data)
    graph_end = len(data) - len(b"B\x04\n\x00\x10\x11")
    path.write_bytes(data[:end - 1000])
    reading = read(path)
    [problem] = reading.problems
    assert (problem.kind, problem.where, reading.depth) == (ProblemKind.TRUNCATED, "big", Depth.HEADER)
    assert problem.observed == f"{end - 1000:,} bytes: the file ends inside a tensor"
    assert problem.expected == f"at least {graph_end:,} bytes"


def test_every_cut_is_found(path):
    data = path.read_bytes()
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        assert kinds(read(path))[0] in (ProblemKind.TRUNCATED, ProblemKind.DAMAGED), length
        assert length < 80 or kinds(read(path)) == [ProblemKind.TRUNCATED], length


def test_flipped_bytes_are_survived(path):
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x84]) + data[at + 1:])
        to_json(read(path))
        recognised(path)


@pytest.mark.parametrize("tail", [b"\x00", b"x" * 70, b"xy" * 35000, b"\xff" * 12, b"\x08\x09"])
def test_trailing_bytes(path, tail):
    data = path.read_bytes()
    path.write_bytes(data + tail)
    reading = read(path)
    [problem] = reading.problems
    assert (problem.kind, problem.expected, reading.tensors) == (ProblemKind.TRAILING, f"{len(data):,} bytes", 2)


def test_fields_of_a_newer_version_are_no_fault(path):
    tail = length_field(15, b"new")
    path.write_bytes(path.read_bytes() + tail)
    assert kinds(read(path)) == [ProblemKind.TRAILING]
    change(path, lambda made: setattr(made, "ir_version", ours.NEWEST_IR + 1))
    assert path.read_bytes().endswith(tail)
    assert kinds(read(path)) == []


@pytest.mark.parametrize(("length", "kind"), [(1, []), (2, [ProblemKind.DAMAGED]), (4, [ProblemKind.DAMAGED])])
def test_a_field_that_leaves_its_message_is_damage_and_no_cut(tmp_path, length, kind):
    (tmp_path / "m").write_bytes(b"\x08\x09" + wrap(7, bytes([2 << 3 | 2, length]) + b"g") + wrap(8, b"\x10\x11"))
    assert kinds(read(tmp_path / "m")) == kind


def test_no_graph(path):
    change(path, lambda made: made.ClearField("graph"))
    assert kinds(read(path)) == [ProblemKind.DAMAGED]


@pytest.mark.parametrize(("edit", "observed"), [
    (lambda t: setattr(t, "raw_data", t.raw_data[:-1]), "47 bytes of raw data"),
    (lambda t: setattr(t, "raw_data", t.raw_data + b"\x00"), "49 bytes of raw data"),
    (lambda t: setattr(t, "raw_data", b""), "0 bytes of raw data"),
    (lambda t: t.ClearField("raw_data"), "0 values"),
    (lambda t: t.dims.append(2), "48 bytes of raw data"),
    (lambda t: t.dims.append(-1), "a negative dimension"),
    (lambda t: setattr(t, "data_type", TensorProto.FLOAT16), "48 bytes of raw data"),
    (lambda t: setattr(t, "data_type", TensorProto.STRING), "48 bytes of raw data"),
    (lambda t: setattr(t, "data_type", TensorProto.UNDEFINED), "the data type 0"),
    (lambda t: setattr(t, "data_type", TensorProto.INT32), None),
    (lambda t: t.dims.extend([1] * 5), None),
])
def test_a_tensor_and_its_data(path, edit, observed):
    problems = read(change(path, lambda made: edit(made.graph.initializer[0]))).problems
    expected = [] if observed is None else [(ProblemKind.DAMAGED, "w", observed)]
    assert [(problem.kind, problem.where, problem.observed) for problem in problems] == expected


def test_an_unknown_data_type_is_not_read_rather_than_damaged(path):
    change(path, lambda made: setattr(made.graph.initializer[0], "data_type", 99))
    assert kinds(read(path)) == [ProblemKind.UNREADABLE_KIND]


def test_no_elements_need_no_data(path):
    save(model(helper.make_tensor("none", TensorProto.FLOAT, [0, 3], [])), path)
    assert kinds(read(path)) == []


def test_faults_of_many_tensors_are_one_problem(path):
    def edit(made):
        for tensor in made.graph.initializer:
            tensor.raw_data = tensor.raw_data[:-4]
    [problem] = read(change(path, edit)).problems
    assert (problem.where, problem.count) == ("w", 2)


def test_a_value_that_nothing_gives(path):
    """What a node takes is an input, an initializer or the output of a node, in its own graph or in one around it."""
    def lose(made):
        made.graph.initializer[0].name = "renamed"

    (problem,) = read(change(path, lose)).problems
    assert (problem.kind, problem.where) == (ProblemKind.MISSING_TENSORS, "w")
    assert "nodes take 1 value that the graph does not have: w" in problem.observed

    def inside(name):
        body = helper.make_graph([helper.make_node("Add", ["own", name], ["o"]), helper.make_node("Clip", ["o", "", "w"], ["p"])],
                                 "body", [helper.make_tensor_value_info("own", TensorProto.FLOAT, [4])], [])
        return lambda made: made.graph.node.append(helper.make_node("Loop", ["x"], ["z"], body=body))

    save(model(), path)
    assert kinds(read(change(path, inside("w")))) == []
    assert [problem.where for problem in read(change(path, inside("lost"))).problems] == ["lost"]


def test_an_initializer_twice(path):
    change(path, lambda made: made.graph.initializer.add().CopyFrom(numpy_helper.from_array(weights(3), "v")))
    assert kinds(read(path)) == []
    change(path, lambda made: setattr(made.graph.initializer[2], "name", "w"))
    assert kinds(read(path)) == [ProblemKind.DAMAGED]


def varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def wrap(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


@pytest.mark.parametrize(("graphs", "kind"), [(33, []), (34, [ProblemKind.TOO_LARGE]), (5000, [ProblemKind.TOO_LARGE])])
def test_nesting_is_limited(tmp_path, graphs, kind):
    graph = wrap(2, b"g")
    for _ in range(graphs):  # a graph in an attribute of a node of a graph
        graph = wrap(1, wrap(5, wrap(6, graph)))
    (tmp_path / "m").write_bytes(b"\x08\x09" + wrap(7, graph) + wrap(8, b"\x10\x11"))
    assert kinds(read(tmp_path / "m")) == kind


@pytest.mark.parametrize("limit", ["MOST_FIELDS", "MOST_TENSORS"])
def test_numbers_are_limited(path, limit, monkeypatch):
    monkeypatch.setattr(ours, limit, 2)
    assert kinds(read(path)) == ([ProblemKind.TOO_LARGE] if limit == "MOST_FIELDS" else [])
    monkeypatch.setattr(ours, limit, 1)
    assert kinds(read(path)) == [ProblemKind.TOO_LARGE]


# External data


def test_external_data_belongs_to_the_unit(external):
    assert unit_of(external).files == ("m.onnx", "w.bin")
    reading = read(external)
    assert (reading.problems, reading.tensors, reading.elements) == ([], 2, 15)


def test_external_data_below_the_folder_of_a_model_that_lies_deeper(tmp_path):
    folder = tmp_path / "runs" / "control"
    (folder / "data").mkdir(parents=True)
    onnx.save(model(), folder / "m.onnx", save_as_external_data=True, location="data/w.bin", size_threshold=0)
    assert unit_of(folder / "m.onnx", tmp_path).files == ("runs/control/m.onnx", "runs/control/data/w.bin")
    reading = read(folder / "m.onnx", tmp_path)
    assert (reading.problems, len(reading.files)) == ([], 2)


def test_external_data_that_is_absent(external):
    (external.parent / "w.bin").unlink()
    [problem] = read(external).problems
    assert (problem.kind, problem.count) == (ProblemKind.SHARD_MISSING, 2)
    assert "w.bin" in problem.observed


def test_external_data_that_is_cut(external):
    file = external.parent / "w.bin"
    end = max(int(entry.value) for t in onnx.load(external, load_external_data=False).graph.initializer
              for entry in t.external_data if entry.key == "offset") + 12
    whole = file.read_bytes()
    file.write_bytes(whole[:end])
    assert kinds(read(external)) == []
    file.write_bytes(whole[:end - 1])
    onnx.checker.check_model(external)  # which does not look
    [problem] = read(external).problems
    assert (problem.kind, problem.path, problem.where) == (ProblemKind.TRUNCATED, "w.bin", "b")
    assert problem.observed == f"the file has {end - 1:,} bytes (1 missing)"
    assert problem.expected == f"at least {end:,} bytes, as m.onnx says"


@pytest.mark.parametrize(("key", "value", "kind"), [
    ("location", "./w.bin", None),
    ("location", "../w.bin", ProblemKind.SHARD_INDEX),
    ("location", "/etc/passwd", ProblemKind.SHARD_INDEX),
    ("location", "", ProblemKind.SHARD_INDEX),
    ("location", "C:\\w.bin", ProblemKind.SHARD_INDEX),
    ("location", "other.bin", ProblemKind.SHARD_MISSING),
    ("offset", "1", None),
    ("offset", "-1", ProblemKind.DAMAGED),
    ("offset", "x", ProblemKind.DAMAGED),
    ("offset", "9" * 19, ProblemKind.TRUNCATED),
    ("offset", "9" * 5000, ProblemKind.DAMAGED),
    ("length", "47", ProblemKind.DAMAGED),
    ("length", "49", ProblemKind.DAMAGED),
    ("length", "48", None),
])
def test_what_the_model_says_of_external_data(external, key, value, kind):
    def edit(made):
        entries = made.graph.initializer[0].external_data
        for entry in [entry for entry in entries if entry.key == key]:
            entries.remove(entry)
        entries.add(key=key, value=value)
    problems = read(change(external, edit)).problems
    assert [(problem.kind, problem.where) for problem in problems] == ([] if kind is None else [(kind, "w")])


def test_external_data_without_a_length_is_as_long_as_the_tensor(external):
    def edit(made):
        for tensor in made.graph.initializer:
            for entry in [entry for entry in tensor.external_data if entry.key == "length"]:
                tensor.external_data.remove(entry)
    change(external, edit)
    assert kinds(read(external)) == []
    (external.parent / "w.bin").write_bytes(bytes(47))
    assert kinds(read(external)) == [ProblemKind.TRUNCATED]


def test_external_data_that_was_never_written(external):
    file = external.parent / "w.bin"
    values = np.zeros((1 << 18,), np.float32)
    made = model(numpy_helper.from_array(values, "big"))
    onnx.save(made, external, save_as_external_data=True, location="w.bin", size_threshold=0)
    size = file.stat().st_size
    assert kinds(read(external)) == []
    with open(file, "r+b") as hollow:
        hollow.truncate(1000)
        hollow.truncate(size)
    problems = read(external).problems
    assert {problem.kind for problem in problems} <= {ProblemKind.HOLE}
    if file.stat().st_blocks * 512 < size // 2:
        assert "big" in [problem.where for problem in problems]
