"""Keys, selectors and resources without the ceremony of protobuf messages."""

from __future__ import annotations

from typing import Iterable, Mapping, Union

from listwatch import v1

LabelSelection = Union[Mapping[str, str], Iterable[v1.LabelRequirement]]
"""Labels and their values, or requirements; all must hold."""

FieldSelection = Union[Mapping[str, str], Iterable[v1.FieldRequirement]]
"""Paths of fields and their values, or requirements; all must hold."""


def key(collection: str, namespace: str, name: str) -> v1.Key:
    """The key of an object. An empty ``namespace`` is that of objects outside any."""
    return v1.Key(collection=collection, namespace=namespace, name=name)


def resource(
    collection: str,
    namespace: str,
    name: str,
    value: bytes = b"",
    *,
    labels: Mapping[str, str] = {},
    content_type: str = "",
) -> v1.Resource:
    """An object to be written."""
    return v1.Resource(
        key=key(collection, namespace, name),
        value=value,
        labels=labels,
        content_type=content_type,
    )


def select(
    collection: Union[str, v1.Selector],
    *,
    namespace: str = "",
    name: str = "",
    name_prefix: str = "",
    labels: LabelSelection = (),
    fields: FieldSelection = (),
) -> v1.Selector:
    """Says which objects of a collection a list or a watch covers; by default all.

    A whole :class:`v1.Selector` in place of the collection is taken as it is.

    Raises:
        ValueError: A selector was given together with other arguments.
    """
    if isinstance(collection, v1.Selector):
        if namespace or name or name_prefix or labels or fields:
            raise ValueError("a selector says everything: no other argument may be given with it")
        return collection
    if isinstance(labels, Mapping):
        labels = [
            v1.LabelRequirement(key=label, operator=v1.LABEL_OPERATOR_IN, values=[value])
            for label, value in labels.items()
        ]
    if isinstance(fields, Mapping):
        fields = [v1.FieldRequirement(path=path, value=value) for path, value in fields.items()]
    return v1.Selector(
        collection=collection,
        namespace=namespace,
        name=name,
        name_prefix=name_prefix,
        labels=labels,
        fields=fields,
    )
