package listwatch

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/protobuf/proto"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// maxListRestarts is how often [Client.ListAll] starts over. A list that expires again and
// again is slower than the server's retention, and no number of attempts changes that.
const maxListRestarts = 3

// Listing is a whole list.
type Listing struct {
	// Resources are ordered by (namespace, name).
	Resources []*Resource
	// Revision is the one that all of them show.
	Revision int64
	// ResumeToken starts a watch of the same selector right after this list ([FromToken]).
	ResumeToken string
}

// List gives the objects of one snapshot, in the order of (namespace, name), reading page
// after page as the loop goes on. After an error, which comes without an object, it ends.
//
//	for resource, err := range client.List(ctx, request) {
//
// The error is [ErrExpired] if the snapshot's revision was compacted between two pages:
// what was given so far is right, the rest cannot be had.
func (c *Client) List(ctx context.Context, request *ListRequest) iter.Seq2[*Resource, error] {
	return func(yield func(*Resource, error) bool) {
		for page, err := range c.ListPages(ctx, request) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, resource := range page.GetResources() {
				if !yield(resource, nil) {
					return
				}
			}
		}
	}
}

// ListPages gives the pages of one snapshot, each read when the loop asks for it, from
// request.page_token on. Otherwise it is as [Client.List].
func (c *Client) ListPages(ctx context.Context, request *ListRequest) iter.Seq2[*listwatchv1.ListResponse, error] {
	return func(yield func(*listwatchv1.ListResponse, error) bool) {
		request := proto.CloneOf(request)
		for {
			page, err := unary(ctx, c, request, c.service.List)
			if err != nil {
				yield(nil, err)
				return
			}
			next := page.GetNextPageToken()
			if next != "" && next == request.GetPageToken() {
				yield(nil, breach("a page's token leads to the same page"))
				return
			}
			if !yield(page, nil) || next == "" {
				return
			}
			request.PageToken = next
		}
	}
}

// ListAll reads all pages. It starts over, up to three times, if the snapshot expires
// between two pages.
func (c *Client) ListAll(ctx context.Context, request *ListRequest) (*Listing, error) {
	for restarts := 0; ; restarts++ {
		listing, err := c.listOnce(ctx, request)
		if err == nil {
			return listing, nil
		}
		// A request for one exact revision stays expired.
		again := errors.Is(err, ErrExpired) && request.GetConsistency() == nil
		if !again || restarts == maxListRestarts {
			return nil, err
		}
	}
}

func (c *Client) listOnce(ctx context.Context, request *ListRequest) (*Listing, error) {
	listing := &Listing{}
	for page, err := range c.ListPages(ctx, request) {
		if err != nil {
			return nil, err
		}
		listing.Resources = append(listing.Resources, page.GetResources()...)
		listing.Revision = page.GetRevision()
		listing.ResumeToken = page.GetResumeToken()
	}
	return listing, nil
}
