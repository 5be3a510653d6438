"""The two kernels as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dynid.base.errors import UsageError
from dynid.kernel import using


@pytest.fixture(params=["numpy", "native"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test once with each kernel."""
    try:
        context = using(request.param)
        context.__enter__()
    except UsageError:
        pytest.skip("the native kernel was not built")
    yield request.param
    context.__exit__(None, None, None)


@pytest.fixture
def native_kernel() -> None:
    """Skips a test of the native kernel where that was not built."""
    try:
        with using("native"):
            pass
    except UsageError:
        pytest.skip("the native kernel was not built")
