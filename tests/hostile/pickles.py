"""Pickles that would run code, broken ones, several in one file, and those that only cost memory or time."""

from __future__ import annotations

import bz2
import collections
import gzip
import io
import lzma
import pickle
import struct
import zlib
from collections.abc import Iterator

import torch

from . import Case
from .archives import torch_zip


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def short(value: str) -> bytes:
    data = value.encode()
    return b"\x8c" + bytes([len(data)]) + data


def _payloads(canary: str) -> Iterator[tuple[str, bytes]]:
    """Objects that create the canary, by every opcode that calls or names something."""
    command = f"touch {canary}"
    system = b"cposix\nsystem\n"
    yield "global-reduce", b"\x80\x02" + system + text(command) + b"\x85R."
    yield "global-reduce-protocol-0", system + b"(S'" + command.encode() + b"'\ntR."
    yield "stack-global", b"\x80\x04" + short("posix") + short("system") + b"\x93" + short(command) + b"\x85R."
    yield (
        "stack-global-from-memo",
        (b"\x80\x04" + short("system") + b"\x94" + short("posix") + b"\x940h\x01h\x00\x93" + short(command) + b"\x85R."),
    )
    yield "stack-global-of-numbers", b"\x80\x04K\x01K\x02\x93" + short(command) + b"\x85R."
    yield "inst", b"(" + b"S'" + command.encode() + b"'\niposix\nsystem\n."
    yield "obj", b"\x80\x02(" + system + text(command) + b"o."
    yield "newobj", b"\x80\x02csubprocess\nPopen\n" + text(command) + b"\x85\x81."
    yield "newobj-ex", b"\x80\x04" + short("subprocess") + short("Popen") + b"\x93" + short(command) + b"\x85}\x92."
    yield "build-setstate", b"\x80\x02ccodeop\nCompile\n)\x81" + text(command) + b"b."
    yield "build-of-a-module", b"\x80\x02cbuiltins\n__dict__\n}" + text("x") + system + b"sb."
    yield "extension-registry", b"\x80\x02\x82\x01" + text(command) + b"\x85R."
    yield "extension-registry-4", b"\x80\x02\x84\x01\x00\x00\x00."
    yield "dotted-name", b"\x80\x04" + short("builtins") + short("eval.__call__") + b"\x93" + short("1") + b"\x85R."
    yield "old-spelling", b"\x80\x02c__builtin__\neval\n" + text(f"open({canary!r},'w')") + b"\x85R."
    yield "getattr-chain", (b"\x80\x02cbuiltins\ngetattr\ncos\npath\n" + text("os") + b"\x86R.")
    yield "lazy-map", b"\x80\x02cbuiltins\nmap\n" + system + b"(" + text(command) + b"l\x86R."
    yield "partial", b"\x80\x02cfunctools\npartial\n" + system + text(command) + b"\x86R)R."
    yield "methodcaller", b"\x80\x02coperator\nmethodcaller\n" + text("system") + text(command) + b"\x86Rcos\n__spec__\n\x85R."
    yield "nested-loads", b"\x80\x02cpickle\nloads\nC" + bytes([len(command)]) + command.encode() + b"\x85R."
    yield "torch-hub", b"\x80\x02ctorch.hub\nload\n" + text("x/y") + text("z") + b"\x86R."
    yield "torch-load", b"\x80\x02ctorch.serialization\nload\n" + text(canary) + b"\x85R."
    yield "numpy-exec", b"\x80\x02cnumpy.testing._private.utils\nrunstring\n" + text("1") + b"}\x86R."
    yield "runpy", b"\x80\x02crunpy\nrun_path\n" + text(canary) + b"\x85R."
    for module, name in (
        ("pip", "main"),
        ("logging", "FileHandler"),
        ("uuid", "_get_command_stdout"),
        ("imaplib", "IMAP4_stream"),
        ("_osx_support", "_read_output"),
        ("ctypes", "CDLL"),
        ("pydoc", "locate"),
        ("idlelib.run", "Executive"),
        ("asyncio.unix_events", "_UnixSubprocessTransport._start"),
        ("bdb", "Bdb.run"),
        ("timeit", "timeit"),
        ("cProfile", "run"),
        ("code", "InteractiveInterpreter"),
        ("doctest", "debug_script"),
        ("nt", "system"),
        ("ensurepip", "_run_pip"),
        ("lib2to3.pgen2.grammar", "Grammar.loads"),
        ("distutils.file_util", "write_file"),
        ("profile", "Profile.run"),
        ("trace", "Trace.run"),
        ("torch.utils._config_module", "load_config"),
        ("torch.jit.unsupported_tensor_ops", "execWrapper"),
        ("torch.utils.collect_env", "run"),
        ("torch._inductor.codecache", "compile_file"),
        ("torch.fx.experimental.symbolic_shapes", "guard"),
        ("torch.utils.bottleneck.__main__", "run_cprofile"),
        ("numpy.f2py.crackfortran", "getlincoef"),
        ("transformers.utils.hub", "cached_file"),
        ("builtins", "__import__"),
        ("builtins", "print"),
        ("marshal", "loads"),
        ("types", "FunctionType"),
        ("types", "CodeType"),
        ("webbrowser", "open"),
        ("shutil", "rmtree"),
        ("linecache", "getline"),
        ("socket", "create_connection"),
        ("ssl", "get_server_certificate"),
        ("urllib.request", "urlopen"),
        ("http.client", "HTTPSConnection"),
        ("smtplib", "SMTP"),
        ("zipimport", "zipimporter"),
        ("importlib", "import_module"),
        ("pkgutil", "resolve_name"),
        ("test.support.script_helper", "assert_python_ok"),
        ("aiohttp.client", "ClientSession"),
        ("requests.api", "get"),
        ("commands", "getoutput"),
        ("popen2", "popen2"),
    ):
        yield f"name-{module}.{name}", b"\x80\x02c" + f"{module}\n{name}\n".encode() + text(command) + b"\x85R."


def _in_torch_zip(name: str, pickle_: bytes, why: str, refused: bool = True) -> Case:
    return Case(f"zip-{name}.pt", torch_zip(pickle_), why, refused)


def running(canary: str) -> Iterator[Case]:
    """Payloads, as a bare pickle and as the object of a torch zip."""
    for name, payload in _payloads(canary):
        yield Case(f"bare-{name}.pkl", payload, "runs code when it is unpickled")
        yield _in_torch_zip(name, payload, "runs code when it is unpickled")
    payload = dict(_payloads(canary))["global-reduce"]
    for suffix in (
        "bin",
        "pt",
        "pth",
        "ckpt",
        "th",
        "joblib",
        "dill",
        "safetensors",
        "npy",
        "npz",
        "gguf",
        "onnx",
        "h5",
        "keras",
        "msgpack",
        "png",
        "json",
        "csv",
        "txt",
        "pickle",
        "dat",
        "pt2",
    ):
        yield Case(f"named.{suffix}", payload, "a pickle, whatever its name says")


def broken(canary: str) -> Iterator[Case]:
    """A payload that runs before the stream breaks; pickles behind pickles; bytes behind the end."""
    payload = dict(_payloads(canary))["global-reduce"]
    harmless = b"\x80\x02}."
    for name, data in (
        ("no-stop", payload[:-1]),
        ("unknown-opcode", payload[:-1] + b"\xff\xfe."),
        ("pop-from-nothing", payload[:-1] + b"000."),
        ("second-stop", payload + b"."),
        ("payload-behind", harmless + payload),
        ("payload-before", payload + harmless),
        ("garbage-behind", payload + b"\0" * 100),
        ("frame-lies", b"\x80\x04\x95" + b"\xff" * 8 + payload[2:]),
        ("frame-short", b"\x80\x04\x95\x02" + b"\0" * 7 + payload[2:]),
        ("protocol-9", b"\x80\x09" + payload[2:]),
        ("cut-in-a-text", payload[:-6]),
        ("invalid-utf8", b"\x80\x02X\x02\0\0\0\xff\xfe0" + payload[2:]),
        ("memo-from-nothing", b"\x80\x02h\x07" + payload[2:]),
        ("empty-persistent-id", b"\x80\x02)Q0" + payload[2:]),
        ("persid", b"Pstorage\n0" + payload[2:]),
        ("long-line", b"c" + b"a" * 100_000 + b"\nb\n."),
        ("duplicated-protocol", b"\x80\x02" * 1000 + payload[2:]),
    ):
        yield Case(f"broken-{name}.pkl", data, "a pickle that breaks off, or several")
        yield _in_torch_zip(f"broken-{name}", data, "a pickle that breaks off, or several")
    yield _in_torch_zip("payload-behind-the-stop", object_pickle() + payload, "a second pickle behind the first")
    yield _in_torch_zip("bytes-behind-the-stop", object_pickle() + b"\0" * 8, "bytes behind the first pickle")
    yield _in_torch_zip("sound", object_pickle(), "one tensor", refused=False)
    for name, compress in (("zlib", zlib.compress), ("gzip", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        yield Case(f"compressed-{name}.joblib", compress(payload), "a compressed pickle that runs code")
        yield Case(f"compressed-{name}.pt", compress(payload), "a compressed pickle that runs code")
    yield Case("seven-zip.pt", b"7z\xbc\xaf\x27\x1c\0\x04" + payload, "an archive that is not opened")
    yield Case("rar.bin", b"Rar!\x1a\x07\x01\0" + payload, "an archive that is not opened")


def object_pickle(
    elements: int = 4,
    shape: bytes = b"K\x04\x85",
    stride: bytes = b"K\x01\x85",
    offset: bytes = b"K\x00",
    storage: str = "FloatStorage",
    key: str = "0",
    device: str = "cpu",
) -> bytes:
    """The pickle of ``{"w": tensor}`` as torch.save writes it, with the parts that can lie."""
    count = pickle.dumps(elements, 2)[2:-1]
    return (
        b"\x80\x02}q\x00"
        + text("w")
        + b"ctorch._utils\n_rebuild_tensor_v2\n(("
        + text("storage")
        + b"ctorch\n"
        + storage.encode()
        + b"\n"
        + text(key)
        + text(device)
        + count
        + b"tQ"
        + offset
        + shape
        + stride
        + b"\x89ccollections\nOrderedDict\n)RtRs."
    )


def resources() -> Iterator[Case]:
    """Small pickles that ask for much memory or time."""

    def zipped(name: str, data: bytes, why: str, refused: bool = True) -> Case:
        return _in_torch_zip(f"resource-{name}", data, why, refused)

    body = object_pickle()[2:-1]
    yield zipped(
        "bytearray", b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\x02\x85R0" + body + b".", "eight gigabytes asked for"
    )
    yield zipped(
        "bytearray-huge",
        b"\x80\x02cbuiltins\nbytearray\n\x8a\x08" + b"\xff" * 7 + b"\x0f\x85R0" + body + b".",
        "an exabyte asked for",
    )
    yield zipped("deep-list", b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b".", "a list 300,000 deep")
    yield zipped("deep-tuple", b"\x80\x02)" + b"\x85" * 300_000 + b".", "a tuple 300,000 deep")
    double = b"".join(b"]q" + bytes([n]) + b"(h" + bytes([n - 1]) + b"h" + bytes([n - 1]) + b"e" for n in range(1, 60))
    yield zipped("shared-lists", b"\x80\x02]q\x00" + double + b".", "lists in lists, two to the power of sixty on paper")
    pair = b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(60))
    yield zipped("shared-tuple-as-key", b"\x80\x02}(" + b"K\x01q\x00" + pair + b"K\x01u.", "a key whose hash takes for ever")
    yield zipped(
        "shared-tuple-in-a-set", b"\x80\x02cbuiltins\nset\n](K\x01q\x00" + pair + b"e\x85R.", "a member whose hash takes for ever"
    )
    yield zipped(
        "shared-tuple-counted", b"\x80\x02ccollections\nCounter\n](K\x01q\x00" + pair + b"e\x85R.", "as a key of a Counter"
    )
    yield zipped("list-in-itself", b"\x80\x02]q\x00h\x00a.", "a list in itself")
    yield zipped("dict-in-itself", b"\x80\x02}q\x00" + text("a") + b"h\x00s.", "a dict in itself")
    yield zipped("memo-at-2-32", b"\x80\x02}r\xff\xff\xff\xff.", "a memo of four billion entries")
    yield zipped("text-of-2-gigabytes", b"\x80\x02X\xff\xff\xff\x7fabc.", "a text of two gigabytes that is not there")
    yield zipped("bytes-of-an-exabyte", b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0fabc.", "bytes that are not there")
    yield zipped(
        "number-of-a-megabyte", b"\x80\x02\x8b" + struct.pack("<i", 1 << 20) + b"\x7f" * (1 << 20) + b".", "a huge number"
    )
    yield zipped("negative-long", b"\x80\x02\x8b\xff\xff\xff\xff.", "a number of negative length")
    yield zipped("decimal-of-a-million-digits", b"L" + b"9" * 1_000_000 + b"L\n.", "a number in decimal")
    yield zipped("marks", b"\x80\x02" + b"(" * 1_000_000 + b".", "a million marks")
    yield zipped(
        "attributes-on-a-dict", b"\x80\x02ccollections\nOrderedDict\n)R}" + text("items") + b"K\x01sb.", "items is overwritten"
    )


def tensor_lies() -> Iterator[Case]:
    """Tensors and storages that are not what the pickle says."""
    four = b"K\x04\x85"
    far = b"\x8a\x08" + struct.pack("<q", 1 << 62)
    for name, data in (
        ("larger-than-storage", object_pickle(shape=b"M\xff\xff\x85")),
        ("offset-beyond", object_pickle(offset=b"K\x02")),
        ("offset-negative", object_pickle(offset=b"J\xff\xff\xff\xff")),
        ("shape-negative", object_pickle(shape=b"J\xff\xff\xff\xff\x85")),
        ("stride-negative", object_pickle(stride=b"J\xff\xff\xff\xff\x85")),
        ("view-of-2-62", object_pickle(shape=far + b"\x85", stride=b"K\0\x85")),
        ("stride-of-2-62", object_pickle(stride=far + b"\x85")),
        ("storage-of-2-62", object_pickle(elements=1 << 62)),
        ("storage-of-2-200", object_pickle(elements=1 << 200)),
        ("storage-negative", object_pickle(elements=-4)),
        ("storage-smaller", object_pickle(elements=3)),
        ("storage-larger", object_pickle(elements=5)),
        ("storage-of-more-digits-than-fit", object_pickle(elements=1 << 20_000)),
        ("other-key", object_pickle(key="1")),
        ("key-is-a-path", object_pickle(key="../../etc/passwd")),
        ("key-is-absolute", object_pickle(key="/etc/passwd")),
        ("unknown-storage", object_pickle(storage="NoSuchStorage")),
    ):
        yield _in_torch_zip(f"lie-{name}", data, "a tensor that is not what the pickle says")
    many = b"(" + b"K\x01" * 100 + b"t"
    yield _in_torch_zip("odd-dimensions", object_pickle(shape=four, stride=b")"), "torch makes the stride itself", refused=False)
    yield _in_torch_zip(
        "odd-hundred-dimensions", object_pickle(shape=many, stride=many), "a hundred dimensions of size 1", refused=False
    )
    yield _in_torch_zip(
        "lie-meta-device", object_pickle().replace(b"_rebuild_tensor_v2", b"_rebuild_meta_tensor_no_storage"), "no values"
    )
    for name, value, refused in (
        ("meta", torch.zeros(1 << 50, device="meta"), True),
        ("sparse", torch.eye(3).to_sparse(), True),
        ("expanded", torch.zeros(1).expand(1 << 40), True),
    ):
        data = io.BytesIO()
        torch.save({"w": value}, data)
        yield Case(f"kind-{name}.pt", data.getvalue(), "a tensor of another kind", refused)


def legacy(canary: str) -> Iterator[Case]:
    """torch's old format, and the older one in a tar archive."""
    sound = io.BytesIO()
    torch.save({"w": torch.ones(4)}, sound, _use_new_zipfile_serialization=False)
    data = sound.getvalue()
    payload = dict(_payloads(canary))["global-reduce"]
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    machine = pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {}}, 2)
    yield Case("legacy-sound.pt", data, "one tensor", refused=False)
    yield Case("legacy-payload.pt", magic + machine + payload + pickle.dumps([], 2), "runs code")
    yield Case("legacy-payload-in-the-machine.pt", magic + payload + payload, "runs code")
    yield Case("legacy-payload-in-the-keys.pt", magic + machine + pickle.dumps({}, 2) + payload, "runs code")
    yield Case("legacy-payload-behind.pt", data + payload, "a pickle behind the last storage")
    yield Case("legacy-cut.pt", data[:-5], "cut")
    yield Case("legacy-magic-only.pt", magic, "nothing behind the magic number")
    yield Case("legacy-count-lies.pt", data[:-24] + struct.pack("<q", 1 << 60) + data[-16:], "a storage that says it is larger")
    yield Case("legacy-count-negative.pt", data[:-24] + struct.pack("<q", -4) + data[-16:], "a storage of negative size")


def odd_keys() -> Iterator[Case]:
    """Sound objects that look odd."""
    for name, value in (
        ("ordered", collections.OrderedDict(w=torch.ones(3))),
        ("tuple-keys", {("a", ("b", 1)): torch.ones(2)}),
        ("nested", {"a": [{"b": (torch.ones(2), None, {"c": 1.5})}]}),
    ):
        data = io.BytesIO()
        torch.save(value, data)
        yield Case(f"sound-{name}.pt", data.getvalue(), "a sound object", refused=False)


def cases(canary: str) -> Iterator[Case]:
    yield from running(canary)
    yield from broken(canary)
    yield from resources()
    yield from tensor_lies()
    yield from legacy(canary)
    yield from odd_keys()
