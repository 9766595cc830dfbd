package listwatch

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	listwatchv1 "listwatch.dev/go/listwatch/v1"
)

// Get reads one object. Its error is [ErrNotFound] if the object is absent.
func (c *Client) Get(ctx context.Context, request *GetRequest) (*listwatchv1.GetResponse, error) {
	return unary(ctx, c, request, c.service.Get)
}

// Create writes a new object. Its error is [ErrAlreadyExists] if the key is taken.
func (c *Client) Create(ctx context.Context, request *CreateRequest) (*listwatchv1.CreateResponse, error) {
	if request.GetRequestId() == "" {
		request = proto.CloneOf(request)
		request.RequestId = newRequestID()
	}
	return unary(ctx, c, request, c.service.Create)
}

// Update replaces an object. Its error is [ErrConflict] if if_revision is not the object's
// revision, [ErrNotFound] if the object is absent and allow_missing is not set.
func (c *Client) Update(ctx context.Context, request *UpdateRequest) (*listwatchv1.UpdateResponse, error) {
	if request.GetRequestId() == "" {
		request = proto.CloneOf(request)
		request.RequestId = newRequestID()
	}
	return unary(ctx, c, request, c.service.Update)
}

// Delete deletes an object. Its error is [ErrConflict] if if_revision or if_uid does not
// hold, [ErrNotFound] if the object is absent and allow_missing is not set.
func (c *Client) Delete(ctx context.Context, request *DeleteRequest) (*listwatchv1.DeleteResponse, error) {
	if request.GetRequestId() == "" {
		request = proto.CloneOf(request)
		request.RequestId = newRequestID()
	}
	return unary(ctx, c, request, c.service.Delete)
}

// Batch applies several writes at one revision, all or none. Its error is that of the
// first operation which cannot be done.
func (c *Client) Batch(ctx context.Context, request *BatchRequest) (*listwatchv1.BatchResponse, error) {
	if request.GetRequestId() == "" {
		request = proto.CloneOf(request)
		request.RequestId = newRequestID()
	}
	return unary(ctx, c, request, c.service.Batch)
}

// Compact drops history before a revision; the state at it stays readable. Its error is
// [ErrExpired] or [ErrFutureRevision] if the revision is above the newest one.
func (c *Client) Compact(ctx context.Context, request *CompactRequest) (*listwatchv1.CompactResponse, error) {
	return unary(ctx, c, request, c.admin.Compact)
}

// Status reports the server's revisions, sizes, limits and watch counts.
func (c *Client) Status(ctx context.Context) (*listwatchv1.GetStatusResponse, error) {
	return unary(ctx, c, &listwatchv1.GetStatusRequest{}, c.admin.GetStatus)
}

// newRequestID is 128 random bits: two clients do not meet by chance within any server's
// window.
func newRequestID() string {
	var id [16]byte
	// crypto/rand.Read never fails; it would rather end the program.
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
