"""One layer's keys and values as attention sees them, plain or packed.

Slots are the arena's (`kv_arena`); which slot is whose, the caches decide. A layer is written by
slot, read by slot for prompts, and handed to paged attention as it lies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kernels.kv_record import read_kv, write_kv

if TYPE_CHECKING:
    from torch import Tensor


class PlainLayer(NamedTuple):
    """The numbers themselves.

    Shapes: data (n_slots, 2, n_kv_heads, head_dim); what is written (n_tokens, 2, n_kv_heads,
        head_dim), what is read (n_tokens, n_kv_heads, head_dim) each.
    """

    data: Tensor
    is_lossy: bool = False

    def write(self, slots: Tensor, kv: Tensor) -> None:
        """Copy."""
        self.data.index_copy_(0, slots, kv)

    def read(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Gather; key and value lie side by side, so one gather fetches both."""
        keys, values = self.data.index_select(0, slots).unbind(1)
        return keys, values


class PackedLayer(NamedTuple):
    """Records of FP8 keys and INT4 values: reading gives other numbers than were written.

    Shapes: data (n_slots, n_kv_heads, record_size) uint8; otherwise as `PlainLayer`.
    """

    data: Tensor
    head_dim: int
    is_lossy: bool = True

    def write(self, slots: Tensor, kv: Tensor) -> None:
        """Pack."""
        keys, values = kv.float().unbind(1)
        write_kv(self.data, slots, keys, values)

    def read(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Unpack."""
        return read_kv(self.data, slots, self.head_dim)


KvLayer = PlainLayer | PackedLayer
