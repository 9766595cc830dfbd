package listwatch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func number(n int) ObjectKey {
	return ObjectKey{Namespace: fmt.Sprint(n % 3), Name: fmt.Sprintf("%03d", n)}
}

// holds compares a tree with a map, by all ways of reading.
func holds(t *testing.T, tree tree[int], want map[ObjectKey]int) {
	t.Helper()
	got := maps.Collect(tree.all())
	if !maps.Equal(got, want) || tree.size != len(want) {
		t.Fatalf("got %v (size %d), want %v", got, tree.size, want)
	}
	var keys []ObjectKey
	for key := range tree.all() {
		keys = append(keys, key)
	}
	if !slices.IsSortedFunc(keys, ObjectKey.Compare) {
		t.Fatalf("out of order: %v", keys)
	}
	for n := range 100 {
		value, ok := tree.get(number(n))
		if wanted, is := want[number(n)]; ok != is || value != wanted {
			t.Fatalf("get %d: %v, %v", n, value, ok)
		}
	}
}

func TestTreesThatWereSharedDoNotChangeEachOther(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type version struct {
		tree tree[int]
		want map[ObjectKey]int
	}
	var now version
	now.want = map[ObjectKey]int{}
	var kept []version
	for step := range 3000 {
		key := number(random.IntN(100))
		if random.IntN(3) == 0 {
			_, is := now.want[key]
			if now.tree.remove(key) != is {
				t.Fatalf("remove %v", key)
			}
			delete(now.want, key)
		} else {
			now.tree.put(key, step)
			now.want[key] = step
		}
		if random.IntN(50) == 0 {
			kept = append(kept, version{now.tree.share(), maps.Clone(now.want)})
		}
	}
	holds(t, now.tree, now.want)
	for _, version := range kept {
		holds(t, version.tree, version.want)
	}
}

func TestTreeIsReadFromAKeyOn(t *testing.T) {
	var tree tree[int]
	for n := range 9 {
		tree.put(number(n), n)
	}
	var got []int
	for _, value := range tree.from(ObjectKey{Namespace: "1", Name: "002"}) {
		if got = append(got, value); len(got) == 3 {
			break
		}
	}
	if want := []int{4, 7, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkTreePutShared(b *testing.B) {
	var tree tree[int]
	for n := range 100_000 {
		tree.put(number(n), n)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		tree.put(number(n%100_000), n)
		tree.share()
	}
}
