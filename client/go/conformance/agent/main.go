// Command agent drives this client for client/conformance/run.py, which describes what is
// read from standard input and written to standard output.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	listwatch "listwatch.dev/go"
)

func main() {
	agent := &agent{
		output:     output{encoder: json.NewEncoder(os.Stdout)},
		watches:    make(map[string]*watch),
		reflectors: make(map[string]*reflector),
	}
	if err := agent.run(os.Stdin); err != nil {
		log.Fatal(err)
	}
}

// agent holds what was made so far. Only the goroutine that reads commands changes it.
type agent struct {
	output
	client     *listwatch.Client
	clients    []*listwatch.Client
	watches    map[string]*watch
	reflectors map[string]*reflector
}

func (a *agent) run(input io.Reader) error {
	defer a.closeAll()
	decoder := json.NewDecoder(input)
	for {
		var c command
		switch err := decoder.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		a.do(c)
	}
}

// do answers a command: at once, or, where that takes time, from a goroutine of its own.
func (a *agent) do(c command) {
	var err error
	ok := any(struct{}{})
	switch c.Do {
	case "connect":
		err = a.connect(c)
	case "watch":
		err = a.watch(c)
	case "pause":
		err = a.pause(c.Name, true)
	case "resume":
		err = a.pause(c.Name, false)
	case "reflect":
		err = a.reflect(c)
	case "state":
		ok, err = a.state(c.Name)
	case "wait_until_ready", "wait_for_revision":
		a.later(c, a.wait)
		return
	case "close":
		err = a.close(c.Name)
	default:
		a.later(c, call)
		return
	}
	a.answer(c.ID, ok, err)
}

// later answers with what work comes to, without holding up the next command.
func (a *agent) later(c command, work func(target, command) (any, error)) {
	// Looked up here, since only this goroutine may.
	to := target{client: a.client, reflector: a.reflectors[c.Name]}
	go func() {
		ok, err := work(to, c)
		a.answer(c.ID, ok, err)
	}()
}

// target is what a command is about.
type target struct {
	client    *listwatch.Client
	reflector *reflector
}

func (a *agent) connect(c command) error {
	var options []listwatch.Option
	if c.RequestTimeout != nil {
		options = append(options, listwatch.WithRequestTimeout(c.RequestTimeout.duration()))
	}
	client, err := listwatch.Dial(c.Address, options...)
	if err != nil {
		return err
	}
	a.client = client
	a.clients = append(a.clients, client)
	return nil
}

func (a *agent) close(name string) error {
	switch {
	case a.watches[name] != nil:
		a.watches[name].close()
	case a.reflectors[name] != nil:
		a.reflectors[name].close()
	default:
		return fmt.Errorf("nothing is called %q", name)
	}
	return nil
}

func (a *agent) closeAll() {
	for _, watch := range a.watches {
		watch.close()
	}
	for _, reflector := range a.reflectors {
		reflector.close()
	}
	for _, client := range a.clients {
		// The program ends with it.
		_ = client.Close()
	}
}

// output writes one line at a time.
type output struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (o *output) line(line any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.encoder.Encode(line); err != nil {
		log.Fatal(err)
	}
}

func (o *output) answer(id int64, ok any, err error) {
	if err != nil {
		o.line(map[string]any{"id": id, "error": errorForm(err)})
		return
	}
	o.line(map[string]any{"id": id, "ok": ok})
}
