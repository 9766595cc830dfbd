package dev.listwatch.client;

import dev.listwatch.v1.Key;
import dev.listwatch.v1.Resource;
import java.util.HashSet;
import java.util.Set;

/**
 * What has been told after a point. A stream that goes on from that point tells it again. Bounded by the
 * objects of one revision.
 */
final class Told {
  private long lastRevision;

  /** Those of {@code lastRevision}: it may have been told by half. */
  private final Set<Key> keys = new HashSet<>();

  void record(Resource object) {
    if (object.getRevision() > lastRevision) {
      lastRevision = object.getRevision();
      keys.clear();
    }
    if (object.getRevision() == lastRevision) {
      keys.add(object.getKey());
    }
  }

  /** Adds what an earlier stream told. */
  void absorb(Told earlier) {
    if (earlier.lastRevision > lastRevision) {
      lastRevision = earlier.lastRevision;
      keys.clear();
    }
    if (earlier.lastRevision == lastRevision) {
      keys.addAll(earlier.keys);
    }
  }

  boolean includes(Resource object) {
    return object.getRevision() < lastRevision
        || object.getRevision() == lastRevision && keys.contains(object.getKey());
  }

  void clear() {
    lastRevision = 0;
    keys.clear();
  }
}
