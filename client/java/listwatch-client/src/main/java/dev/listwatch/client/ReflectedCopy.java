package dev.listwatch.client;

import dev.listwatch.v1.Resource;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;

/**
 * What events are applied to, before it is published. Knows nothing of time, streams or readers.
 */
final class ReflectedCopy<T> {
  /** What applying an event came to. */
  enum Applied {
    /** The copy is as consistent as it was. */
    FINE,
    /** A stage is complete and has become the current state. */
    SWAPPED,
    /** The server takes the copy for something that it is not: only a new initial state helps. */
    CONTRADICTION
  }

  private enum Kind {
    INITIAL,
    NET,
    MANIFEST
  }

  /** A state that is not consistent before it is complete. Thrown away if the stream breaks. */
  private static final class Stage<T> {
    final Kind kind;
    ImmutableTree<ObjectKey, Reflected<T>> objects;

    /** Of a net difference. For the others every key is looked at in the end. */
    final Set<ObjectKey> touched = new HashSet<>();

    Stage(Kind kind, ImmutableTree<ObjectKey, Reflected<T>> objects) {
      this.kind = kind;
      this.objects = objects;
    }
  }

  private final Function<Resource, T> decoder;
  private ImmutableTree<ObjectKey, Reflected<T>> published = ImmutableTree.empty();

  /** Ahead of {@code published} by what happened to the keys of {@code touched}. */
  private ImmutableTree<ObjectKey, Reflected<T>> current = ImmutableTree.empty();

  private final Set<ObjectKey> touched = new TreeSet<>();

  /** Of single changes since the state was last replaced as a whole. */
  private long newestRevision;

  /** Null outside of them. */
  private Stage<T> stage;

  ReflectedCopy(Function<Resource, T> decoder) {
    this.decoder = decoder;
  }

  ImmutableTree<ObjectKey, Reflected<T>> current() {
    return current;
  }

  boolean hasChanges() {
    return !touched.isEmpty();
  }

  long newestRevision() {
    return newestRevision;
  }

  /** Declares the current state published and says how it differs from the one before. */
  List<KeyChange<T>> publish() {
    List<KeyChange<T>> changes = new ArrayList<>();
    for (ObjectKey key : touched) {
      Reflected<T> before = published.get(key);
      Reflected<T> after = current.get(key);
      if (!Reflected.same(before, after)) {
        changes.add(
            new KeyChange<>(key, Optional.ofNullable(before), Optional.ofNullable(after)));
      }
    }
    touched.clear();
    published = current;
    return changes;
  }

  Applied apply(Event event) {
    if (event instanceof Event.InitBegin) {
      stage = new Stage<>(Kind.INITIAL, ImmutableTree.empty());
    } else if (event instanceof Event.NetBegin) {
      stage = new Stage<>(Kind.NET, current);
    } else if (event instanceof Event.ManifestBegin) {
      stage = new Stage<>(Kind.MANIFEST, ImmutableTree.empty());
    } else if (event instanceof Event.InitApply apply) {
      upsert(apply.object());
    } else if (event instanceof Event.Apply apply) {
      upsert(apply.object());
    } else if (event instanceof Event.Delete delete) {
      delete(delete.object());
    } else if (event instanceof Event.Unchanged unchanged) {
      return unchanged(unchanged.object());
    } else if (event instanceof Event.InitDone || event instanceof Event.CaughtUp) {
      return swap();
    } else if (event instanceof Event.Disconnected) {
      stage = null;
    }
    return Applied.FINE;
  }

  private void upsert(Resource resource) {
    ObjectKey key = ObjectKey.of(resource.getKey());
    boolean isNet = stage != null && stage.kind == Kind.NET;
    Reflected<T> held = (isNet ? stage.objects : current).get(key);
    // Unchanged objects stay the very same: nothing is decoded and no one is told.
    boolean same = held != null && held.isVersion(resource);
    Reflected<T> next = same ? held : Reflected.decode(resource, decoder);
    if (stage != null) {
      stage.objects = stage.objects.with(key, next);
      stage.touched.add(key);
    } else if (!same) {
      touched.add(key);
      newestRevision = Math.max(newestRevision, resource.getRevision());
      current = current.with(key, next);
    }
  }

  private void delete(Resource resource) {
    ObjectKey key = ObjectKey.of(resource.getKey());
    Reflected<T> held = (stage != null ? stage.objects : current).get(key);
    // The deletion of an earlier object of this name, told late, is passed over.
    boolean isLate =
        held != null && held.revision() > resource.getRevision() && resource.getRevision() > 0;
    if (held == null || isLate) {
      return;
    }
    if (stage != null) {
      stage.objects = stage.objects.without(key);
      stage.touched.add(key);
    } else {
      touched.add(key);
      newestRevision = Math.max(newestRevision, resource.getRevision());
      current = current.without(key);
    }
  }

  private Applied unchanged(Resource resource) {
    ObjectKey key = ObjectKey.of(resource.getKey());
    Reflected<T> held = current.get(key);
    if (held == null || !held.isNamedBy(resource)) {
      return Applied.CONTRADICTION;
    }
    if (stage != null && stage.kind == Kind.MANIFEST) {
      stage.objects = stage.objects.with(key, held);
    }
    return Applied.FINE;
  }

  private Applied swap() {
    if (stage == null) {
      return Applied.FINE;
    }
    if (stage.kind == Kind.NET) {
      touched.addAll(stage.touched);
    } else {
      // Against what readers have: `current` may be ahead of it.
      touched.clear();
      for (Reflected<T> before : published) {
        if (!Reflected.same(before, stage.objects.get(before.key()))) {
          touched.add(before.key());
        }
      }
      for (Reflected<T> after : stage.objects) {
        if (published.get(after.key()) == null) {
          touched.add(after.key());
        }
      }
    }
    current = stage.objects;
    stage = null;
    newestRevision = 0;
    return Applied.SWAPPED;
  }
}
