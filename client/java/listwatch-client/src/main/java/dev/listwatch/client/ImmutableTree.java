package dev.listwatch.client;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * A sorted map whose changes are new maps that share what did not change, so that a snapshot of many objects
 * costs no copy of them all. A treap: its shape depends on the keys alone, about as balanced as a random
 * tree.
 */
final class ImmutableTree<K extends Comparable<K>, V> implements Iterable<V> {
  private record Node<K, V>(K key, int priority, V value, Node<K, V> left, Node<K, V> right) {
    Node<K, V> withLeft(Node<K, V> other) {
      return new Node<>(key, priority, value, other, right);
    }

    Node<K, V> withRight(Node<K, V> other) {
      return new Node<>(key, priority, value, left, other);
    }
  }

  private final Node<K, V> root;
  private final int size;

  private ImmutableTree(Node<K, V> root, int size) {
    this.root = root;
    this.size = size;
  }

  static <K extends Comparable<K>, V> ImmutableTree<K, V> empty() {
    return new ImmutableTree<>(null, 0);
  }

  int size() {
    return size;
  }

  /** Null if there is none. */
  V get(K key) {
    Node<K, V> node = root;
    while (node != null) {
      int order = key.compareTo(node.key);
      if (order == 0) {
        return node.value;
      }
      node = order < 0 ? node.left : node.right;
    }
    return null;
  }

  ImmutableTree<K, V> with(K key, V value) {
    boolean isNew = get(key) == null;
    return new ImmutableTree<>(put(root, key, priority(key), value), isNew ? size + 1 : size);
  }

  ImmutableTree<K, V> without(K key) {
    return get(key) == null ? this : new ImmutableTree<>(remove(root, key), size - 1);
  }

  private static <K extends Comparable<K>, V> Node<K, V> put(
      Node<K, V> node, K key, int priority, V value) {
    if (node == null) {
      return new Node<>(key, priority, value, null, null);
    }
    int order = key.compareTo(node.key);
    if (order == 0) {
      return new Node<>(node.key, node.priority, value, node.left, node.right);
    }
    if (order < 0) {
      Node<K, V> left = put(node.left, key, priority, value);
      return left.priority > node.priority
          ? left.withRight(node.withLeft(left.right))
          : node.withLeft(left);
    }
    Node<K, V> right = put(node.right, key, priority, value);
    return right.priority > node.priority
        ? right.withLeft(node.withRight(right.left))
        : node.withRight(right);
  }

  private static <K extends Comparable<K>, V> Node<K, V> remove(Node<K, V> node, K key) {
    int order = key.compareTo(node.key);
    if (order == 0) {
      return joined(node.left, node.right);
    }
    return order < 0
        ? node.withLeft(remove(node.left, key))
        : node.withRight(remove(node.right, key));
  }

  private static <K, V> Node<K, V> joined(Node<K, V> left, Node<K, V> right) {
    if (left == null) {
      return right;
    }
    if (right == null) {
      return left;
    }
    return left.priority > right.priority
        ? left.withRight(joined(left.right, right))
        : right.withLeft(joined(left, right.left));
  }

  /** Names in a row have hashes in a row: spread (the finalizer of MurmurHash3). */
  private static int priority(Object key) {
    int hash = key.hashCode();
    hash = (hash ^ hash >>> 16) * 0x85ebca6b;
    hash = (hash ^ hash >>> 13) * 0xc2b2ae35;
    return hash ^ hash >>> 16;
  }

  /** In the order of the keys. */
  @Override
  public Iterator<V> iterator() {
    Deque<Node<K, V>> path = new ArrayDeque<>();
    descend(path, root);
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return !path.isEmpty();
      }

      @Override
      public V next() {
        if (path.isEmpty()) {
          throw new NoSuchElementException();
        }
        Node<K, V> node = path.pop();
        descend(path, node.right);
        return node.value;
      }
    };
  }

  private static <K, V> void descend(Deque<Node<K, V>> path, Node<K, V> from) {
    for (Node<K, V> node = from; node != null; node = node.left) {
      path.push(node);
    }
  }
}
