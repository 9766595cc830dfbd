package dev.listwatch.client;

import java.util.Optional;

/**
 * How a {@link Reflector} is doing, with the snapshot that this is said of.
 *
 * @param snapshot the newest
 * @param ready whether the copy has been in step with the server once
 * @param stale whether the copy may be behind: before it is ready, while the stream is down, and until what
 *     was missed has come
 * @param stopped the error that ended it, if one did; a reflector that was closed has none
 * @param closed whether it was closed
 * @param <T> what objects are decoded to
 */
public record ReflectorStatus<T>(
    Snapshot<T> snapshot,
    boolean ready,
    boolean stale,
    Optional<ListwatchException> stopped,
    boolean closed) {}
