package main

import (
	"context"
	"errors"
	"fmt"

	listwatch "listwatch.dev/go"
)

// call makes the unary call that a command asks for.
func call(to target, c command) (any, error) {
	if to.client == nil {
		return nil, errors.New("not connected")
	}
	ctx := context.Background()
	switch c.Do {
	case "create":
		resource, err := c.resource()
		if err != nil {
			return nil, err
		}
		made, err := to.client.Create(ctx, &listwatch.CreateRequest{Resource: resource})
		return resourceAnswer(made, err)
	case "update":
		resource, err := c.resource()
		if err != nil {
			return nil, err
		}
		made, err := to.client.Update(ctx, &listwatch.UpdateRequest{
			Resource: resource, IfRevision: c.IfRevision, AllowMissing: c.AllowMissing,
		})
		return resourceAnswer(made, err)
	case "delete":
		key, err := c.key()
		if err != nil {
			return nil, err
		}
		gone, err := to.client.Delete(ctx, &listwatch.DeleteRequest{Key: key, IfRevision: c.IfRevision})
		return resourceAnswer(gone, err)
	case "get":
		key, err := c.key()
		if err != nil {
			return nil, err
		}
		got, err := to.client.Get(ctx, &listwatch.GetRequest{Key: key})
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"resource": resourceForm(got.GetResource()), "revision": got.GetRevision(),
		}, nil
	case "list":
		selector, err := c.selector()
		if err != nil {
			return nil, err
		}
		listing, err := to.client.ListAll(ctx, &listwatch.ListRequest{
			Selector: selector, PageSize: c.PageSize,
		})
		if err != nil {
			return nil, err
		}
		resources := make([]any, 0, len(listing.Resources))
		for _, resource := range listing.Resources {
			resources = append(resources, resourceForm(resource))
		}
		return map[string]any{
			"resources": resources, "revision": listing.Revision, "resume_token": listing.ResumeToken,
		}, nil
	default:
		return nil, fmt.Errorf("do what? %q", c.Do)
	}
}

func resourceAnswer(answer interface{ GetResource() *listwatch.Resource }, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]any{"resource": resourceForm(answer.GetResource())}, nil
}
