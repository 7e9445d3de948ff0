"""What kind of name a pickle asks for: harmless, a framework's, a stranger's, or one that runs code."""

from __future__ import annotations

import enum
import re
import sys

from .pickle_survey import COMPUTED, Name


class Kind(enum.Enum):
    """``KNOWN``: torch loads it by itself; ``DATA``: a data class of the standard library or of a framework;
    ``FOREIGN``: a class of some project; ``UNSAFE``: a function that runs code or reaches outside the process."""

    KNOWN = "known"
    DATA = "data"
    FOREIGN = "foreign"
    UNSAFE = "unsafe"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What torch.load(weights_only=True) accepts without being asked (torch/_weights_only_unpickler.py, torch 2.13).
_KNOWN = re.compile(
    r"""
    collections\.(OrderedDict|Counter) | _codecs\.encode | builtins\.(bytearray|set|complex)
    | torch\.(nn\.parameter\.Parameter|serialization\._get_layout|Size|Tensor|device)
    | torch(\.cuda|\.sparse|\.cuda\.sparse|\.storage)?\.[A-Za-z0-9]+(Tensor|Storage)
    | torch\.(u?int[1-9]\d*|q?u?int(8|32)|quint[24]x[248]|float[0-9a-z_]+|bfloat16|complex\d+|bool|bits[0-9x]+)
    | torch\.per_(tensor|channel)_(affine|symmetric|affine_float_qparams)
    | torch\._utils\._rebuild_(parameter|parameter_with_state|tensor|tensor_v[23]|qtensor|sparse_tensor|nested_tensor
                               |meta_tensor_no_storage|wrapper_subclass|device_tensor_from_(numpy|cpu_tensor))
    | torch\._tensor\._rebuild_from_type_v2
    """,
    re.VERBOSE,
)

# Names of the standard library that build data and nothing else. functools.partial is one of them: it only keeps the
# function, which the pickle has to name too and which is judged by its own name.
_STANDARD_DATA = re.compile(
    r"""
    collections\.(defaultdict|deque|ChainMap|UserDict|UserList|UserString)
    | builtins\.(object|type|list|dict|tuple|frozenset|str|bytes|int|float|bool|slice|range|Ellipsis|NotImplemented)
    | builtins\.[A-Z]\w*(Error|Exception|Warning)
    | argparse\.Namespace | types\.(SimpleNamespace|MappingProxyType|GenericAlias)
    | pathlib(\._local)?\.(Pure)?(Posix|Windows)?Path
    | datetime\.(date|time|datetime|timedelta|timezone|tzinfo) | zoneinfo\.ZoneInfo(\._unpickle)?
    | decimal\.Decimal | fractions\.Fraction | uuid\.(UUID|SafeUUID) | _?random\.Random | functools\.partial
    | array\.(array|_array_reconstructor) | re\._compile | copyreg\.(_reconstructor|__newobj__|__newobj_ex__)
    | itertools\.(count|cycle|repeat) | _?io\.(BytesIO|StringIO) | logging\.(Logger|RootLogger|getLogger)
    | (typing|collections\.abc|dataclasses|numbers|enum)\.[A-Z]\w*
    """,
    re.VERBOSE,
)

# What libraries rebuild their own data with, although the name sounds as if it ran something: Cython's and pandas' rebuilders,
# NumPy's generators, joblib's place of an array.
_REBUILDERS = re.compile(
    r"""
    (sklearn|scipy|pandas|numpy)\.([\w]+\.)+__pyx_unpickle_\w+ | pandas\._libs\.internals\._unpickle_block
    | numpy\.random\._pickle\.__\w+_ctor | joblib\.numpy_pickle\.(NumpyArray|NDArray|ZNDArray)Wrapper
    """,
    re.VERBOSE,
)

_FRAMEWORKS = _words("""
    accelerate apex auto_gptq bitsandbytes catboost composer datasets deepspeed detectron2 diffusers evaluate fairscale flash_attn
    huggingface_hub hydra imblearn keras lightgbm lightning lightning_fabric lightning_utilities megatron ml_dtypes mmcv mmengine
    numpy omegaconf open_clip optimum pandas peft pytorch_lightning safetensors scipy sentence_transformers sklearn statsmodels
    tensordict timm tokenizers torch torchao torchaudio torchdata torchmetrics torchrl torchtitan torchtune torchvision
    torch_geometric transformers trl unsloth xformers xgboost
""")

# Modules whose very purpose is to run code, to reach files, processes or the network, or to rebuild functions from bytes.
_RUNNING_MODULES = _words("""
    os posix posixpath nt ntpath subprocess sys shutil socket ssl select selectors signal importlib imp runpy pkgutil
    zipimport ctypes _ctypes cffi pty tty pickle _pickle cPickle marshal shelve dbm code codeop pdb bdb timeit profile
    cProfile trace doctest unittest test webbrowser operator _operator gc inspect dis ast site sysconfig venv ensurepip pip
    setuptools distutils pkg_resources wheel multiprocessing _posixsubprocess threading _thread asyncio concurrent http urllib
    ftplib smtplib poplib imaplib telnetlib nntplib xmlrpc socketserver tempfile glob io _io builtins types codecs platform
    pydoc idlelib lib2to3 tkinter turtle antigravity _osx_support sched atexit faulthandler resource fcntl mmap sqlite3
    _sqlite3 zipfile tarfile gzip bz2 lzma fileinput linecache cloudpickle dill joblib jsonpickle IPython numexpr execnet
    paramiko fabric invoke pexpect requests httpx aiohttp logging popen2 commands dl
""")

# A framework's name is judged by the words of its dotted path, because some frameworks can run anything too. A class
# is seldom called with effects, so fewer words count against it, and none of its own name.
_RUNNING_PATHS = _words("""
    subprocess multiprocessing elastic rpc jit hub codecache extension testing distutils f2py launch launcher
""")
_RUNNING_WORDS = _RUNNING_PATHS | _words("""
    load loads exec eval compile run runs runstring import system popen spawn shell command open save download fx fromfile
    memmap pickle unpickle script
""")


# How libraries keep a function by its code, and what such a pickle needs beside them.
_KEEPER = re.compile(r"(\w+\.)*(cloudpickle|_?dill)\..+")
_OF_KEEPERS = re.compile(r"types\.\w+Type|builtins\.(getattr|property|staticmethod|classmethod|super)")


def keeps_code(name: str) -> bool:
    """Whether a name is one with which cloudpickle or dill keeps a function of the user's own, code and all."""
    return _KEEPER.fullmatch(name) is not None


def by_danger(name: str) -> int:
    """The order of unsafe names: first what neither keeps code nor belongs to what does."""
    return 1 if keeps_code(name) else 2 if _OF_KEEPERS.fullmatch(name) else 0


def kind(name: Name) -> Kind:
    """What kind of name this is; neither its spelling nor what it means in Python 3 may be unsafe."""
    if Kind.UNSAFE in (_kind(name.name), _kind(name.spelling)):
        return Kind.UNSAFE
    return _kind(name.name)


def _kind(name: str) -> Kind:
    if name == COMPUTED:
        return Kind.UNSAFE
    if _KNOWN.fullmatch(name):
        return Kind.KNOWN
    if _STANDARD_DATA.fullmatch(name) or _REBUILDERS.fullmatch(name):
        return Kind.DATA
    top, _, below = name.partition(".")
    module, _, last = below.rpartition(".")
    a_class = last.lstrip("_")[:1].isupper()
    if top in _RUNNING_MODULES:
        return Kind.UNSAFE
    if top in _FRAMEWORKS:
        runs = _parts(module) & _RUNNING_PATHS if a_class else _parts(below) & _RUNNING_WORDS
        return Kind.UNSAFE if runs else Kind.DATA
    if top in sys.stdlib_module_names and not a_class:
        return Kind.UNSAFE
    return Kind.FOREIGN


def _parts(path: str) -> set[str]:
    return set(re.split(r"[._]+", path.lower()))
