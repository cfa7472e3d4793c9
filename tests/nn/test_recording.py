"""What surrounds a recording: work that is left for after it, and no garbage collection in it."""

import gc

import pytest

from gelgt.nn.recording import after_recording, is_recording, recording


def test_work_is_left_for_after_a_recording() -> None:
    done: list[str] = []
    with recording():
        assert is_recording()
        after_recording(lambda: done.append("later"))
        assert done == []
    assert done == ["later"]
    assert not is_recording()


def test_nothing_is_collected_while_work_is_recorded() -> None:
    """An earlier recording that is freed meanwhile would end the one that is made."""
    assert gc.isenabled()
    with recording():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_recording_that_fails_leaves_no_trace() -> None:
    with pytest.raises(RuntimeError, match="out of memory"), recording():
        raise RuntimeError("out of memory")
    assert gc.isenabled()
    assert not is_recording()


def test_who_collects_nothing_is_left_so() -> None:
    gc.disable()
    try:
        with recording():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
