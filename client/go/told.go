package listwatch

// told is what was given out after the last point. A stream that resumes from that point
// tells it again, and the receiver must not hear of it twice.
type told struct {
	lastRevision int64
	// keys are those of lastRevision: it may have been told by half.
	keys map[objectID]struct{}
}

// objectID is a [Key] that can be compared.
type objectID struct{ collection, namespace, name string }

func idOf(key *Key) objectID {
	return objectID{key.GetCollection(), key.GetNamespace(), key.GetName()}
}

func (t *told) record(object *Resource) {
	if object.GetRevision() > t.lastRevision {
		t.lastRevision = object.GetRevision()
		t.keys = nil
	}
	if object.GetRevision() == t.lastRevision {
		if t.keys == nil {
			t.keys = make(map[objectID]struct{})
		}
		t.keys[idOf(object.GetKey())] = struct{}{}
	}
}

// absorb adds what an earlier stream told.
func (t *told) absorb(earlier told) {
	switch {
	case earlier.lastRevision > t.lastRevision:
		*t = earlier
	case earlier.lastRevision == t.lastRevision:
		for id := range earlier.keys {
			if t.keys == nil {
				t.keys = make(map[objectID]struct{})
			}
			t.keys[id] = struct{}{}
		}
	}
}

func (t *told) clear() { *t = told{} }

func (t *told) includes(object *Resource) bool {
	if object.GetRevision() != t.lastRevision {
		return object.GetRevision() < t.lastRevision
	}
	_, ok := t.keys[idOf(object.GetKey())]
	return ok
}
