"""The end of a training step in one pass over memory: the limit of the gradient's norm, Adam or
AdamW, the copies of the weights that the next step multiplies by, and their moving average.

PyTorch takes these one after the other, and each in several launches, which read their tensors from
a list of some thirty. Here one launch has a program for every 2,048 numbers of all tensors, which
finds them by a table of addresses. Bytes that a step moves for each parameter of a linear layer,
whose gradient comes in bf16 (counted, see docs/research/optimiser.md):

                                       one after the other             here
    weights to bf16                    read 4, write 2                 write 2
    gradient to float32                read 2, write 4                 -
    its norm, if limited               read 4                          read 2
    its product, if limited            read 4, write 4                 -
    Adam                               read 16, write 12               read 14, write 12
    moving average, if there is one    read 8, write 4                 read 4, write 4
    altogether                         64                              38
    without either "if"                40                              28

Sums are added in a fixed order: two runs have the same bits.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

# Columns of the table of addresses.
PARAMETER, GRADIENT, FIRST, SECOND, STEP, RATE, COPY, AVERAGE, DECAY, COUNT, IS_LOW, COLUMNS = (
    tl.constexpr(place) for place in range(12)
)


@triton.jit
def _pointer(row, COLUMN: tl.constexpr, TYPE: tl.constexpr, IS_ALIGNED: tl.constexpr):
    """The address in a column, so aligned that four numbers are read at once."""
    at = tl.load(row + COLUMN).to(tl.pointer_type(TYPE))
    if IS_ALIGNED:
        at = tl.multiple_of(at, 16)
    return at


@triton.jit
def _read(at, inside, IS_WHOLE: tl.constexpr):
    """A mask whose end is not known in advance makes a read one of single numbers."""
    if IS_WHOLE:
        return tl.load(at)
    return tl.load(at, mask=inside, other=0.0)


@triton.jit
def _write(at, value, inside, IS_WHOLE: tl.constexpr):
    if IS_WHOLE:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=inside)


@triton.jit
def _gradient(row, place, inside, IS_ALIGNED: tl.constexpr, IS_WHOLE: tl.constexpr):
    if tl.load(row + IS_LOW) != 0:
        low = _pointer(row, GRADIENT, tl.bfloat16, IS_ALIGNED)
        gradient = _read(low + place, inside, IS_WHOLE).to(tl.float32)
    else:
        wide = _pointer(row, GRADIENT, tl.float32, IS_ALIGNED)
        gradient = _read(wide + place, inside, IS_WHOLE)
    return gradient


@triton.jit
def squares_kernel(table, chunks, partial, IS_ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """(chunks,) the sum of the squares of each chunk of the gradient."""
    chunk = tl.program_id(0)
    row = table + tl.load(chunks + 2 * chunk) * COLUMNS
    start = tl.load(chunks + 2 * chunk + 1) * BLOCK
    place, count = start + tl.arange(0, BLOCK), tl.load(row + COUNT)
    if start + BLOCK <= count:
        gradient = _gradient(row, place, place < count, IS_ALIGNED, True)
    else:
        gradient = _gradient(row, place, place < count, IS_ALIGNED, False)
    tl.store(partial + chunk, tl.sum(gradient * gradient, axis=0))


@triton.jit
def advance_kernel(
    table, partial, factor, numbers, tensors, chunks, clip,
    LOG_FIRST: tl.constexpr, LOG_SECOND: tl.constexpr, IS_DECOUPLED: tl.constexpr,
    IS_CLIPPED: tl.constexpr, FEW: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Count the step of every tensor; what its numbers are multiplied by, (tensors, 3): the size of
    a step, √(1 - β₂ᵗ), and the decay; and what limits the gradient, ().

    One program. 1 - βᵗ is taken in float64: in float32 little of 1 - 0.999 is right.
    """
    if IS_CLIPPED:
        summed = tl.zeros((WIDE,), tl.float32)
        for start in range(0, chunks, WIDE):
            chunk = start + tl.arange(0, WIDE)
            summed += tl.load(partial + chunk, mask=chunk < chunks, other=0.0)
        limit = clip / (tl.sqrt_rn(tl.sum(summed, axis=0)) + 1e-6)
        tl.store(factor, tl.where(limit > 1.0, 1.0, limit))  # not a number stays that
    for start in range(0, tensors, FEW):
        tensor = start + tl.arange(0, FEW)
        inside = tensor < tensors
        row = table + tensor * COLUMNS
        at = tl.load(row + STEP, mask=inside, other=0).to(tl.pointer_type(tl.float32))
        step = tl.load(at, mask=inside, other=0.0) + 1.0
        tl.store(at, step, mask=inside)
        at = tl.load(row + RATE, mask=inside, other=0).to(tl.pointer_type(tl.float32))
        rate = tl.load(at, mask=inside, other=0.0).to(tl.float64)
        decay = tl.load(row + DECAY, mask=inside, other=0).to(tl.float64, bitcast=True)
        size = rate / (1.0 - tl.exp(step.to(tl.float64) * LOG_FIRST))
        root = tl.sqrt(1.0 - tl.exp(step.to(tl.float64) * LOG_SECOND))
        tl.store(numbers + 3 * tensor, size.to(tl.float32), mask=inside)
        tl.store(numbers + 3 * tensor + 1, root.to(tl.float32), mask=inside)
        if IS_DECOUPLED:
            decay *= rate
        tl.store(numbers + 3 * tensor + 2, decay.to(tl.float32), mask=inside)


@triton.jit
def _step(
    row, numbers, place, inside, factor, share, eps, BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    IS_DECOUPLED: tl.constexpr, IS_CLIPPED: tl.constexpr, IS_ALIGNED: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):  # fmt: skip
    to_parameter = _pointer(row, PARAMETER, tl.float32, IS_ALIGNED) + place
    to_first = _pointer(row, FIRST, tl.float32, IS_ALIGNED) + place
    to_second = _pointer(row, SECOND, tl.float32, IS_ALIGNED) + place
    gradient = _gradient(row, place, inside, IS_ALIGNED, IS_WHOLE)
    parameter = _read(to_parameter, inside, IS_WHOLE)
    first = _read(to_first, inside, IS_WHOLE)
    second = _read(to_second, inside, IS_WHOLE)
    size, root, decay = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    if IS_CLIPPED:
        gradient *= tl.load(factor)
    if IS_DECOUPLED:
        parameter -= decay * parameter
    else:
        gradient += decay * parameter
    first += (gradient - first) * (1.0 - BETA_1)
    second = second * BETA_2 + gradient * gradient * (1.0 - BETA_2)
    parameter -= size * first / (tl.sqrt_rn(second) / root + eps)
    _write(to_parameter, parameter, inside, IS_WHOLE)
    _write(to_first, first, inside, IS_WHOLE)
    _write(to_second, second, inside, IS_WHOLE)
    if tl.load(row + COPY) != 0:
        to_copy = _pointer(row, COPY, tl.bfloat16, IS_ALIGNED) + place
        _write(to_copy, parameter.to(tl.bfloat16), inside, IS_WHOLE)
    if tl.load(row + AVERAGE) != 0:
        to_average = _pointer(row, AVERAGE, tl.float32, IS_ALIGNED) + place
        average = _read(to_average, inside, IS_WHOLE)
        average += (parameter - average) * tl.load(share)
        _write(to_average, average, inside, IS_WHOLE)


@triton.jit
def adam_kernel(
    table, chunks, numbers, factor, share, eps, BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    IS_DECOUPLED: tl.constexpr, IS_CLIPPED: tl.constexpr, IS_ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The step of each chunk."""
    chunk = tl.program_id(0)
    tensor = tl.load(chunks + 2 * chunk)
    row, numbers = table + tensor * COLUMNS, numbers + 3 * tensor
    start = tl.load(chunks + 2 * chunk + 1) * BLOCK
    place, count = start + tl.arange(0, BLOCK), tl.load(row + COUNT)
    if start + BLOCK <= count:
        _step(row, numbers, place, place < count, factor, share, eps, BETA_1, BETA_2,
              IS_DECOUPLED, IS_CLIPPED, IS_ALIGNED, True)  # fmt: skip
    else:
        _step(row, numbers, place, place < count, factor, share, eps, BETA_1, BETA_2,
              IS_DECOUPLED, IS_CLIPPED, IS_ALIGNED, False)  # fmt: skip
