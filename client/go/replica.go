package listwatch

import (
	"maps"
	"slices"
)

// replica is the copy that a watch's events are applied to, before readers see it. It
// knows nothing of time, streams or readers.
type replica[T any] struct {
	decode func(*Resource) (T, error)
	// published is what readers have.
	published tree[*Object[T]]
	// current is ahead of published by what happened to the keys of touched.
	current tree[*Object[T]]
	touched map[ObjectKey]struct{}
	// newest is the newest revision that was applied to current itself since it was last
	// replaced as a whole.
	newest int64

	// stage is a state that is not consistent before it is complete. It is thrown away if
	// the stream breaks.
	stage stage
	// next is what the stage builds. Of an initial state or a manifest it has what was
	// named so far, and what is not named is gone; of a net difference it is current with
	// the changes so far.
	next tree[*Object[T]]
	// nextTouched are the keys that a net difference is about.
	nextTouched map[ObjectKey]struct{}
}

type stage int

const (
	stageNone stage = iota
	stageInitial
	stageNet
	stageManifest
)

// applied is what an event came to.
type applied int

const (
	// appliedNothing: nothing that matters to readers yet, or single changes.
	appliedNothing applied = iota
	// appliedSwapped: a stage is complete and has become the current state.
	appliedSwapped
	// appliedContradiction: the server takes the copy for something that it is not. Only a
	// new initial state helps.
	appliedContradiction
)

func newReplica[T any](decode func(*Resource) (T, error)) *replica[T] {
	return &replica[T]{decode: decode, touched: make(map[ObjectKey]struct{})}
}

// hasChanges tells whether there is something to publish.
func (r *replica[T]) hasChanges() bool { return len(r.touched) > 0 }

// keyChange is what became of one key from one snapshot to the next.
type keyChange[T any] struct {
	key      ObjectKey
	old, new *Object[T]
}

// publish declares the current state published, and says how it differs from the one
// before, in the order of keys.
func (r *replica[T]) publish() []keyChange[T] {
	keys := slices.SortedFunc(maps.Keys(r.touched), ObjectKey.Compare)
	clear(r.touched)
	changed := make([]keyChange[T], 0, len(keys))
	for _, key := range keys {
		old, _ := r.published.get(key)
		now, _ := r.current.get(key)
		// What changed and changed back is no change.
		if !sameObject(old, now) {
			changed = append(changed, keyChange[T]{key, old, now})
		}
	}
	r.published = r.current.share()
	return changed
}

func (r *replica[T]) apply(event Event) applied {
	switch event.Kind {
	case InitBegin:
		r.begin(stageInitial, tree[*Object[T]]{})
	case NetBegin:
		r.begin(stageNet, r.current.share())
	case ManifestBegin:
		r.begin(stageManifest, tree[*Object[T]]{})
	case InitApply, Apply:
		r.upsert(event.Object)
	case Delete:
		r.delete(event.Object)
	case Unchanged:
		return r.unchanged(event.Object)
	case InitDone, CaughtUp:
		return r.swap()
	case Disconnected:
		r.begin(stageNone, tree[*Object[T]]{})
	}
	return appliedNothing
}

func (r *replica[T]) begin(stage stage, next tree[*Object[T]]) {
	r.stage, r.next, r.nextTouched = stage, next, nil
	if stage == stageNet {
		r.nextTouched = make(map[ObjectKey]struct{})
	}
}

func (r *replica[T]) upsert(resource *Resource) {
	key := objectKeyOf(resource.GetKey())
	held, _ := r.current.get(key)
	if r.stage == stageNet {
		held, _ = r.next.get(key)
	}
	object, same := held, held != nil && held.isVersion(resource)
	if !same {
		// Unchanged objects stay the very same: nothing is decoded and no one is told.
		object = r.decoded(key, resource)
	}
	switch r.stage {
	case stageInitial, stageManifest:
		r.next.put(key, object)
	case stageNet:
		if !same {
			r.next.put(key, object)
			r.nextTouched[key] = struct{}{}
		}
	case stageNone:
		if !same {
			r.current.put(key, object)
			r.touched[key] = struct{}{}
			r.newest = max(r.newest, resource.GetRevision())
		}
	}
}

func (r *replica[T]) decoded(key ObjectKey, resource *Resource) *Object[T] {
	object := &Object[T]{Key: key, Resource: resource}
	value, err := r.decode(resource)
	if err != nil {
		object.DecodeErr = err
	} else {
		object.Value = value
	}
	return object
}

func (r *replica[T]) delete(resource *Resource) {
	key := objectKeyOf(resource.GetKey())
	objects := &r.current
	if r.stage != stageNone {
		objects = &r.next
	}
	held, ok := objects.get(key)
	// Older than what is held: the deletion of an earlier object of this name, told late.
	if !ok || resource.GetRevision() > 0 && held.Revision() > resource.GetRevision() {
		return
	}
	objects.remove(key)
	switch r.stage {
	case stageNone:
		r.touched[key] = struct{}{}
		r.newest = max(r.newest, resource.GetRevision())
	case stageNet:
		r.nextTouched[key] = struct{}{}
	}
}

func (r *replica[T]) unchanged(resource *Resource) applied {
	key := objectKeyOf(resource.GetKey())
	held, ok := r.current.get(key)
	if !ok || !held.isNamedBy(resource) {
		return appliedContradiction
	}
	if r.stage == stageManifest {
		r.next.put(key, held)
	}
	return appliedNothing
}

func (r *replica[T]) swap() applied {
	switch r.stage {
	case stageNone:
		return appliedNothing
	case stageNet:
		maps.Copy(r.touched, r.nextTouched)
	case stageInitial, stageManifest:
		// Against what readers have: current may be ahead of it.
		clear(r.touched)
		for key, old := range r.published.all() {
			if now, _ := r.next.get(key); !sameObject(old, now) {
				r.touched[key] = struct{}{}
			}
		}
		for key := range r.next.all() {
			if _, ok := r.published.get(key); !ok {
				r.touched[key] = struct{}{}
			}
		}
	}
	r.current = r.next
	r.newest = 0
	r.begin(stageNone, tree[*Object[T]]{})
	return appliedSwapped
}
