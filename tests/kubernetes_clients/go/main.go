// The shared informer of client-go, over the config maps of one namespace.
//
//	informer -server http://127.0.0.1:7450 -client typed
//
// For each line that it reads it writes what it has, as a line of JSON: the informer's cache, a
// copy made from its events alone, and how it came to them. Whether it streams its lists says
// client-go's own variable, KUBE_FEATURE_WatchListClient.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const namespace = "default"

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// What the informer has, and what it took.
type report struct {
	Synced bool  `json:"synced"`
	Cache  []any `json:"cache"`
	Copy   []any `json:"copy"`
	// Lists that were answered.
	Lists int `json:"lists"`
	// Watches that began with the state.
	Streams int `json:"streams"`
	// All others.
	Watches int `json:"watches"`
	// Watches that were told that their version is gone.
	Gone int `json:"gone"`
}

func main() {
	server := flag.String("server", "", "the server's URL")
	client := flag.String("client", "typed", "typed or dynamic")
	flag.Parse()
	counter := &counter{}
	config := &rest.Config{Host: *server}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counter.next = next
		return counter
	})
	informer := newInformer(config, *client)
	copied := &copied{objects: map[string]any{}}
	registered, err := informer.AddEventHandler(copied)
	check(err)
	go informer.Run(context.Background().Done())

	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		report := counter.report()
		report.Synced = registered.HasSynced()
		report.Cache = informer.GetStore().List()
		report.Copy = copied.list()
		check(answers.Encode(report))
	}
}

func newInformer(config *rest.Config, client string) cache.SharedIndexInformer {
	switch client {
	case "typed":
		// As Kubernetes' own controllers ask.
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		client, err := kubernetes.NewForConfig(config)
		check(err)
		only := informers.WithNamespace(namespace)
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, only)
		return factory.Core().V1().ConfigMaps().Informer()
	case "dynamic":
		client, err := dynamic.NewForConfig(config)
		check(err)
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
		return factory.ForResource(configMaps).Informer()
	default:
		log.Fatalf("-client %s", client)
		return nil
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A copy of the objects, made from events alone.
type copied struct {
	lock    sync.Mutex
	objects map[string]any
}

func (c *copied) OnAdd(object any, _ bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	name := nameOf(object)
	if _, held := c.objects[name]; held {
		log.Fatalf("added twice: %s", name)
	}
	c.objects[name] = object
}

func (c *copied) OnUpdate(_, object any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.objects[nameOf(object)] = object
}

func (c *copied) OnDelete(object any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	// It was deleted while the informer was away.
	if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	name := nameOf(object)
	if _, held := c.objects[name]; !held {
		log.Fatalf("never added: %s", name)
	}
	delete(c.objects, name)
}

func (c *copied) list() []any {
	c.lock.Lock()
	defer c.lock.Unlock()
	all := make([]any, 0, len(c.objects))
	for _, object := range c.objects {
		all = append(all, object)
	}
	return all
}

func nameOf(object any) string {
	accessor, err := meta.Accessor(object)
	check(err)
	return accessor.GetName()
}

// Counts what the server answers.
type counter struct {
	next   http.RoundTripper
	lock   sync.Mutex
	counts report
}

func (c *counter) report() report {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.counts
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	query := request.URL.Query()
	switch {
	case query.Get("watch") == "":
		c.counts.Lists++
		return response, nil
	case query.Get("sendInitialEvents") == "true":
		c.counts.Streams++
	default:
		c.counts.Watches++
	}
	response.Body = &frames{ReadCloser: response.Body, counter: c}
	return response, nil
}

// The body of a watch, which is read along.
type frames struct {
	io.ReadCloser
	counter *counter
	rest    []byte
}

func (f *frames) Read(into []byte) (int, error) {
	n, err := f.ReadCloser.Read(into)
	f.rest = append(f.rest, into[:n]...)
	for {
		line, rest, whole := bytes.Cut(f.rest, []byte("\n"))
		if !whole {
			return n, err
		}
		f.rest = rest
		f.counter.frame(line)
	}
}

func (c *counter) frame(line []byte) {
	var event struct {
		Type   string
		Object struct{ Code int }
	}
	check(json.Unmarshal(line, &event))
	if event.Type == "ERROR" && event.Object.Code == http.StatusGone {
		c.lock.Lock()
		defer c.lock.Unlock()
		c.counts.Gone++
	}
}
