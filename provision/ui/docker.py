"""Show a built image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.text import size

if TYPE_CHECKING:
    from provision.image.docker import BuiltImage
    from provision.ui.console import Console


def show_image(result: BuiltImage, console: Console) -> None:
    """Print the image's tag and how to check it."""
    console.line(
        f"{result.tag} is built: {size(result.size)}, in {result.seconds:.1f} s", "bold green"
    )
    if result.layout:
        console.line(f"{result.layout}: {result.digest}")
    console.line("Next: prove it on its device")
    console.line(f"  docker run --rm {result.tag}")
