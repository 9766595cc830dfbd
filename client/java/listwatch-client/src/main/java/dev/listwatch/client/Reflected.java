package dev.listwatch.client;

import com.google.protobuf.ByteString;
import dev.listwatch.v1.Resource;
import java.util.Optional;
import java.util.function.Function;

/**
 * An object as a {@link Reflector} holds it. Immutable if {@code T} is.
 *
 * @param <T> what objects are decoded to
 */
public final class Reflected<T> {
  private final ObjectKey key;
  private final Resource resource;
  private final T value;
  private final RuntimeException decodeError;

  private Reflected(Resource resource, T value, RuntimeException decodeError) {
    this.key = ObjectKey.of(resource.getKey());
    this.resource = resource;
    this.value = value;
    this.decodeError = decodeError;
  }

  static <T> Reflected<T> decode(Resource resource, Function<Resource, T> decoder) {
    try {
      T value = decoder.apply(resource);
      // Held once, as what it was decoded to.
      return new Reflected<>(resource.toBuilder().setValue(ByteString.EMPTY).build(), value, null);
    } catch (RuntimeException error) {
      // It exists all the same, and the copy has to show that.
      return new Reflected<>(resource, null, error);
    }
  }

  /**
   * The object's name.
   *
   * @return the name
   */
  public ObjectKey key() {
    return key;
  }

  /**
   * What tells this object from others that have, or had, the same name.
   *
   * @return as the server gave it
   */
  public String uid() {
    return resource.getUid();
  }

  /**
   * That of the object's last write.
   *
   * @return a revision of the store
   */
  public long revision() {
    return resource.getRevision();
  }

  /**
   * What the server stores beside the value: labels, times, and so on.
   *
   * @return without {@code value}, unless that could not be decoded
   */
  public Resource resource() {
    return resource;
  }

  /**
   * What the decoder made of it.
   *
   * @return perhaps null, if the decoder returns that
   * @throws IllegalStateException if the decoder failed; its exception is the cause
   */
  public T value() {
    if (decodeError != null) {
      throw new IllegalStateException("cannot decode " + key + " of revision " + revision(), decodeError);
    }
    return value;
  }

  /**
   * What the decoder threw.
   *
   * @return empty if there is a {@link #value()}
   */
  public Optional<RuntimeException> decodeError() {
    return Optional.ofNullable(decodeError);
  }

  /** Whether a manifest, which has no times, means this version. */
  boolean isNamedBy(Resource other) {
    return uid().equals(other.getUid()) && revision() == other.getRevision();
  }

  /**
   * Compares the time too: a store that was restored from a backup gives revisions out a second
   * time.
   */
  boolean isVersion(Resource other) {
    return isNamedBy(other) && resource.getUpdateTime().equals(other.getUpdateTime());
  }

  /** The same version of the same object, or, both null, none. */
  static boolean same(Reflected<?> one, Reflected<?> other) {
    return one == other || one != null && other != null && one.isVersion(other.resource);
  }

  @Override
  public String toString() {
    return key + "@" + revision();
  }
}
