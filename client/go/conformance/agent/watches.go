package main

import (
	"context"
	"errors"
	"fmt"

	listwatch "listwatch.dev/go"
)

// watch is a watcher whose events become lines.
type watch struct {
	name    string
	watcher *listwatch.Watcher
	// pauses and ended speak with the goroutine that takes events.
	pauses chan pause
	ended  chan struct{}
}

// pause asks to take events or not; done is closed when that is so.
type pause struct {
	paused bool
	done   chan struct{}
}

func (a *agent) watch(c command) error {
	selector, err := c.selector()
	if err != nil {
		return err
	}
	options, err := c.Options.all()
	if err != nil {
		return err
	}
	if a.client == nil {
		return errors.New("not connected")
	}
	w := &watch{
		name:    c.Name,
		watcher: a.client.NewWatcher(context.Background(), selector, options...),
		pauses:  make(chan pause),
		ended:   make(chan struct{}),
	}
	a.watches[c.Name] = w
	go w.run(&a.output)
	return nil
}

func (a *agent) pause(name string, paused bool) error {
	w := a.watches[name]
	if w == nil {
		return fmt.Errorf("no watch is called %q", name)
	}
	asked := pause{paused: paused, done: make(chan struct{})}
	select {
	case w.pauses <- asked:
		<-asked.done
	case <-w.ended:
	}
	return nil
}

func (w *watch) close() {
	w.watcher.Close()
	<-w.ended
}

// run takes events until the end.
func (w *watch) run(output *output) {
	defer close(w.ended)
	for {
		if err := w.take(output); err != nil {
			output.line(endForm(w.name, err))
			return
		}
	}
}

// take takes events until it is asked to pause, and waits until it is asked to go on.
func (w *watch) take(output *output) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		for {
			event, err := w.watcher.Next(ctx)
			if err != nil {
				failed <- err
				return
			}
			output.line(eventForm(w.name, event))
		}
	}()
	var asked pause
	select {
	case err := <-failed:
		return err
	case asked = <-w.pauses:
		cancel()
	}
	if err := <-failed; !errors.Is(err, context.Canceled) {
		close(asked.done)
		return err
	}
	for asked.paused {
		close(asked.done)
		asked = <-w.pauses
	}
	close(asked.done)
	return nil
}
