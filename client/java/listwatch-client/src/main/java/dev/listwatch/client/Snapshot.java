package dev.listwatch.client;

import java.util.Iterator;
import java.util.Optional;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Everything that a {@link Reflector} holds, as of one revision. Immutable; iterated in the order of the
 * keys.
 *
 * @param <T> what objects are decoded to
 */
public final class Snapshot<T> implements Iterable<Reflected<T>> {
  private final ImmutableTree<ObjectKey, Reflected<T>> objects;
  private final long revision;
  private final Optional<ResumeToken> resumeToken;

  Snapshot(
      ImmutableTree<ObjectKey, Reflected<T>> objects,
      long revision,
      Optional<ResumeToken> resumeToken) {
    this.objects = objects;
    this.revision = revision;
    this.resumeToken = resumeToken;
  }

  /**
   * As of when this is what the server stores.
   *
   * @return a revision of the store; 0 before the first state is complete
   */
  public long revision() {
    return revision;
  }

  /**
   * Of the last point up to which everything is in this snapshot: a watch of the same selector goes on
   * there. It may be a little older than {@link #revision()}.
   *
   * @return empty before the first state is complete
   */
  public Optional<ResumeToken> resumeToken() {
    return resumeToken;
  }

  /**
   * One object.
   *
   * @param key its name
   * @return empty if there is none
   */
  public Optional<Reflected<T>> get(ObjectKey key) {
    return Optional.ofNullable(objects.get(key));
  }

  /**
   * How many objects there are.
   *
   * @return how many
   */
  public int size() {
    return objects.size();
  }

  /**
   * The objects in the order of their keys.
   *
   * @return a sequential stream
   */
  public Stream<Reflected<T>> stream() {
    return StreamSupport.stream(spliterator(), false);
  }

  @Override
  public Iterator<Reflected<T>> iterator() {
    return objects.iterator();
  }
}
