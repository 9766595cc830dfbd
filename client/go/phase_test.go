package listwatch

import (
	"slices"
	"testing"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// of makes a response of a bookmark and events of one kind.
func of(b *listwatchv1.Bookmark, kind listwatchv1.EventType, names ...string) *listwatchv1.WatchResponse {
	r := response(b)
	for _, name := range names {
		r.Events = append(r.Events, change(kind, name))
	}
	return r
}

func TestWhatResponsesBecome(t *testing.T) {
	tests := []struct {
		name string
		now  phase
		in   *listwatchv1.WatchResponse
		want []string
		next phase
	}{
		{"initial state begins", phaseOpenedInitial, response(bookmark(stateBegin, 4)), []string{"init_begin"}, phaseInitial},
		{"its objects", phaseInitial, of(nil, existing, "a@1"), []string{"init_apply a@1"}, phaseInitial},
		{"its unknown events", phaseInitial, of(nil, 99, "a@1"), []string{"init_apply a@1"}, phaseInitial},
		{"bookmark within is a sign of life", phaseInitial, response(bookmark(progress, 4)), nil, phaseInitial},
		{"it ends", phaseInitial, response(bookmark(stateEnd, 4)), []string{"init_done t4"}, phaseLive},
		{"resumed", phaseOpenedResuming, response(bookmark(resumed, 4)), []string{"resumed t4"}, phaseLive},
		{"resumed by an unknown kind", phaseOpenedResuming, response(bookmark(99, 4)), []string{"resumed t4"}, phaseLive},
		{"net difference", phaseOpenedResuming, response(bookmark(netBegin, 4)), []string{"net_begin"}, phaseNet},
		{"its end", phaseNet, response(bookmark(stateEnd, 4)), []string{"caught_up t4"}, phaseLive},
		{"manifest", phaseOpenedResuming, response(bookmark(manifestBegin, 4)), []string{"manifest_begin"}, phaseManifest},
		{"manifest names", phaseManifest, of(nil, unchanged, "a@1"), []string{"unchanged a@1"}, phaseManifest},
		{"live added", phaseLive, of(nil, added, "a@5"), []string{"apply a@5 added"}, phaseLive},
		{"live modified", phaseLive, of(nil, modified, "a@5"), []string{"apply a@5 modified"}, phaseLive},
		{"live upserted", phaseLive, of(nil, upserted, "a@5"), []string{"apply a@5 upserted"}, phaseLive},
		{"live existing", phaseLive, of(nil, existing, "a@5"), []string{"apply a@5 upserted"}, phaseLive},
		{"live unknown", phaseLive, of(nil, 99, "a@5"), []string{"apply a@5 modified"}, phaseLive},
		{"live deleted", phaseLive, of(nil, deleted, "a@5"), []string{"delete a@5"}, phaseLive},
		{"live bookmark", phaseLive, of(bookmark(99, 6), added, "a@5"), []string{"apply a@5 added", "bookmark t6"}, phaseLive},
		{"a new state while live", phaseLive, response(bookmark(stateBegin, 6)), []string{"init_begin"}, phaseInitial},
		{"going away gives its point", phaseLive, response(bookmark(goingAway, 6)), []string{"bookmark t6"}, phaseLive},
		{"going away as the first word", phaseOpenedInitial, response(bookmark(goingAway, 6)), nil, phaseOpenedInitial},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := translate(test.now, test.in, &told{})
			if err != nil {
				t.Fatal(err)
			}
			if texts := allShown(got.events); !slices.Equal(texts, test.want) {
				t.Errorf("got %q, want %q", texts, test.want)
			}
			if got.next != test.next {
				t.Errorf("phase %d, want %d", got.next, test.next)
			}
		})
	}
}

func TestBreachesOfTheProtocol(t *testing.T) {
	tests := map[string]struct {
		now phase
		in  *listwatchv1.WatchResponse
	}{
		"events before the first bookmark":  {phaseOpenedResuming, of(bookmark(resumed, 1), added, "a@1")},
		"initial state that does not begin": {phaseOpenedInitial, response(bookmark(resumed, 1))},
		"initial state that only ends":      {phaseOpenedInitial, response(bookmark(stateEnd, 1))},
		"end of nothing, resuming":          {phaseOpenedResuming, response(bookmark(stateEnd, 1))},
		"end of nothing, live":              {phaseLive, response(bookmark(stateEnd, 1))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := translate(test.now, test.in, &told{}); err == nil {
				t.Errorf("got %q", allShown(got.events))
			} else if judge(err) != resume {
				t.Errorf("%v is not resumed", err)
			}
		})
	}
}

func TestWhatCannotBeActedOnIsPassedOver(t *testing.T) {
	in := response(nil, &listwatchv1.WatchEvent{Type: added}, change(added, "a@1"), change(deleted, "b@1"))
	in.Events[2].Resource.Key = nil
	got, err := translate(phaseLive, in, &told{})
	if err != nil || len(got.events) != 1 {
		t.Errorf("got %q, %v", allShown(got.events), err)
	}
}

func TestNothingIsToldTwice(t *testing.T) {
	before := &told{}
	for _, name := range []string{"a@5", "b@6", "c@6"} {
		before.record(object(name))
	}
	in := of(nil, modified, "a@5", "x@4", "b@6", "d@6", "a@7")
	live, _ := translate(phaseLive, in, before)
	if got, want := allShown(live.events), []string{"apply d@6 modified", "apply a@7 modified"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// What catches up is told as a whole.
	net, _ := translate(phaseNet, in, before)
	if len(net.events) != 5 {
		t.Errorf("got %q", allShown(net.events))
	}
}

func TestToldAbsorbsWhatEarlierStreamsTold(t *testing.T) {
	var newer, earlier told
	earlier.record(object("a@6"))
	newer.absorb(earlier)
	newer.record(object("b@6"))
	newer.absorb(earlier)
	for _, name := range []string{"a@6", "b@6", "c@5"} {
		if !newer.includes(object(name)) {
			t.Errorf("%s is not included", name)
		}
	}
	if newer.includes(object("c@6")) || newer.includes(object("a@7")) {
		t.Error("includes what was not told")
	}
}
