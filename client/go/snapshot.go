package listwatch

import "iter"

// Object is one version of an object as a reflector holds it. It is shared: do not change
// it, nor what it points to.
type Object[T any] struct {
	// Key is that of Resource.
	Key ObjectKey
	// Value is what the decode function made of Resource; the zero value if DecodeErr is
	// set.
	Value T
	// DecodeErr is why there is no value. The object exists nonetheless.
	DecodeErr error
	// Resource is the object as it came, changed by nothing but the decode function.
	Resource *Resource
}

// UID changes when the name is deleted and created anew.
func (o *Object[T]) UID() string { return o.Resource.GetUid() }

// Revision is that of the last write: use it as if_revision.
func (o *Object[T]) Revision() int64 { return o.Resource.GetRevision() }

// isNamedBy tells whether a manifest, which has no times, means this version.
func (o *Object[T]) isNamedBy(resource *Resource) bool {
	return o.UID() == resource.GetUid() && o.Revision() == resource.GetRevision()
}

// isVersion compares the time too: a store that was restored from a backup gives revisions
// out a second time.
func (o *Object[T]) isVersion(resource *Resource) bool {
	one, other := o.Resource.GetUpdateTime(), resource.GetUpdateTime()
	return o.isNamedBy(resource) &&
		one.GetSeconds() == other.GetSeconds() && one.GetNanos() == other.GetNanos()
}

// sameObject tells whether both are the same version, or both are absent.
func sameObject[T any](a, b *Object[T]) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || a.isVersion(b.Resource)
}

// Snapshot is the state of what a selector matches as of one revision. It never changes,
// so it can be kept and read without locks.
type Snapshot[T any] struct {
	objects     tree[*Object[T]]
	revision    int64
	resumeToken string
}

// Revision is the store's revision that the snapshot shows; 0 before the first state came.
func (s *Snapshot[T]) Revision() int64 { return s.revision }

// ResumeToken starts a watch of the same selector after what this snapshot shows, or a
// little before it; then the watch repeats changes that are in the snapshot. Empty before
// the first state came.
func (s *Snapshot[T]) ResumeToken() string { return s.resumeToken }

// Len is how many objects there are.
func (s *Snapshot[T]) Len() int { return s.objects.size }

// Get gives one object.
func (s *Snapshot[T]) Get(key ObjectKey) (*Object[T], bool) { return s.objects.get(key) }

// All gives all objects in the order of their keys.
func (s *Snapshot[T]) All() iter.Seq2[ObjectKey, *Object[T]] { return s.objects.all() }

// Namespace gives the objects of one namespace, ordered by name.
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq2[ObjectKey, *Object[T]] {
	return func(yield func(ObjectKey, *Object[T]) bool) {
		for key, object := range s.objects.from(ObjectKey{Namespace: namespace}) {
			if key.Namespace != namespace || !yield(key, object) {
				return
			}
		}
	}
}
