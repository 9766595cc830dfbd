package dev.listwatch.client;

import java.util.Optional;

/**
 * What became of one name from one snapshot to a later one. If both are there and their uids differ, the old
 * object was deleted and its name taken anew.
 *
 * @param key the name
 * @param before as the listener was told last; empty if it knows of none
 * @param after as it is now; empty if it is gone, or no longer selected
 * @param <T> what objects are decoded to
 */
public record KeyChange<T>(
    ObjectKey key, Optional<Reflected<T>> before, Optional<Reflected<T>> after) {}
