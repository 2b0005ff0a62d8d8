"""What kernels take from the inside of numba, all of it here; public means do where it has changed.

Nothing public gives these, of which each was measured:

- Kernels that make no arrays do without counts of references, which are atomic additions: the
  reading of a cell takes 1.5 ns and not 17, the score of a row half the time.
- Only what Python calls gets the code that Python calls: a first fit takes two thirds of the time.
- What kernels alone call is optimised with its callers, and becomes no machine code of its own; the
  compiler skips what no kernel has: a first fit takes four fifths of the time.
- No garbage is collected while a kernel is compiled, it is optimised once and not twice, and what
  operators return is remembered: four fifths again.
- Cells of arrays, steps of loops and members of tuples are written in a few instructions, see
  :mod:`skpc._lowering`: a first fit takes 0.86 of the time.
- Machine code on disk is compared with all modules that it was made of, and survives damage; that
  of a wheel is read where there is none of one's own.

If a name that this module needs is missing, ``KNOWN`` is False: kernels are then compiled with
the documented options of numba alone, more slowly and with numba's own cache.
``tests/test_jit.py`` compiles both ways; a slow test does so under the oldest and the newest numba.
"""

import gc
import hashlib
import inspect
import pickle
import re
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from numba import njit, version_info

from skpc._shipped import processor, read_shipped, write_shipped

#: The last version of numba whose compiler has been read: later ones work as they are.
_LAST_VERSION_READ = (0, 68)
#: Passes of numba over what no kernel has: closures, blocks of "with", loops over types; and for
#: listings of types that nobody reads.
_SPARED = (
    "WithLifting",
    "InlineClosureLikes",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "RewriteSemanticConstants",
    "DeadBranchPrune",
    "RewriteDynamicRaises",
    "NopythonRewrites",
    "InlineOverloads",
    "AnnotateTypes",
)

try:
    from numba.core import cgutils, config
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler, Flags
    from numba.core.dispatcher import Dispatcher
    from numba.core.lowering import Lower
    from numba.core.options import DefaultOptions
    from numba.core.serialize import dumps
    from numba.core.sigutils import normalize_signature
    from numba.core.typed_passes import NativeLowering
    from numba.core.types import Function, Type

    from skpc._lowering import KernelLowering

    # Private names of classes that are used below: if one has gone, all is left to numba's public
    # means. Attributes of instances, which KernelLowering reads too, cannot be looked up here: it
    # is used in versions of numba that have been read.
    NAMES = [
        (DefaultOptions, ("_nrt",)),
        (Dispatcher, ("_compile_for_args", "add_overload")),
        (FunctionCache, ("load_overload", "save_overload", "flush", "cache_path")),
        (CompileResultCacheImpl, ("reduce", "rebuild")),
        (NullCache, ("load_overload",)),
        (config, ("CPU_NAME", "CPU_FEATURES")),
        (Compiler, ("compile_extra", "define_pipelines")),
        (Lower, ("lower_getitem", "lower_setitem", "lower_expr", "alloca_lltype", "delvar")),
        (JITCodeLibrary, ("add_llvm_module", "_get_module_for_linking", "_finalize_final_module")),
    ]
    KNOWN = all(hasattr(owner, name) for owner, names in NAMES for name in names)
except ImportError:  # pragma: no cover
    KNOWN = False
    CompileResultCacheImpl = FunctionCache = NullCache = object  # type: ignore[misc, assignment]
    Compiler = Flags = JITCodeLibrary = object  # type: ignore[misc, assignment]
    Function = Type = object  # type: ignore[misc, assignment]

_ROOT = Path(__file__).parent
#: An import of a module of the package at the beginning of a line.
_IMPORT = re.compile(rf"^(?:from|import) {_ROOT.name}\.([\w.]+)", re.MULTILINE)
#: No "nnan" and no "ninf": NaN means missing here and -inf is the log of zero.
_SAFE_FLOAT_FLAGS = {"nsz", "arcp", "contract", "afn", "reassoc"}
#: The cache folder that a warning has named. One warning is enough.
WARNED: list[str] = []


def dispatcher(func: Callable[..., Any], *, internal: bool, inlined: bool, new_arrays: bool) -> Any:
    """A function that is compiled on its first call, or with the first kernel that calls it.

    Parameters
    ----------
    func : callable
        The function.
    internal : bool
        Whether kernels alone call it. Python cannot then: what would unpack its arguments takes
        about as long to compile as the function.
    inlined : bool
        Whether it is copied into each of its callers.
    new_arrays : bool
        Whether it makes arrays, so that references to them have to be counted.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": _SAFE_FLOAT_FLAGS,
        "forceinline": inlined,
    }
    if not KNOWN:
        # Public means know no cache of ours and no wrappers that can be left out.
        return _cached(func, options)
    # Nobody calls a kernel from C.
    options |= {"_nrt": new_arrays, "no_cfunc_wrapper": True, "no_cpython_wrapper": internal}
    if version_info.short <= _LAST_VERSION_READ:
        options["pipeline_class"] = _KernelCompiler
    compiled: Any = njit(**options)(func)
    # A folder to write to, or a file to compare with, may be missing.
    compiled._cache = _ShippedCache(func)
    with suppress(RuntimeError, OSError):
        compiled._cache = _Cache(func)
    if internal:
        # Without a wrapper, Python would follow a null pointer.
        compiled.add_overload = partial(_listed, compiled)
        compiled._compile_for_args = partial(_refused, func.__name__)
    return compiled


def _cached(func: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return njit(cache=True, **options)(func)
    except RuntimeError:  # nothing can be written
        return njit(**options)(func)


def _listed(compiled: Any, result: Any) -> None:
    """Keep machine code where the compiler of kernels finds it, and calls from Python do not."""
    compiled.overloads[tuple(result.signature.args)] = result


def _refused(name: str, *args: Any) -> Any:
    raise TypeError(f"{name} is a part of kernels: call it from one, or its py_func")


class _Flags(Flags):
    """Options of a kernel, compared by what functions of numpy that it calls are compiled for.

    Numba compares all of them, one by one, for each operation of a kernel.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self.nrt == other.nrt

    def __hash__(self) -> int:
        return hash(self.nrt)


class _KernelLibrary(JITCodeLibrary):
    """Code that is optimised once, with all that it calls, and not before by itself."""

    def add_llvm_module(self, module: Any) -> None:
        # What the optimiser of functions does beside its work.
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)

    def _optimize_final_module(self) -> None:
        # Numba does this twice, the first time for the sake of counts of references alone.
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _PartLibrary(JITCodeLibrary):
    """Code that is copied into kernels, and becomes machine code nowhere else."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True
        # What is left for machine code are the places of what numba keeps for Python.
        rest = self._codegen.create_library(self.name)
        module = rest.create_ir_module(self.name)
        for variable in self._get_module_for_linking().global_variables:
            if "NumbaEnv" in variable.name:
                place = cgutils.add_global_variable(module, cgutils.intp_t, variable.name)
                place.linkage = "common"
                place.initializer = cgutils.intp_t(0)
        rest.add_ir_module(module)
        self._final_module = rest._final_module
        self._finalize_final_module()


class _TypingContext:
    """Numba's types of what functions return; those of operators and of numpy are remembered.

    Numba would try all versions of an operator each time that a kernel has it.
    """

    def __init__(self, context: Any):
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        # Kernels, and methods, know their own.
        if kws or isinstance(func, Type) and not isinstance(func, Function):
            return self._context.resolve_function_type(func, args, kws)
        return _returned(self._context, func, args)


@cache
def _returned(context: Any, func: Any, args: Any) -> Any:
    return context.resolve_function_type(func, args, {})


class _KernelCompiler(Compiler):
    """Numba's compiler, without work that kernels make no use of."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        state = self.state
        state.flags = _Flags(state.flags)
        state.typingctx = _TypingContext(state.typingctx)
        library = _PartLibrary if state.flags.no_cpython_wrapper else _KernelLibrary
        state.library = library(state.targetctx.codegen(), func.__qualname__)
        state.library.enable_object_caching()
        # A compiler makes so many objects that collectors of garbage look at all of them often.
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            # What a kernel calls is compiled inside of it.
            if collects:
                gc.enable()

    def define_pipelines(self) -> Any:
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [
            (KernelLowering if step is NativeLowering else step, text)
            for step, text in pipeline.passes
            if step.__name__ not in _SPARED
        ]
        # Numba would rebuild and check the graph of a kernel after each pass.
        pipeline._ENFORCING = False
        return [pipeline]


class _Digested(CompileResultCacheImpl):
    """Machine code that is not run if a byte of it has changed."""

    def reduce(self, result: Any) -> tuple[bytes, bytes]:
        # The digest is taken of the bytes, as broken ones may crash the process when they run.
        content = dumps(result._reduce())
        return hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, reduced: tuple[bytes, bytes]) -> Any:
        digest, content = reduced
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("damaged machine code")
        # Nothing of the cache takes part, so that shipped code needs none.
        return CompileResultCacheImpl.rebuild(self, target_context, pickle.loads(content))


class _ShippedCache(NullCache):
    """Machine code that was installed with the package; nothing is kept."""

    def __init__(self, func: Callable[..., Any]):
        self.func = func

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # As numba's own cache does before it loads code for a target.
        target_context.refresh()
        with suppress(Exception):  # whatever broken bytes may raise: the code is compiled
            wanted = normalize_signature(sig)[0]
            # There are a few signatures a kernel, so that a search is enough.
            for arguments, reduced in read_shipped(*_identity(self.func)):
                if arguments == wanted:
                    return _Digested.rebuild(cast(Any, None), target_context, reduced)
        return None


class _Cache(FunctionCache):
    """Numba's cache of a kernel, which sees other files and survives damage.

    Numba compares the file of a kernel with that at the time of compiling. Here all modules count
    that this file imports: a new version of one of them may be installed in place.
    """

    _impl_class = _Digested

    def __init__(self, func: Callable[..., Any]):
        super().__init__(func)
        file = self._cache_file
        # Numba looks at the file of a kernel alone; inlined kernels of other files count, too.
        file._source_stamp = file._source_stamp, _sources_digest(inspect.getfile(func))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            loaded = super().load_overload(sig, target_context)
            if loaded is None:
                return _ShippedCache(self._py_func).load_overload(sig, target_context)
            # Two processes that write at the same time may give two signatures one file.
            if loaded.signature.args == normalize_signature(sig)[0]:
                return loaded
            raise ValueError("machine code of other arguments")
        except Exception as error:  # whatever broken bytes may raise
            _warn_of_cache(self.cache_path, error)
        # If nothing can be written, the warning has been given.
        with suppress(OSError):
            self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a full disk, or a damaged index
            _warn_of_cache(self.cache_path, error)


def _identity(func: Callable[..., Any]) -> tuple[str, str]:
    """The name of a kernel among all others, and the digest of what it is made of."""
    # Two kernels may have the same name, on different lines.
    name = f"{func.__module__}.{func.__qualname__}.{func.__code__.co_firstlineno}"
    return name, _sources_digest(inspect.getfile(func))


def compile_for_others() -> None:
    """Compile for all processors of the kind of this one, before anything is compiled."""
    # Numba makes these attributes from the environment.
    settings: Any = config
    settings.CPU_NAME = processor()
    # Features beyond those of the named processor would not run elsewhere.
    settings.CPU_FEATURES = ""


def ship(kernels: Iterable[Any], path: Path) -> int:
    """Write the machine code of kernels that have been compiled to a file; how many there are."""
    members = []
    for kernel in kernels:
        results = kernel.overloads.items()
        code = [(args, _Digested.reduce(cast(Any, None), result)) for args, result in results]
        # A kernel that nobody has called has no code.
        if code:
            members.append((*_identity(kernel.py_func), code))
    write_shipped(path, members)
    return len(members)


@cache
def _sources_digest(path: str) -> str:
    """Digest of a file and of all modules of the package that it imports, directly or not.

    Functions and constants of those are compiled into its kernels.
    """
    files = set()
    new = {Path(path)}
    # Modules may import each other in circles: each file is read once.
    while new:
        files |= new
        new = {module for file in new for module in _imported(file)} - files
    together = hashlib.sha256()
    # Sorted, so that the digest does not depend on the order of the search.
    for file in sorted(files):
        together.update(_content(file)[1])
    return together.hexdigest()


@cache
def _content(path: Path) -> tuple[str, bytes]:
    """The text of a file, and its digest."""
    content = path.read_bytes()
    return content.decode(), hashlib.sha256(content).digest()


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The modules of the package that a file names in its imports."""
    places = [_ROOT.joinpath(*name.split(".")) for name in _IMPORT.findall(_content(path)[0])]
    # An import of a package may mean any of its modules.
    modules = (p.glob("*.py") if p.is_dir() else [p.with_suffix(".py")] for p in places)
    return frozenset(file for files in modules for file in files)


def _warn_of_cache(folder: str, error: Exception) -> None:
    if not WARNED:
        WARNED.append(folder)
        warnings.warn(
            f"Compiled functions could not be kept in or read from {folder} "
            f"({type(error).__name__}: {error}). They are compiled anew, which takes some seconds. "
            "If this comes again, make room there, delete its files *.nbi and *.nbc, or set the "
            "environment variable NUMBA_CACHE_DIR to another folder.",
            RuntimeWarning,
            stacklevel=2,
        )
