package listwatch

import (
	"math"
	"slices"
	"testing"
	"time"
)

func always(draw float64) func() float64 { return func() float64 { return draw } }

func TestDelaysDoubleUpToTheirBound(t *testing.T) {
	delays := newDelays(defaultBackoff, always(1))
	var got []int64
	for range 8 {
		got = append(got, delays.next().Milliseconds())
	}
	want := []int64{800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	delays.reset()
	if got := delays.next(); got != 800*time.Millisecond {
		t.Errorf("after a reset: %v", got)
	}
}

func TestJitterIsFull(t *testing.T) {
	for draw, want := range map[float64]time.Duration{
		0: 0, 0.5: 400 * time.Millisecond, 1: 800 * time.Millisecond, -1: 0, 7: 800 * time.Millisecond,
	} {
		if got := newDelays(defaultBackoff, always(draw)).next(); got != want {
			t.Errorf("draw %v: got %v, want %v", draw, got, want)
		}
	}
}

func TestDelaysDoNotOverflow(t *testing.T) {
	delays := newDelays(Backoff{Initial: math.MaxInt64 / 2, Factor: 10, Max: math.MaxInt64}, always(0.5))
	for range 5 {
		if got := delays.next(); got <= 0 {
			t.Fatalf("got %v", got)
		}
	}
}
