"""A consistent state of a reflector."""

from __future__ import annotations

from typing import Dict, Generic, Iterator, List, Mapping, Optional, Tuple

from listwatch.reflection.objects import Held, Object, ObjectKey, T, Undecodable


class Snapshot(Mapping[ObjectKey, Object[T]], Generic[T]):
    """Every object as of one revision, by key. Does not change; safe to share between threads.

    A plain ``(namespace, name)`` serves as a key. Iteration is ordered by key.
    """

    def __init__(
        self, held: Mapping[ObjectKey, Held[T]], revision: int, resume_token: Optional[str]
    ) -> None:
        objects: Dict[ObjectKey, Object[T]] = {}
        undecodable: Dict[ObjectKey, Undecodable[T]] = {}
        for key, version in sorted(held.items(), key=lambda item: item[0]):
            if isinstance(version.content, Undecodable):
                undecodable[key] = version.content
            else:
                objects[key] = version.content
        self._objects = objects
        self.undecodable: Mapping[ObjectKey, Undecodable[T]] = undecodable
        """Objects that are there but cannot be decoded."""
        self.revision: int = revision
        """The store revision that it shows; 0 before the first state came."""
        self.resume_token: Optional[str] = resume_token
        """Starts a watch of the same selector after what this snapshot shows, or a little before
        it (then the watch repeats changes that are in the snapshot)."""

    def __getitem__(self, key: Tuple[str, str]) -> Object[T]:
        return self._objects[ObjectKey(*key)]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._objects)

    def __len__(self) -> int:
        """How many objects there are; undecodable ones are not counted."""
        return len(self._objects)

    def namespace(self, namespace: str) -> List[Object[T]]:
        """The objects of one namespace, ordered by name."""
        return [each for key, each in self._objects.items() if key.namespace == namespace]

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} objects at revision {self.revision}>"
