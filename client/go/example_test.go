package listwatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"google.golang.org/protobuf/proto"

	listwatch "listwatch.dev/go"
)

// Writes go by what was read: a conflict means that someone else was faster.
func ExampleClient_Update() {
	client, err := listwatch.Dial(listwatch.DefaultAddress)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	key := &listwatch.Key{Collection: "counters", Name: "visits"}
	for {
		read, err := client.Get(ctx, &listwatch.GetRequest{Key: key})
		if err != nil {
			log.Fatal(err)
		}
		object := read.GetResource()
		object.Value = append(object.Value, '+')
		_, err = client.Update(ctx, &listwatch.UpdateRequest{
			Resource: object, IfRevision: proto.Int64(object.GetRevision()),
		})
		if errors.Is(err, listwatch.ErrConflict) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
}

// A watch goes on by itself, and a kept token starts the next one where this one was left.
func ExampleClient_Watch() {
	client, err := listwatch.Dial(listwatch.DefaultAddress)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var token string
	for event, err := range client.Watch(ctx, &listwatch.Selector{Collection: "pods"}) {
		if err != nil {
			log.Print(err)
			break
		}
		switch event.Kind {
		case listwatch.InitApply, listwatch.Apply:
			fmt.Println("is", event.Object.GetKey().GetName())
		case listwatch.Delete:
			fmt.Println("gone", event.Object.GetKey().GetName())
		case listwatch.Disconnected:
			log.Print(event.Disconnect)
		}
		if event.Kind.IsPoint() {
			token = event.Point.ResumeToken
		}
	}
	fmt.Println("go on with", token)
}

// A reflector holds decoded objects and tells of their changes.
func ExampleNewReflector() {
	client, err := listwatch.Dial(listwatch.DefaultAddress)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	decode := func(resource *listwatch.Resource) (string, error) {
		return string(resource.GetValue()), nil
	}
	names := listwatch.NewReflector(ctx, client, &listwatch.Selector{Collection: "names"}, decode)
	defer names.Close()
	snapshot, err := names.WaitUntilReady(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snapshot.Len(), "names at revision", snapshot.Revision())

	changes := names.Subscribe()
	defer changes.Close()
	for notice, err := range changes.All(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case notice.Synced:
			fmt.Println("all that was there has been told")
		case notice.New == nil:
			fmt.Println(notice.Key, "was", notice.Old.Value)
		default:
			fmt.Println(notice.Key, "is", notice.New.Value)
		}
	}
}
