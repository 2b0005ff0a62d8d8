"""The one door to numba: the kernel decorator and the one intrinsic.

Every compiled function of the package is made by :func:`kernel`; beside ``_compiler``, which sees
to the inside of numba, no other module imports it. Kernels release the GIL, so a plain pool of
threads runs them side by side.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
from numba import types
from numba.extending import intrinsic

from skpc._compiler import dispatcher

P = ParamSpec("P")
R = TypeVar("R")

#: True, False and 0 as arguments of kernels: the literals would each be a type of its own.
TRUE: Any = np.bool_(True)
FALSE: Any = np.bool_(False)
ZERO: Any = np.int64(0)

#: Every kernel that has been declared, in order of declaration.
KERNELS: list[Any] = []


class _Decorator(Protocol):
    @overload
    def __call__(self, func: Callable[P, R]) -> Callable[P, R]: ...
    @overload
    def __call__(self, *, new_arrays: bool) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def _decorator(**options: bool) -> _Decorator:
    def decorate(func: Any = None, *, new_arrays: bool = False) -> Any:
        if func is None:
            return lambda func: decorate(func, new_arrays=new_arrays)
        KERNELS.append(dispatcher(func, new_arrays=new_arrays, **options))
        return KERNELS[-1]

    return cast(_Decorator, decorate)


#: Compile a function of arrays and numbers to machine code on its first call.
#:
#: The machine code is cached on disk where a directory is writable; elsewhere (a read-only install
#: without a home) it is compiled anew in each process. So it is where the cache fails: a full disk
#: or a damaged file costs time and a warning, but no answer.
#:
#: A function that makes arrays, or calls one that returns new ones, says ``new_arrays=True``. The
#: others do without numba's counts of references.
kernel: _Decorator = _decorator(internal=False, inlined=False)

#: Compile a function that kernels alone call; Python cannot.
internal_kernel: _Decorator = _decorator(internal=True, inlined=False)

#: Compile a small part of kernels, to be copied into each of its callers. Worth it where a call
#: would cost more than the work: an array to hand over is seven words.
inlined: _Decorator = _decorator(internal=True, inlined=True)


def _popcount(typingctx: Any, word: Any) -> Any:
    """Count the ones of a uint64 word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


popcount: Any = intrinsic(_popcount)
