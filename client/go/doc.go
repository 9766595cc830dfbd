// Package listwatch is the Go client of Listwatch, a gRPC service that stores versioned
// objects in a log and streams every change to watchers.
//
// A [Client] makes calls: Get, List, Create, Update, Delete, Batch and the administrative
// ones. [Client.Watch] is a stream of [Event] values that reconnects, resumes and starts
// over by itself. A [Reflector] keeps a copy of what a selector matches and shows
// consistent snapshots of it.
//
// Requests and answers are the messages of the API, package
// [listwatch.dev/go/listwatch/v1]; those that are used most have short names here.
//
// Every type is safe for use by several goroutines unless it says otherwise.
package listwatch
