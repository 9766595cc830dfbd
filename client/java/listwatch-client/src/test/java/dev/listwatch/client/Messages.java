package dev.listwatch.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.listwatch.v1.Bookmark;
import dev.listwatch.v1.BookmarkKind;
import dev.listwatch.v1.EventType;
import dev.listwatch.v1.Key;
import dev.listwatch.v1.Resource;
import dev.listwatch.v1.WatchEvent;
import dev.listwatch.v1.WatchResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;

/** What servers send, for tests. */
final class Messages {
  private Messages() {}

  static Resource object(String name, long revision) {
    return Resource.newBuilder()
        .setKey(Key.newBuilder().setCollection("pods").setNamespace("default").setName(name))
        .setUid("uid-" + name)
        .setRevision(revision)
        .setValue(ByteString.copyFromUtf8(name + revision))
        .build();
  }

  static WatchEvent event(EventType type, Resource object) {
    return WatchEvent.newBuilder().setType(type).setResource(object).build();
  }

  static Bookmark bookmark(BookmarkKind kind, long revision) {
    return Bookmark.newBuilder()
        .setKind(kind)
        .setRevision(revision)
        .setLatestRevision(revision)
        .setResumeToken("t" + revision)
        .build();
  }

  static WatchResponse response(BookmarkKind kind, long revision, WatchEvent... events) {
    return events(events).toBuilder().setBookmark(bookmark(kind, revision)).build();
  }

  static WatchResponse events(WatchEvent... events) {
    return WatchResponse.newBuilder().addAllEvents(java.util.List.of(events)).build();
  }

  static Point point(long revision) {
    return Point.of(bookmark(BookmarkKind.BOOKMARK_KIND_PROGRESS, revision));
  }

  static StatusRuntimeException status(Status.Code code, String reason) {
    return status(code, reason, null);
  }

  static StatusRuntimeException status(Status.Code code, String reason, Duration retryAfter) {
    var status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("said so");
    if (!reason.isEmpty()) {
      status.addDetails(
          Any.pack(
              ErrorInfo.newBuilder()
                  .setDomain("listwatch")
                  .setReason(reason)
                  .putMetadata("revision", "7")
                  .build()));
    }
    if (retryAfter != null) {
      var delay =
          com.google.protobuf.Duration.newBuilder()
              .setSeconds(retryAfter.getSeconds())
              .setNanos(retryAfter.getNano());
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }
}
