package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/encoding/protojson"

	listwatch "listwatch.dev/go"
)

// resourceForm is the ProtoJSON of a resource.
func resourceForm(resource *listwatch.Resource) json.RawMessage {
	text, err := protojson.Marshal(resource)
	if err != nil {
		log.Fatal(err)
	}
	return text
}

func errorForm(err error) any {
	form := map[string]any{
		"code": "UNKNOWN", "reason": "", "message": err.Error(),
		"metadata": map[string]string{}, "retry_after": nil,
	}
	var failure *listwatch.Error
	switch {
	case errors.As(err, &failure):
		form["code"] = code.Code(failure.Code).String()
		form["reason"] = failure.Reason
		form["message"] = failure.Message
		if failure.Metadata != nil {
			form["metadata"] = failure.Metadata
		}
		if failure.HasRetryAfter {
			form["retry_after"] = failure.RetryAfter.Milliseconds()
		}
	case errors.Is(err, context.DeadlineExceeded):
		form["code"] = "TIMEOUT"
	case errors.Is(err, listwatch.ErrClosed):
		form["code"] = "CANCELLED"
	}
	return form
}

func eventForm(name string, event listwatch.Event) any {
	form := map[string]any{"watch": name, "event": event.Kind.String()}
	if event.Object != nil {
		form["object"] = resourceForm(event.Object)
	}
	if event.Previous != nil {
		form["previous"] = resourceForm(event.Previous)
	}
	switch {
	case event.Kind == listwatch.Apply:
		form["change"] = event.Change.String()
	case event.Kind == listwatch.Delete:
		form["cause"] = event.Cause.String()
	case event.Kind.IsPoint():
		form["revision"] = event.Point.Revision
		form["resume_token"] = event.Point.ResumeToken
		form["latest_revision"] = event.Point.LatestRevision
	case event.Kind == listwatch.Disconnected:
		form["cause"] = event.Disconnect.Cause.String()
		form["retry_in"] = event.Disconnect.RetryIn.Milliseconds()
		if event.Disconnect.Err != nil {
			form["error"] = errorForm(event.Disconnect.Err)
		}
	}
	return form
}

func endForm(name string, err error) any {
	form := map[string]any{"watch": name, "ended": "closed"}
	switch {
	case errors.Is(err, listwatch.ErrRefused):
		form["ended"] = "refused"
		form["error"] = errorForm(err)
	case errors.Is(err, listwatch.ErrExpired):
		form["ended"] = "expired"
		form["error"] = errorForm(err)
	}
	return form
}
