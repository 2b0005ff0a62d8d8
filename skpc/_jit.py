"""The one door to numba: the kernel decorator and the few intrinsics.

Every compiled function of the package is made by :func:`kernel`; beside ``_compiler``, which sees
to the inside of numba, no other module imports it. Kernels release the GIL, so a plain pool of
threads runs them side by side.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skpc._compiler import compile_for_others, dispatcher, ship

__all__ = [
    "FALSE",
    "KERNELS",
    "LANES",
    "TRUE",
    "ZERO",
    "add_products",
    "compile_for_others",
    "inlined",
    "internal_kernel",
    "kernel",
    "popcount",
    "ship",
]

P = ParamSpec("P")
R = TypeVar("R")

#: Numbers that :func:`add_products` takes at a time.
LANES = 8

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
        # Used with arguments, a decorator is called without the function.
        if func is None:
            return lambda func: decorate(func, new_arrays=new_arrays)
        # Every kernel is listed, for those who compile or ship all of them.
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


def _add_products(typingctx: Any, out: Any, left: Any, right: Any, i: Any, j: Any, n: Any) -> Any:
    """Add products of a panel of four rows to n neighbouring vectors of eight numbers of two rows.

    ``out[i, t] += sum over b < 4 of left[b, i] * right[b, t]`` for t from j to j + n, and the same
    for the row after i, in arrays of float64 of three dimensions whose last two have the same
    sizes. The compiler would take such lanes one by one, and fetch those of ``left``
    again for each t, as it cannot know that ``out`` is neither of the factors.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), LANES)
        arrays = [
            context.make_array(array_type)(context, builder, array)
            for array_type, array in zip(signature.args[:3], args[:3])
        ]
        # Of a numba array only the pointer to its data is needed here.
        out, left, right = (array.data for array in arrays)
        i, j, n = args[3:]
        lanes = ir.Constant(i.type, LANES)
        # Numbers from one row to the next: its vectors, of eight numbers each.
        step = builder.mul(builder.extract_value(arrays[0].shape, 1), lanes)

        def pointer(array: Any, position: Any) -> Any:
            return builder.bitcast(builder.gep(array, [position]), vector.as_pointer())

        def of_panel(array: Any, position: Any) -> list[Any]:
            places = (builder.add(position, builder.mul(step, i.type(b))) for b in range(4))
            # Arrays begin at multiples of eight bytes, not of whole vectors.
            return [builder.load(pointer(array, place), align=8) for place in places]

        rows = i, builder.add(i, i.type(1))
        # Factors are the same for all vectors of the panel, and are read before the loop.
        factors = [of_panel(left, builder.mul(row, lanes)) for row in rows]
        with cgutils.for_range(builder, n) as loop:
            column = builder.mul(builder.add(j, loop.index), lanes)
            # The panel is read once for both rows.
            panel = of_panel(right, column)
            targets = [pointer(out, builder.add(builder.mul(row, step), column)) for row in rows]
            totals = [builder.load(target, align=8) for target in targets]
            for target, total, factors_of_row in zip(targets, totals, factors):
                for left_factor, right_factor in zip(factors_of_row, panel):
                    # Contraction allows fused multiply-adds, which round once in place of twice.
                    product = builder.fmul(left_factor, right_factor, flags=("contract",))
                    total = builder.fadd(total, product, flags=("contract",))
                builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(out, left, right, i, j, n), codegen


popcount: Any = intrinsic(_popcount)
add_products: Any = intrinsic(_add_products)
