"""Operators that the CPU computes for a device: how torch names them, and which ones it leaves to it.

torch for XPU runs a fixed list of operators on the CPU, without being asked to, and warns once in a
process. With `NAMING` set when it is loaded, it names each operator whenever one is run so. torch
for MPS has a list, too, and names the first one of a process.

What a kernel copies to the host on its own, as a transform without MKL does, is named by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NAMING = "PYTORCH_DEBUG_XPU_FALLBACK"
# intel/torch-xpu-ops src/ATen/native/xpu/XPUFallback.template (.cpp from 2.14), xpu_fallback_impl:
# the name has an opening quote only; pytorch/pytorch aten/src/ATen/mps/MPSFallback.mm, mps_fallback.
WARNING = (
    r"The operator '([\w:.]+)'? "
    r"(?:on the XPU backend is falling back"
    r"|is not currently supported on the MPS backend and will fall back)"
    r" to run on the CPU"
)
# The list of torch 2.6: intel/torch-xpu-ops, branch release/2.6, XPUFallback.template. All names
# are of the namespace `aten`.
XPU_2_6 = frozenset(
    {
        "_cholesky_solve_helper",
        "_efficient_attention_forward",
        "_fft_c2c",
        "_fft_c2r",
        "_fft_r2c",
        "_flash_attention_forward",
        "_linalg_det.result",
        "_linalg_eigh.eigenvalues",
        "_linalg_slogdet.sign",
        "_linalg_solve_ex.result",
        "_linalg_svd.U",
        "_scaled_dot_product_efficient_attention",
        "_scaled_mm",
        "_to_sparse_csr",
        "_upsample_bicubic2d_aa.out",
        "_upsample_bilinear2d_aa.out",
        "_validate_compressed_sparse_indices",
        "cholesky",
        "cholesky_inverse",
        "dot",
        "geqrf",
        "index_reduce.out",
        "linalg_cholesky_ex.L",
        "linalg_eig",
        "linalg_householder_product",
        "linalg_inv_ex.inverse",
        "linalg_ldl_factor_ex.out",
        "linalg_ldl_solve.out",
        "linalg_lstsq.out",
        "linalg_lu.out",
        "linalg_lu_factor_ex.out",
        "linalg_lu_solve.out",
        "linalg_matrix_exp",
        "linalg_qr.out",
        "linalg_solve_triangular",
        "lu_unpack.out",
        "ormqr",
        "triangular_solve.X",
        "vdot",
    }
)
# Release -> the names that came and that went since the one before; the same file of the branch
# release/2.N for each.
Names = tuple[str, ...]
XPU_CHANGES: dict[tuple[int, int], tuple[Names, Names]] = {
    (2, 7): (
        (),
        (
            "_fft_c2c",
            "_scaled_dot_product_efficient_attention",
            "_to_sparse_csr",
            "_upsample_bicubic2d_aa.out",
            "_upsample_bilinear2d_aa.out",
            "index_reduce.out",
        ),
    ),
    (2, 8): (
        ("_linalg_eigvals", "linalg_eigvals.out"),
        (
            "_fft_c2r",
            "_fft_r2c",
            "_linalg_det.result",
            "_linalg_slogdet.sign",
            "_linalg_solve_ex.result",
            "linalg_lu_factor_ex.out",
            "linalg_lu_solve.out",
        ),
    ),
    (2, 9): (
        (
            "hash_tensor.out",
            "linalg_eig.out",
            "linalg_householder_product.out",
            "linalg_solve_triangular.out",
        ),
        ("linalg_inv_ex.inverse",),
    ),
    (2, 10): (
        ("cholesky.out", "cholesky_inverse.out", "geqrf.a", "ormqr.out"),
        ("_scaled_mm",),
    ),
    (2, 11): ((), ("dot", "vdot")),
    (2, 12): ((), ("linalg_solve_triangular", "linalg_solve_triangular.out")),
    (2, 13): ((), ("_flash_attention_forward",)),
    (2, 14): (
        ("linalg_matrix_sqrth", "linalg_polar.out"),
        ("cholesky", "cholesky.out"),
    ),
}
# What MPSFallback.mm held in two states of pytorch/pytorch, 33ce5819 and 035290b7; which releases
# these belong to was not read.
MPS = frozenset(
    {
        "bitwise_left_shift.Tensor_out",
        "bitwise_right_shift.Tensor_out",
        "col2im",
        "embedding_renorm_",
        "im2col",
        "linalg_svd",
        "linalg_svd.U",
        "upsample_nearest3d.vec",
    }
)


def names_in(text: str) -> set[str]:
    """Return the operators that torch names in what a program printed or warned of."""
    return {name.removeprefix("aten::") for name in re.findall(WARNING, text)}


def listed(accelerator: str, version: str) -> tuple[frozenset[str], bool]:
    """Return what torch leaves to the CPU, and whether that is the list of this very release.

    For another one, and for what was built between releases, it is the last list before it.
    """
    if accelerator == "mps":
        return MPS, False
    if accelerator != "xpu":
        return frozenset(), False
    major, minor = re.findall(r"\d+", version)[:2]
    release = int(major), int(minor)
    names = set[str]()
    if release >= (2, 6):
        names.update(XPU_2_6)
    for changed, (came, went) in XPU_CHANGES.items():
        if changed <= release:
            names.difference_update(went)
            names.update(came)
    was_read = (2, 6) <= release <= max(XPU_CHANGES)
    is_release = re.fullmatch(r"\d+\.\d+\.\d+(\+[a-z]\w*)?", version) is not None
    return frozenset(names), was_read and is_release


def unlisted(
    names: Iterable[str], accelerator: str, version: str
) -> tuple[list[str], bool]:
    """Return which operators torch should compute on the device, and whether that is certain."""
    expected, certain = listed(accelerator, version)
    return sorted(set(names) - expected), certain
