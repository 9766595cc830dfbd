package dev.listwatch.client;

import java.util.Optional;

/**
 * Is told what changes in a {@link Reflector}. One method at a time is called, by a thread of this
 * listener's own, so that a slow one holds up no one else. An exception is logged and passed over.
 *
 * @param <T> what objects are decoded to
 */
@FunctionalInterface
public interface ReflectorListener<T> {
  /**
   * An object appeared, changed or is gone. The changes of one name are in order and fit together: {@code
   * before} is what was told last. A slow listener misses versions in between, never the newest, and never
   * the end of an object that it was told of.
   *
   * @param change of one name
   */
  void changed(KeyChange<T> change);

  /** Everything that existed when the reflector first was in step has been told. Called once. */
  default void synced() {}

  /**
   * There will be no more changes.
   *
   * @param error what stopped the reflector; empty if it was closed
   */
  default void stopped(Optional<ListwatchException> error) {}
}
