package main

import (
	"context"
	"errors"
	"fmt"

	listwatch "listwatch.dev/go"
)

// reflector is a reflector whose changes become lines.
type reflector struct {
	*listwatch.Reflector[*listwatch.Resource]
	told chan struct{}
}

func (a *agent) reflect(c command) error {
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
	r := &reflector{
		Reflector: a.client.Reflector(context.Background(), selector, options...),
		told:      make(chan struct{}),
	}
	a.reflectors[c.Name] = r
	go r.tell(c.Name, r.Subscribe(), &a.output)
	return nil
}

func (r *reflector) tell(name string, changes *listwatch.Subscription[*listwatch.Resource], output *output) {
	defer close(r.told)
	defer changes.Close()
	for notice, err := range changes.All(context.Background()) {
		switch {
		case err != nil:
			return
		case notice.Synced:
			output.line(map[string]any{"reflector": name, "synced": true})
		default:
			output.line(map[string]any{"reflector": name, "change": map[string]any{
				"key": notice.Key.String(),
				"old": versionForm(notice.Old),
				"new": versionForm(notice.New),
			}})
		}
	}
}

func (r *reflector) close() {
	r.Close()
	<-r.told
}

func versionForm(object *listwatch.Object[*listwatch.Resource]) any {
	if object == nil {
		return nil
	}
	return map[string]any{"uid": object.UID(), "revision": object.Revision()}
}

func (a *agent) state(name string) (any, error) {
	r := a.reflectors[name]
	if r == nil {
		return nil, fmt.Errorf("no reflector is called %q", name)
	}
	return r.state(r.Snapshot()), nil
}

func (r *reflector) state(snapshot *listwatch.Snapshot[*listwatch.Resource]) any {
	status := r.Status()
	objects := make(map[string]int64, snapshot.Len())
	for key, object := range snapshot.All() {
		objects[key.String()] = object.Revision()
	}
	var stopped any
	if status.Err != nil {
		stopped = errorForm(status.Err)
	}
	return map[string]any{
		"ready": status.Ready, "stale": status.Stale(), "revision": snapshot.Revision(),
		"objects": objects, "stopped": stopped,
	}
}

func (a *agent) wait(to target, c command) (any, error) {
	if to.reflector == nil {
		return nil, fmt.Errorf("no reflector is called %q", c.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout.duration())
	defer cancel()
	var snapshot *listwatch.Snapshot[*listwatch.Resource]
	var err error
	if c.Do == "wait_until_ready" {
		snapshot, err = to.reflector.WaitUntilReady(ctx)
	} else {
		snapshot, err = to.reflector.WaitForRevision(ctx, c.Revision)
	}
	if err != nil {
		return nil, err
	}
	return to.reflector.state(snapshot), nil
}
