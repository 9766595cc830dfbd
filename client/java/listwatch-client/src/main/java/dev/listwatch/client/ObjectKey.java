package dev.listwatch.client;

import dev.listwatch.v1.Key;
import java.util.Comparator;

/**
 * The name of an object, ordered as the server orders its lists.
 *
 * @param collection such as {@code pods}
 * @param namespace empty for objects outside any namespace
 * @param name within the namespace
 */
public record ObjectKey(String collection, String namespace, String name)
    implements Comparable<ObjectKey> {
  private static final Comparator<ObjectKey> ORDER =
      Comparator.comparing(ObjectKey::collection)
          .thenComparing(ObjectKey::namespace)
          .thenComparing(ObjectKey::name);

  /**
   * From the message.
   *
   * @param key of an object
   * @return the same name
   */
  public static ObjectKey of(Key key) {
    return new ObjectKey(key.getCollection(), key.getNamespace(), key.getName());
  }

  /**
   * As the message, for calls.
   *
   * @return the same name
   */
  public Key toMessage() {
    return Key.newBuilder()
        .setCollection(collection)
        .setNamespace(namespace)
        .setName(name)
        .build();
  }

  @Override
  public int compareTo(ObjectKey other) {
    return ORDER.compare(this, other);
  }

  /** As {@code collection/namespace/name}. */
  @Override
  public String toString() {
    return collection + "/" + namespace + "/" + name;
  }
}
