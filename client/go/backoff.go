package listwatch

import (
	"math/rand/v2"
	"time"
)

// Backoff bounds the delays between attempts. The jitter is full: each delay is drawn
// evenly between nothing and a bound that grows with each failure, so that clients which
// failed together do not come back together.
type Backoff struct {
	// Initial is the longest first delay.
	Initial time.Duration
	// Factor is by how much the bound grows from one failure to the next.
	Factor float64
	// Max is the longest delay of all.
	Max time.Duration
}

// defaultBackoff is that of watches. The numbers are those of Kubernetes' reflectors.
var defaultBackoff = Backoff{Initial: 800 * time.Millisecond, Factor: 2, Max: 30 * time.Second}

// betweenAttempts is that of unary calls.
var betweenAttempts = Backoff{Initial: 50 * time.Millisecond, Factor: 2, Max: time.Second}

// delays draws one delay after the other.
type delays struct {
	backoff Backoff
	bound   time.Duration
	// draw gives numbers from 0 to 1. From outside, so that tests decide.
	draw func() float64
}

func newDelays(backoff Backoff, draw func() float64) *delays {
	if draw == nil {
		draw = rand.Float64
	}
	d := &delays{backoff: backoff, draw: draw}
	d.reset()
	return d
}

// next is the delay after one more failure.
func (d *delays) next() time.Duration {
	delay := d.jittered(d.bound)
	grown := float64(d.bound) * d.backoff.Factor
	// Compared as floats: a bound that overflows would come out negative.
	if grown >= float64(d.backoff.Max) {
		d.bound = d.backoff.Max
	} else {
		d.bound = time.Duration(grown)
	}
	return delay
}

// jittered is an even draw between nothing and bound.
func (d *delays) jittered(bound time.Duration) time.Duration {
	return time.Duration(float64(bound) * min(max(d.draw(), 0), 1))
}

// reset goes back to the first delay.
func (d *delays) reset() {
	d.bound = min(d.backoff.Initial, d.backoff.Max)
}
