import pytest

from gelgt import GelgtError
from gelgt.cli.parse import sizes


@pytest.mark.parametrize("text", ["1e400", "300,inf", "-1e999", "nan", "", "3 000"])
def test_sizes_that_are_no_whole_numbers(text: str) -> None:
    with pytest.raises(GelgtError, match="is not a list of sizes") as caught:
        sizes(text)
    assert caught.value.code == "bad_size"
