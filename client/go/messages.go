package listwatch

import listwatchv1 "listwatch.dev/go/listwatch/v1"

// The API's messages that a program meets most often, so that it need not import
// listwatch/v1 for them.
type (
	// Resource is one version of an object.
	Resource = listwatchv1.Resource
	// Key names one object.
	Key = listwatchv1.Key
	// Selector says which objects a list or a watch covers. Collection is required.
	Selector = listwatchv1.Selector

	// GetRequest asks for one object.
	GetRequest = listwatchv1.GetRequest
	// ListRequest asks for a snapshot of what a selector matches.
	ListRequest = listwatchv1.ListRequest
	// CreateRequest writes an object that does not exist.
	CreateRequest = listwatchv1.CreateRequest
	// UpdateRequest replaces an object.
	UpdateRequest = listwatchv1.UpdateRequest
	// DeleteRequest deletes an object.
	DeleteRequest = listwatchv1.DeleteRequest
	// BatchRequest applies several writes at one revision.
	BatchRequest = listwatchv1.BatchRequest
	// CompactRequest drops history.
	CompactRequest = listwatchv1.CompactRequest
)
