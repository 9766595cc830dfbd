from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LabelOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LABEL_OPERATOR_UNSPECIFIED: _ClassVar[LabelOperator]
    LABEL_OPERATOR_IN: _ClassVar[LabelOperator]
    LABEL_OPERATOR_NOT_IN: _ClassVar[LabelOperator]
    LABEL_OPERATOR_EXISTS: _ClassVar[LabelOperator]
    LABEL_OPERATOR_NOT_EXISTS: _ClassVar[LabelOperator]

class View(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VIEW_UNSPECIFIED: _ClassVar[View]
    VIEW_FULL: _ClassVar[View]
    VIEW_METADATA: _ClassVar[View]
    VIEW_KEY: _ClassVar[View]

class CatchUp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CATCH_UP_UNSPECIFIED: _ClassVar[CatchUp]
    CATCH_UP_EXACT: _ClassVar[CatchUp]
    CATCH_UP_NET: _ClassVar[CatchUp]

class DeliveryMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_MODE_UNSPECIFIED: _ClassVar[DeliveryMode]
    DELIVERY_MODE_EVERY_CHANGE: _ClassVar[DeliveryMode]
    DELIVERY_MODE_LATEST: _ClassVar[DeliveryMode]

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_TYPE_UNSPECIFIED: _ClassVar[EventType]
    EVENT_TYPE_EXISTING: _ClassVar[EventType]
    EVENT_TYPE_ADDED: _ClassVar[EventType]
    EVENT_TYPE_MODIFIED: _ClassVar[EventType]
    EVENT_TYPE_DELETED: _ClassVar[EventType]
    EVENT_TYPE_UNCHANGED: _ClassVar[EventType]
    EVENT_TYPE_UPSERTED: _ClassVar[EventType]

class DeleteCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELETE_CAUSE_UNSPECIFIED: _ClassVar[DeleteCause]
    DELETE_CAUSE_REQUEST: _ClassVar[DeleteCause]
    DELETE_CAUSE_EXPIRED: _ClassVar[DeleteCause]
    DELETE_CAUSE_UNSELECTED: _ClassVar[DeleteCause]

class BookmarkKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOOKMARK_KIND_UNSPECIFIED: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_PROGRESS: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_INITIAL_STATE_BEGIN: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_RESUMED: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_INITIAL_STATE_END: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_GOING_AWAY: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_NET_BEGIN: _ClassVar[BookmarkKind]
    BOOKMARK_KIND_MANIFEST_BEGIN: _ClassVar[BookmarkKind]

class WatchState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WATCH_STATE_UNSPECIFIED: _ClassVar[WatchState]
    WATCH_STATE_INITIAL: _ClassVar[WatchState]
    WATCH_STATE_CATCHING_UP: _ClassVar[WatchState]
    WATCH_STATE_LIVE: _ClassVar[WatchState]
    WATCH_STATE_LAGGING: _ClassVar[WatchState]

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_REVISION_COMPACTED: _ClassVar[ErrorReason]
    ERROR_REASON_REVISION_IN_FUTURE: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_CHANGED: _ClassVar[ErrorReason]
    ERROR_REASON_TOKEN_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_REVISION_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_MANY_REQUESTS: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_MANY_WATCHES: _ClassVar[ErrorReason]
    ERROR_REASON_STORAGE_FULL: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_READY: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_FIELD_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_OBJECT_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_OBJECT_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_UID_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_REQUEST_ID_REUSED: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_DAMAGED: _ClassVar[ErrorReason]
    ERROR_REASON_WRITE_UNCERTAIN: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_WATCH_TOO_SLOW: _ClassVar[ErrorReason]
LABEL_OPERATOR_UNSPECIFIED: LabelOperator
LABEL_OPERATOR_IN: LabelOperator
LABEL_OPERATOR_NOT_IN: LabelOperator
LABEL_OPERATOR_EXISTS: LabelOperator
LABEL_OPERATOR_NOT_EXISTS: LabelOperator
VIEW_UNSPECIFIED: View
VIEW_FULL: View
VIEW_METADATA: View
VIEW_KEY: View
CATCH_UP_UNSPECIFIED: CatchUp
CATCH_UP_EXACT: CatchUp
CATCH_UP_NET: CatchUp
DELIVERY_MODE_UNSPECIFIED: DeliveryMode
DELIVERY_MODE_EVERY_CHANGE: DeliveryMode
DELIVERY_MODE_LATEST: DeliveryMode
EVENT_TYPE_UNSPECIFIED: EventType
EVENT_TYPE_EXISTING: EventType
EVENT_TYPE_ADDED: EventType
EVENT_TYPE_MODIFIED: EventType
EVENT_TYPE_DELETED: EventType
EVENT_TYPE_UNCHANGED: EventType
EVENT_TYPE_UPSERTED: EventType
DELETE_CAUSE_UNSPECIFIED: DeleteCause
DELETE_CAUSE_REQUEST: DeleteCause
DELETE_CAUSE_EXPIRED: DeleteCause
DELETE_CAUSE_UNSELECTED: DeleteCause
BOOKMARK_KIND_UNSPECIFIED: BookmarkKind
BOOKMARK_KIND_PROGRESS: BookmarkKind
BOOKMARK_KIND_INITIAL_STATE_BEGIN: BookmarkKind
BOOKMARK_KIND_RESUMED: BookmarkKind
BOOKMARK_KIND_INITIAL_STATE_END: BookmarkKind
BOOKMARK_KIND_GOING_AWAY: BookmarkKind
BOOKMARK_KIND_NET_BEGIN: BookmarkKind
BOOKMARK_KIND_MANIFEST_BEGIN: BookmarkKind
WATCH_STATE_UNSPECIFIED: WatchState
WATCH_STATE_INITIAL: WatchState
WATCH_STATE_CATCHING_UP: WatchState
WATCH_STATE_LIVE: WatchState
WATCH_STATE_LAGGING: WatchState
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_REVISION_COMPACTED: ErrorReason
ERROR_REASON_REVISION_IN_FUTURE: ErrorReason
ERROR_REASON_STORE_CHANGED: ErrorReason
ERROR_REASON_TOKEN_INVALID: ErrorReason
ERROR_REASON_REVISION_MISMATCH: ErrorReason
ERROR_REASON_TOO_MANY_REQUESTS: ErrorReason
ERROR_REASON_TOO_MANY_WATCHES: ErrorReason
ERROR_REASON_STORAGE_FULL: ErrorReason
ERROR_REASON_NOT_READY: ErrorReason
ERROR_REASON_TOO_LARGE: ErrorReason
ERROR_REASON_FIELD_INVALID: ErrorReason
ERROR_REASON_OBJECT_NOT_FOUND: ErrorReason
ERROR_REASON_OBJECT_EXISTS: ErrorReason
ERROR_REASON_UID_MISMATCH: ErrorReason
ERROR_REASON_REQUEST_ID_REUSED: ErrorReason
ERROR_REASON_STORE_DAMAGED: ErrorReason
ERROR_REASON_WRITE_UNCERTAIN: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_UNSUPPORTED: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_WATCH_TOO_SLOW: ErrorReason

class Key(_message.Message):
    __slots__ = ("collection", "namespace", "name")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    collection: str
    namespace: str
    name: str
    def __init__(self, collection: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("key", "uid", "revision", "create_revision", "update_time", "labels", "value", "content_type", "expire_time")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    key: Key
    uid: str
    revision: int
    create_revision: int
    update_time: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    value: bytes
    content_type: str
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., uid: _Optional[str] = ..., revision: _Optional[int] = ..., create_revision: _Optional[int] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., value: _Optional[bytes] = ..., content_type: _Optional[str] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Selector(_message.Message):
    __slots__ = ("collection", "namespace", "name", "name_prefix", "labels", "fields")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    collection: str
    namespace: str
    name: str
    name_prefix: str
    labels: _containers.RepeatedCompositeFieldContainer[LabelRequirement]
    fields: _containers.RepeatedCompositeFieldContainer[FieldRequirement]
    def __init__(self, collection: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., name_prefix: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[LabelRequirement, _Mapping]]] = ..., fields: _Optional[_Iterable[_Union[FieldRequirement, _Mapping]]] = ...) -> None: ...

class FieldRequirement(_message.Message):
    __slots__ = ("path", "not_equal", "value")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NOT_EQUAL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    path: str
    not_equal: bool
    value: str
    def __init__(self, path: _Optional[str] = ..., not_equal: bool = ..., value: _Optional[str] = ...) -> None: ...

class LabelRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: LabelOperator
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[_Union[LabelOperator, str]] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Consistency(_message.Message):
    __slots__ = ("any", "min_revision", "exact_revision")
    ANY_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    EXACT_REVISION_FIELD_NUMBER: _ClassVar[int]
    any: bool
    min_revision: int
    exact_revision: int
    def __init__(self, any: bool = ..., min_revision: _Optional[int] = ..., exact_revision: _Optional[int] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("key", "consistency", "view")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    key: Key
    consistency: Consistency
    view: View
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., consistency: _Optional[_Union[Consistency, _Mapping]] = ..., view: _Optional[_Union[View, str]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("resource", "revision")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    revision: int
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("selector", "page_size", "page_token", "consistency", "view")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    selector: Selector
    page_size: int
    page_token: str
    consistency: Consistency
    view: View
    def __init__(self, selector: _Optional[_Union[Selector, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., consistency: _Optional[_Union[Consistency, _Mapping]] = ..., view: _Optional[_Union[View, str]] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("resources", "next_page_token", "revision", "resume_token", "remaining_count")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REMAINING_COUNT_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    next_page_token: str
    revision: int
    resume_token: str
    remaining_count: int
    def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[int] = ..., resume_token: _Optional[str] = ..., remaining_count: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("selector", "initial_state", "resume_token", "after_revision", "now", "view", "delivery_mode", "send_previous", "bookmark_interval", "max_batch_delay", "catch_up")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_MODE_FIELD_NUMBER: _ClassVar[int]
    SEND_PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_DELAY_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    selector: Selector
    initial_state: InitialState
    resume_token: str
    after_revision: int
    now: bool
    view: View
    delivery_mode: DeliveryMode
    send_previous: bool
    bookmark_interval: _duration_pb2.Duration
    max_batch_delay: _duration_pb2.Duration
    catch_up: CatchUp
    def __init__(self, selector: _Optional[_Union[Selector, _Mapping]] = ..., initial_state: _Optional[_Union[InitialState, _Mapping]] = ..., resume_token: _Optional[str] = ..., after_revision: _Optional[int] = ..., now: bool = ..., view: _Optional[_Union[View, str]] = ..., delivery_mode: _Optional[_Union[DeliveryMode, str]] = ..., send_previous: bool = ..., bookmark_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_batch_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., catch_up: _Optional[_Union[CatchUp, str]] = ...) -> None: ...

class InitialState(_message.Message):
    __slots__ = ("consistency", "only")
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    consistency: Consistency
    only: bool
    def __init__(self, consistency: _Optional[_Union[Consistency, _Mapping]] = ..., only: bool = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("events", "bookmark")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[WatchEvent]
    bookmark: Bookmark
    def __init__(self, events: _Optional[_Iterable[_Union[WatchEvent, _Mapping]]] = ..., bookmark: _Optional[_Union[Bookmark, _Mapping]] = ...) -> None: ...

class WatchEvent(_message.Message):
    __slots__ = ("type", "resource", "previous", "delete_cause")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    DELETE_CAUSE_FIELD_NUMBER: _ClassVar[int]
    type: EventType
    resource: Resource
    previous: Resource
    delete_cause: DeleteCause
    def __init__(self, type: _Optional[_Union[EventType, str]] = ..., resource: _Optional[_Union[Resource, _Mapping]] = ..., previous: _Optional[_Union[Resource, _Mapping]] = ..., delete_cause: _Optional[_Union[DeleteCause, str]] = ...) -> None: ...

class Bookmark(_message.Message):
    __slots__ = ("revision", "resume_token", "kind", "latest_revision", "coalesced_count")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LATEST_REVISION_FIELD_NUMBER: _ClassVar[int]
    COALESCED_COUNT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    resume_token: str
    kind: BookmarkKind
    latest_revision: int
    coalesced_count: int
    def __init__(self, revision: _Optional[int] = ..., resume_token: _Optional[str] = ..., kind: _Optional[_Union[BookmarkKind, str]] = ..., latest_revision: _Optional[int] = ..., coalesced_count: _Optional[int] = ...) -> None: ...

class WatchManyRequest(_message.Message):
    __slots__ = ("watch_id", "watch", "cancel", "bookmark")
    WATCH_ID_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    watch_id: int
    watch: WatchRequest
    cancel: CancelWatch
    bookmark: RequestBookmark
    def __init__(self, watch_id: _Optional[int] = ..., watch: _Optional[_Union[WatchRequest, _Mapping]] = ..., cancel: _Optional[_Union[CancelWatch, _Mapping]] = ..., bookmark: _Optional[_Union[RequestBookmark, _Mapping]] = ...) -> None: ...

class CancelWatch(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestBookmark(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchManyResponse(_message.Message):
    __slots__ = ("watch_ids", "response", "end")
    WATCH_IDS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    watch_ids: _containers.RepeatedScalarFieldContainer[int]
    response: WatchResponse
    end: WatchEnd
    def __init__(self, watch_ids: _Optional[_Iterable[int]] = ..., response: _Optional[_Union[WatchResponse, _Mapping]] = ..., end: _Optional[_Union[WatchEnd, _Mapping]] = ...) -> None: ...

class WatchEnd(_message.Message):
    __slots__ = ("code", "message", "reason", "metadata", "retry_after")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: ErrorReason
    metadata: _containers.ScalarMap[str, str]
    retry_after: _duration_pb2.Duration
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[_Union[ErrorReason, str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("resource", "ttl", "request_id")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    ttl: _duration_pb2.Duration
    request_id: str
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateResponse(_message.Message):
    __slots__ = ("resource",)
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("resource", "if_revision", "allow_missing", "ttl", "request_id")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    if_revision: int
    allow_missing: bool
    ttl: _duration_pb2.Duration
    request_id: str
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ..., if_revision: _Optional[int] = ..., allow_missing: bool = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ("resource",)
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("key", "if_revision", "if_uid", "allow_missing", "request_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    IF_UID_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    key: Key
    if_revision: int
    if_uid: str
    allow_missing: bool
    request_id: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., if_revision: _Optional[int] = ..., if_uid: _Optional[str] = ..., allow_missing: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ("resource",)
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    resource: Resource
    def __init__(self, resource: _Optional[_Union[Resource, _Mapping]] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("operations", "request_id")
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[BatchOperation]
    request_id: str
    def __init__(self, operations: _Optional[_Iterable[_Union[BatchOperation, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class BatchOperation(_message.Message):
    __slots__ = ("create", "update", "delete", "check")
    CREATE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    create: CreateRequest
    update: UpdateRequest
    delete: DeleteRequest
    check: CheckRevision
    def __init__(self, create: _Optional[_Union[CreateRequest, _Mapping]] = ..., update: _Optional[_Union[UpdateRequest, _Mapping]] = ..., delete: _Optional[_Union[DeleteRequest, _Mapping]] = ..., check: _Optional[_Union[CheckRevision, _Mapping]] = ...) -> None: ...

class CheckRevision(_message.Message):
    __slots__ = ("key", "revision")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    key: Key
    revision: int
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class BatchResponse(_message.Message):
    __slots__ = ("revision", "resources")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, revision: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class CompactRequest(_message.Message):
    __slots__ = ("revision", "wait")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    wait: bool
    def __init__(self, revision: _Optional[int] = ..., wait: bool = ...) -> None: ...

class CompactResponse(_message.Message):
    __slots__ = ("compact_revision",)
    COMPACT_REVISION_FIELD_NUMBER: _ClassVar[int]
    compact_revision: int
    def __init__(self, compact_revision: _Optional[int] = ...) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportResponse(_message.Message):
    __slots__ = ("header", "objects", "footer")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    FOOTER_FIELD_NUMBER: _ClassVar[int]
    header: ExportHeader
    objects: ExportObjects
    footer: ExportFooter
    def __init__(self, header: _Optional[_Union[ExportHeader, _Mapping]] = ..., objects: _Optional[_Union[ExportObjects, _Mapping]] = ..., footer: _Optional[_Union[ExportFooter, _Mapping]] = ...) -> None: ...

class ExportHeader(_message.Message):
    __slots__ = ("format_version", "store_id", "revision", "export_time", "version")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPORT_TIME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    store_id: str
    revision: int
    export_time: _timestamp_pb2.Timestamp
    version: str
    def __init__(self, format_version: _Optional[int] = ..., store_id: _Optional[str] = ..., revision: _Optional[int] = ..., export_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[str] = ...) -> None: ...

class ExportObjects(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class ExportFooter(_message.Message):
    __slots__ = ("object_count", "checksum", "header_checksum")
    OBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    HEADER_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    object_count: int
    checksum: int
    header_checksum: int
    def __init__(self, object_count: _Optional[int] = ..., checksum: _Optional[int] = ..., header_checksum: _Optional[int] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "store_id", "revision", "compact_revision", "object_count", "watch_count", "database_bytes", "collections", "features", "tombstone_revision", "database_quota_bytes", "storage_full", "limits")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COMPACT_REVISION_FIELD_NUMBER: _ClassVar[int]
    OBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    WATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COLLECTIONS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_REVISION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_QUOTA_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FULL_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    version: str
    store_id: str
    revision: int
    compact_revision: int
    object_count: int
    watch_count: int
    database_bytes: int
    collections: _containers.RepeatedCompositeFieldContainer[CollectionStatus]
    features: _containers.RepeatedScalarFieldContainer[str]
    tombstone_revision: int
    database_quota_bytes: int
    storage_full: bool
    limits: Limits
    def __init__(self, version: _Optional[str] = ..., store_id: _Optional[str] = ..., revision: _Optional[int] = ..., compact_revision: _Optional[int] = ..., object_count: _Optional[int] = ..., watch_count: _Optional[int] = ..., database_bytes: _Optional[int] = ..., collections: _Optional[_Iterable[_Union[CollectionStatus, _Mapping]]] = ..., features: _Optional[_Iterable[str]] = ..., tombstone_revision: _Optional[int] = ..., database_quota_bytes: _Optional[int] = ..., storage_full: bool = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class CollectionStatus(_message.Message):
    __slots__ = ("collection", "object_count", "watch_count", "cache_bytes", "cache_events", "cache_capacity", "cache_oldest_revision", "cache_hits", "cache_misses")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    OBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    WATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CACHE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    CACHE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CACHE_OLDEST_REVISION_FIELD_NUMBER: _ClassVar[int]
    CACHE_HITS_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISSES_FIELD_NUMBER: _ClassVar[int]
    collection: str
    object_count: int
    watch_count: int
    cache_bytes: int
    cache_events: int
    cache_capacity: int
    cache_oldest_revision: int
    cache_hits: int
    cache_misses: int
    def __init__(self, collection: _Optional[str] = ..., object_count: _Optional[int] = ..., watch_count: _Optional[int] = ..., cache_bytes: _Optional[int] = ..., cache_events: _Optional[int] = ..., cache_capacity: _Optional[int] = ..., cache_oldest_revision: _Optional[int] = ..., cache_hits: _Optional[int] = ..., cache_misses: _Optional[int] = ...) -> None: ...

class ListWatchesRequest(_message.Message):
    __slots__ = ("collection", "page_size", "page_token")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    collection: str
    page_size: int
    page_token: str
    def __init__(self, collection: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListWatchesResponse(_message.Message):
    __slots__ = ("watches", "next_page_token")
    WATCHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    watches: _containers.RepeatedCompositeFieldContainer[OpenWatch]
    next_page_token: str
    def __init__(self, watches: _Optional[_Iterable[_Union[OpenWatch, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class OpenWatch(_message.Message):
    __slots__ = ("number", "selector", "client", "user_agent", "open_time", "state", "delivery_mode", "view", "revision", "lag_revisions", "lag", "backlog_bytes", "sent_events", "sent_bytes", "watch_count")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    USER_AGENT_FIELD_NUMBER: _ClassVar[int]
    OPEN_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_MODE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LAG_REVISIONS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    WATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    number: int
    selector: Selector
    client: str
    user_agent: str
    open_time: _timestamp_pb2.Timestamp
    state: WatchState
    delivery_mode: DeliveryMode
    view: View
    revision: int
    lag_revisions: int
    lag: _duration_pb2.Duration
    backlog_bytes: int
    sent_events: int
    sent_bytes: int
    watch_count: int
    def __init__(self, number: _Optional[int] = ..., selector: _Optional[_Union[Selector, _Mapping]] = ..., client: _Optional[str] = ..., user_agent: _Optional[str] = ..., open_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[WatchState, str]] = ..., delivery_mode: _Optional[_Union[DeliveryMode, str]] = ..., view: _Optional[_Union[View, str]] = ..., revision: _Optional[int] = ..., lag_revisions: _Optional[int] = ..., lag: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., backlog_bytes: _Optional[int] = ..., sent_events: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., watch_count: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_object_bytes", "max_batch_operations", "max_page_size", "max_labels", "max_selector_requirements")
    MAX_OBJECT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_LABELS_FIELD_NUMBER: _ClassVar[int]
    MAX_SELECTOR_REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    max_object_bytes: int
    max_batch_operations: int
    max_page_size: int
    max_labels: int
    max_selector_requirements: int
    def __init__(self, max_object_bytes: _Optional[int] = ..., max_batch_operations: _Optional[int] = ..., max_page_size: _Optional[int] = ..., max_labels: _Optional[int] = ..., max_selector_requirements: _Optional[int] = ...) -> None: ...
