package listwatch

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"strings"
)

// ObjectKey names an object within a collection.
type ObjectKey struct {
	// Namespace is empty for objects outside any namespace.
	Namespace string
	Name      string
}

func objectKeyOf(key *Key) ObjectKey {
	return ObjectKey{Namespace: key.GetNamespace(), Name: key.GetName()}
}

// String is NAMESPACE/NAME.
func (k ObjectKey) String() string { return k.Namespace + "/" + k.Name }

// Compare orders by namespace, then by name.
func (k ObjectKey) Compare(other ObjectKey) int {
	return cmp.Or(
		strings.Compare(k.Namespace, other.Namespace),
		strings.Compare(k.Name, other.Name),
	)
}

// tree is an ordered map of which a copy costs nothing: a treap whose nodes are shared
// between copies and copied along the path of a change. A snapshot is such a copy, so a
// change of one object among a million need not copy the million.
type tree[V any] struct {
	root *node[V]
	size int
	// edit marks the nodes that this tree alone has, which it may change in place. Without
	// it building a whole state would copy each path anew.
	edit *editor
}

// editor is of a size, so that no two have the same address.
type editor struct{ _ byte }

type node[V any] struct {
	key         ObjectKey
	value       V
	priority    uint32
	left, right *node[V]
	edit        *editor
}

// share gives a copy. From now on neither changes what both have.
func (t *tree[V]) share() tree[V] {
	t.edit = nil
	return tree[V]{root: t.root, size: t.size}
}

func (t *tree[V]) get(key ObjectKey) (V, bool) {
	for n := t.root; n != nil; {
		switch order := key.Compare(n.key); {
		case order < 0:
			n = n.left
		case order > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	var none V
	return none, false
}

func (t *tree[V]) put(key ObjectKey, value V) {
	t.begin()
	t.root = t.insert(t.root, key, value)
}

// remove takes key out, and tells whether it was there.
func (t *tree[V]) remove(key ObjectKey) bool {
	if _, ok := t.get(key); !ok {
		return false
	}
	t.begin()
	t.root = t.cut(t.root, key)
	t.size--
	return true
}

// from gives what is at or after key, in order.
func (t *tree[V]) from(key ObjectKey) iter.Seq2[ObjectKey, V] {
	root := t.root
	return func(yield func(ObjectKey, V) bool) { root.walk(key, yield) }
}

// all gives everything in order.
func (t *tree[V]) all() iter.Seq2[ObjectKey, V] { return t.from(ObjectKey{}) }

func (n *node[V]) walk(from ObjectKey, yield func(ObjectKey, V) bool) bool {
	if n == nil {
		return true
	}
	if from.Compare(n.key) > 0 {
		return n.right.walk(from, yield)
	}
	return n.left.walk(from, yield) && yield(n.key, n.value) && n.right.walk(from, yield)
}

func (t *tree[V]) begin() {
	if t.edit == nil {
		t.edit = &editor{}
	}
}

// own gives a node that may be changed in place.
func (t *tree[V]) own(n *node[V]) *node[V] {
	if n.edit == t.edit {
		return n
	}
	owned := *n
	owned.edit = t.edit
	return &owned
}

func (t *tree[V]) insert(n *node[V], key ObjectKey, value V) *node[V] {
	if n == nil {
		t.size++
		return &node[V]{key: key, value: value, priority: rand.Uint32(), edit: t.edit}
	}
	n = t.own(n)
	switch order := key.Compare(n.key); {
	case order < 0:
		n.left = t.insert(n.left, key, value)
		if up := n.left; up.priority > n.priority {
			n.left, up.right = up.right, n
			return up
		}
	case order > 0:
		n.right = t.insert(n.right, key, value)
		if up := n.right; up.priority > n.priority {
			n.right, up.left = up.left, n
			return up
		}
	default:
		n.value = value
	}
	return n
}

// cut takes out a key that is there.
func (t *tree[V]) cut(n *node[V], key ObjectKey) *node[V] {
	order := key.Compare(n.key)
	if order == 0 {
		return t.join(n.left, n.right)
	}
	n = t.own(n)
	if order < 0 {
		n.left = t.cut(n.left, key)
	} else {
		n.right = t.cut(n.right, key)
	}
	return n
}

// join makes one of two, all of left being before all of right.
func (t *tree[V]) join(left, right *node[V]) *node[V] {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.priority > right.priority:
		left = t.own(left)
		left.right = t.join(left.right, right)
		return left
	default:
		right = t.own(right)
		right.left = t.join(left, right.left)
		return right
	}
}
