package listwatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// told to a replica: words as "init_begin", "apply a@3", "init_done".
func tell(t *testing.T, r *replica[string], words ...string) applied {
	t.Helper()
	last := appliedNothing
	for _, word := range words {
		kind, name, _ := strings.Cut(word, " ")
		event := Event{}
		for known, text := range eventKinds {
			if text == kind {
				event.Kind = known
			}
		}
		if name != "" {
			event.Object = object(name)
		}
		last = r.apply(event)
	}
	return last
}

func newTextReplica() *replica[string] {
	return newReplica(func(resource *Resource) (string, error) {
		if strings.HasPrefix(resource.GetKey().GetName(), "bad") {
			return "half", errors.New("no text")
		}
		return string(resource.GetValue()), nil
	})
}

// changed is what publishing tells: "a 1>2", "-" for nothing.
func changed(r *replica[string]) []string {
	var texts []string
	show := func(object *Object[string]) string {
		if object == nil {
			return "-"
		}
		return fmt.Sprint(object.Revision())
	}
	for _, change := range r.publish() {
		texts = append(texts, change.key.Name+" "+show(change.old)+">"+show(change.new))
	}
	return texts
}

func expectChanges(t *testing.T, r *replica[string], want ...string) {
	t.Helper()
	if got := changed(r); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestAStageIsSwappedInWhenItIsComplete(t *testing.T) {
	r := newTextReplica()
	tell(t, r, "init_begin", "init_apply a@1", "init_apply b@2")
	expectChanges(t, r)
	if tell(t, r, "init_done") != appliedSwapped {
		t.Error("not swapped")
	}
	expectChanges(t, r, "a ->1", "b ->2")
	tell(t, r, "net_begin", "apply a@3", "delete b@4")
	expectChanges(t, r)
	tell(t, r, "disconnected", "caught_up")
	expectChanges(t, r)
	tell(t, r, "net_begin", "delete b@4", "apply c@5", "caught_up")
	expectChanges(t, r, "b 2>-", "c ->5")
	tell(t, r, "manifest_begin", "unchanged a@1", "apply d@6", "caught_up")
	expectChanges(t, r, "c 5>-", "d ->6")
}

func TestOnlyWhatDiffersIsTold(t *testing.T) {
	r := newTextReplica()
	tell(t, r, "init_begin", "init_apply a@1", "init_apply b@2", "init_apply c@3", "init_done")
	changed(r)
	held, _ := r.current.get(objectKeyOf(object("a@1").GetKey()))
	tell(t, r, "init_begin", "init_apply a@1", "init_apply b@2#new", "init_done")
	expectChanges(t, r, "b 2>2", "c 3>-")
	if now, _ := r.current.get(held.Key); now != held {
		t.Error("an unchanged object was decoded anew")
	}
	// There and gone between two snapshots.
	tell(t, r, "apply d@9", "delete d@10", "apply a@1")
	expectChanges(t, r)
}

func TestADeletionThatIsToldLateIsPassedOver(t *testing.T) {
	r := newTextReplica()
	tell(t, r, "init_begin", "init_apply a@5", "init_done", "delete a@4")
	expectChanges(t, r, "a ->5")
	tell(t, r, "delete x@6", "delete a@6")
	expectChanges(t, r, "a 5>-")
}

func TestAManifestThatNamesWhatIsNotHeldIsAContradiction(t *testing.T) {
	for _, word := range []string{"unchanged a@2", "unchanged a@1#other", "unchanged b@1"} {
		r := newTextReplica()
		tell(t, r, "init_begin", "init_apply a@1", "init_done", "manifest_begin")
		if tell(t, r, word) != appliedContradiction {
			t.Errorf("%s was taken", word)
		}
	}
}

func TestAnUndecodableObjectExists(t *testing.T) {
	r := newTextReplica()
	tell(t, r, "init_begin", "init_apply bad@1", "init_done")
	expectChanges(t, r, "bad ->1")
	held, ok := r.published.get(ObjectKey{"default", "bad"})
	if !ok || held.DecodeErr == nil || held.Value != "" {
		t.Errorf("%+v", held)
	}
}
