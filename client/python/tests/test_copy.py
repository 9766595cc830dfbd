from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from listwatch import v1
from listwatch.events import (
    Apply,
    CaughtUp,
    Cause,
    Change,
    Delete,
    DeleteCause,
    Disconnected,
    InitApply,
    InitBegin,
    InitDone,
    ManifestBegin,
    NetBegin,
    Unchanged,
)
from listwatch.reflection.copy import Applied, Copy, KeyChange
from listwatch.reflection.objects import Undecodable
from sent import point, resource


def apply(name: str, revision: int, uid: str = "") -> Apply:
    return Apply(resource(name, revision, uid), Change.UPSERTED)


def delete(name: str, revision: int) -> Delete:
    return Delete(resource(name, revision), DeleteCause.REQUEST)


def initial(copy: Copy[bytes], *objects: Tuple[str, int]) -> None:
    copy.apply(InitBegin())
    for name, revision in objects:
        copy.apply(InitApply(resource(name, revision)))
    assert copy.apply(InitDone(point(9))) is Applied.SWAPPED


def changes(copy: Copy[Any]) -> List[Tuple[str, Optional[int], Optional[int]]]:
    def told(change: KeyChange[Any]) -> Tuple[str, Optional[int], Optional[int]]:
        old, new = change.old, change.new
        return (
            change.key.name,
            None if old is None else old.revision,
            None if new is None else new.revision,
        )

    return [told(change) for change in copy.publish()]


def held(copy: Copy[Any]) -> Dict[str, int]:
    return {key.name: each.revision for key, each in copy.published.items()}


def ready(*objects: Tuple[str, int]) -> Copy[bytes]:
    copy = Copy(bytes)
    initial(copy, *objects)
    copy.publish()
    return copy


def test_an_initial_state_is_shown_as_a_whole() -> None:
    copy = Copy(bytes)
    copy.apply(InitBegin())
    copy.apply(InitApply(resource("a", 1)))
    assert not copy.has_changes
    copy.apply(InitDone(point(2)))
    assert changes(copy) == [("a", None, 1)]


def test_a_second_initial_state_tells_only_what_differs() -> None:
    copy = ready(("a", 1), ("b", 2), ("c", 3))
    initial(copy, ("a", 1), ("b", 5))
    assert changes(copy) == [("b", 2, 5), ("c", 3, None)]
    assert held(copy) == {"a": 1, "b": 5}


def test_half_an_initial_state_is_thrown_away() -> None:
    copy = ready(("a", 1))
    copy.apply(InitBegin())
    copy.apply(InitApply(resource("b", 2)))
    copy.apply(Disconnected(Cause.SILENT, 1.0))
    assert not copy.has_changes


def test_changes_of_one_snapshot_are_told_once_a_key() -> None:
    copy = ready(("a", 1))
    copy.apply(apply("a", 2))
    copy.apply(apply("a", 3))
    copy.apply(apply("b", 4))
    copy.apply(delete("b", 5))
    assert changes(copy) == [("a", 1, 3)]


def test_the_same_version_is_not_told() -> None:
    copy = ready(("a", 1))
    copy.apply(apply("a", 1))
    assert not copy.has_changes


def test_what_changes_and_changes_back_is_not_told() -> None:
    copy = ready(("a", 1))
    copy.apply(apply("a", 2))
    initial(copy, ("a", 1))
    assert changes(copy) == []


def test_a_late_deletion_is_passed_over() -> None:
    copy = ready(("a", 7))
    copy.apply(delete("a", 6))
    assert not copy.has_changes
    copy.apply(delete("a", 8))
    assert changes(copy) == [("a", 7, None)]


def test_another_uid_is_one_change() -> None:
    copy = ready(("a", 1))
    copy.apply(apply("a", 5, "uid-new"))
    (change,) = copy.publish()
    assert change.old is not None
    assert change.new is not None
    assert (change.old.uid, change.new.uid) == ("uid-a", "uid-new")


def test_a_net_difference_is_swapped_in() -> None:
    copy = ready(("a", 1), ("b", 2))
    copy.apply(NetBegin())
    copy.apply(apply("c", 5))
    copy.apply(delete("a", 6))
    assert not copy.has_changes
    assert copy.apply(CaughtUp(point(6))) is Applied.SWAPPED
    assert changes(copy) == [("a", 1, None), ("c", None, 5)]


def test_half_a_net_difference_is_thrown_away() -> None:
    copy = ready(("a", 1))
    copy.apply(NetBegin())
    copy.apply(delete("a", 6))
    copy.apply(NetBegin())
    copy.apply(CaughtUp(point(6)))
    assert changes(copy) == []


def test_a_manifest_keeps_what_it_names() -> None:
    copy = ready(("a", 1), ("b", 2), ("c", 3))
    copy.apply(ManifestBegin())
    copy.apply(Unchanged(resource("a", 1)))
    copy.apply(apply("b", 5))
    copy.apply(CaughtUp(point(6)))
    assert changes(copy) == [("b", 2, 5), ("c", 3, None)]


def test_a_manifest_that_names_what_is_not_held_is_a_contradiction() -> None:
    copy = ready(("a", 1))
    copy.apply(ManifestBegin())
    assert copy.apply(Unchanged(resource("a", 2))) is Applied.CONTRADICTION
    assert copy.apply(Unchanged(resource("b", 1))) is Applied.CONTRADICTION


def test_what_cannot_be_decoded_does_not_end_an_object() -> None:
    copy: Copy[Any] = Copy(json.loads)
    good = v1.Resource()
    good.CopyFrom(resource("a", 1))
    good.value = b'{"n": 1}'
    copy.apply(Apply(good, Change.ADDED))
    copy.publish()
    copy.apply(apply("a", 2))
    assert copy.publish() == []
    (version,) = copy.published.values()
    assert isinstance(version.content, Undecodable)
    assert version.content.last is not None
    assert version.content.last.value == {"n": 1}
    copy.apply(delete("a", 3))
    assert changes(copy) == [("a", 1, None)]
