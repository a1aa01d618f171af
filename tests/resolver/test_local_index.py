from __future__ import annotations

import json

import pytest
import requests

from provision.catalog.snapshot import Wheel
from provision.core.errors import ToolError
from provision.core.process import Completed, Run
from provision.resolver import local_index
from provision.resolver.uv import UvResolver
from tests.resolver.test_uv import target

TORCH = Wheel(
    filename="torch-2.13.0+cpu-cp311-cp311-win_amd64.whl",
    url="https://example.org/torch.whl",
    sha256="a" * 64,
    size=7,
    requires_python=">=3.10",
    requires_dist=("filelock", "jinja2; python_version < '4'"),
)
INDEXES = {"vendor": (TORCH,), "empty": ()}


def test_a_page_shows_file_hash_size_and_python() -> None:
    reply = local_index.respond(INDEXES, "/digest/vendor/torch/")
    (file,) = json.loads(reply.body)["files"]
    assert reply.content_type == "application/vnd.pypi.simple.v1+json"
    assert file["hashes"] == {"sha256": "a" * 64}
    assert (file["size"], file["requires-python"], file["core-metadata"]) == (
        7,
        ">=3.10",
        True,
    )
    assert file["url"] == "../files/torch-2.13.0%2Bcpu-cp311-cp311-win_amd64.whl"


def test_nothing_else_is_there() -> None:
    for path in (
        "/",
        "/d/vendor/",
        "/d/vendor/numpy/",
        "/d/empty/torch/",
        "/d/else/torch/",
        f"/d/empty/files/{TORCH.filename}",
    ):
        assert local_index.respond(INDEXES, path).status == 404


@pytest.mark.machine
def test_it_is_served_while_the_context_lasts_and_its_address_shows_the_content() -> (
    None
):
    with local_index.serve(INDEXES, "f" * 64) as urls:
        assert set(urls) == {"vendor", "empty"}
        assert f"/{'f' * 16}/vendor/" in urls["vendor"]
        assert (
            requests.get(urls["vendor"] + "torch/", timeout=5).json()["name"] == "torch"
        )
    with pytest.raises(requests.ConnectionError):
        requests.get(urls["vendor"], timeout=5)


@pytest.mark.machine
def test_attack_another_user_does_not_learn_where_the_mirror_is() -> None:
    mirror = "https://me:hunter2@mirror.example/simple"
    with local_index.serve(INDEXES, "f" * 64, mirror) as urls:
        host, _, _ = urls["empty"].partition("/ffff")
        for secret, status in ((f"/{'f' * 16}", 302), ("", 404), ("/ffff", 404)):
            page = f"{host}{secret}/empty/numpy/"
            reply = requests.get(page, allow_redirects=False, timeout=5)
            assert reply.status_code == status
            assert ("hunter2" in str(reply.headers)) is (status == 302)


@pytest.mark.machine
def test_an_error_calls_the_index_by_its_name() -> None:
    def fails(argv: list[str], **_: object) -> Completed:
        address = argv[argv.index("--index") + 1].partition("=")[2]
        said = f"error: Failed to fetch: `{address}torch/`"
        return Completed(tuple(argv), 2, "", said, 0.1)

    with local_index.serve(INDEXES, "f" * 64) as urls:
        run: Run = local_index.with_names(fails, urls)
        with pytest.raises(ToolError) as caught:
            UvResolver(urls, None, run).newest(target(), ["torch"])
    assert caught.value.evidence == "error: Failed to fetch: `index vendor: torch/`"
