"""The fused cells of recurrent networks, which torch has for devices only, on the CPU.

Formulas and the layout of what a cell keeps for its gradient: torch/_refs and
aten/src/ATen/native/cuda/RNN.cu, `lstm_cell_forward` and `gru_cell_forward`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Tensors = tuple[torch.Tensor, ...]


def lstm(
    by_input: torch.Tensor,
    by_hidden: torch.Tensor,
    cell: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Tensors:
    """Return hidden state and cell, each (batch, hidden), and the four gates."""
    gates = _biased(by_input, input_bias) + _biased(by_hidden, hidden_bias)
    enter, forget, change, leave = gates.chunk(4, 1)
    enter, forget, leave = enter.sigmoid(), forget.sigmoid(), leave.sigmoid()
    change = change.tanh()
    new_cell = forget * cell + enter * change
    kept = torch.cat([enter, forget, change, leave], 1)
    return leave * new_cell.tanh(), new_cell, kept


def lstm_backward(
    hidden_gradient: torch.Tensor | None,
    cell_gradient: torch.Tensor | None,
    cell: torch.Tensor,
    new_cell: torch.Tensor,
    kept: torch.Tensor,
    has_bias: bool,
) -> tuple[Any, ...]:
    """Return the gradients of the gates (batch, 4 hidden), of the cell and of a bias."""
    enter, forget, change, leave = kept.chunk(4, 1)
    out = new_cell.tanh()
    by_hidden = _or_zeros(hidden_gradient, cell)
    by_cell = _or_zeros(cell_gradient, cell) + by_hidden * leave * (1 - out * out)
    gates = torch.cat(
        [
            by_cell * change * enter * (1 - enter),
            by_cell * cell * forget * (1 - forget),
            by_cell * enter * (1 - change * change),
            by_hidden * out * leave * (1 - leave),
        ],
        1,
    )
    bias = gates.sum(0) if has_bias else None
    return gates, by_cell * forget, bias


def gru(
    by_input: torch.Tensor,
    by_hidden: torch.Tensor,
    hidden: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Tensors:
    """Return the hidden state (batch, hidden), and what its gradient needs."""
    reset, update, change = _biased(by_input, input_bias).chunk(3, 1)
    reset_too, update_too, change_too = _biased(by_hidden, hidden_bias).chunk(3, 1)
    reset, update = (reset + reset_too).sigmoid(), (update + update_too).sigmoid()
    change = (change + reset * change_too).tanh()
    kept = torch.cat([reset, update, change, hidden, change_too], 1)
    return (1 - update) * change + update * hidden, kept


def gru_backward(
    gradient: torch.Tensor, kept: torch.Tensor, has_bias: bool
) -> tuple[Any, ...]:
    """Return the gradients of both kinds of gates (batch, 3 hidden), the state and the biases."""
    reset, update, change, hidden, change_too = kept.chunk(5, 1)
    by_update = gradient * (hidden - change) * update * (1 - update)
    by_change = gradient * (1 - update) * (1 - change * change)
    by_reset = by_change * change_too * reset * (1 - reset)
    of_input = torch.cat([by_reset, by_update, by_change], 1)
    of_hidden = torch.cat([by_reset, by_update, by_change * reset], 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, gradient * update, *biases


def _biased(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return gates if bias is None else gates + bias


def _or_zeros(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


CELLS: dict[str, Callable[..., Any]] = {
    "aten::_thnn_fused_lstm_cell": lstm,
    "aten::_thnn_fused_lstm_cell_backward_impl": lstm_backward,
    "aten::_thnn_fused_gru_cell": gru,
    "aten::_thnn_fused_gru_cell_backward": gru_backward,
}
