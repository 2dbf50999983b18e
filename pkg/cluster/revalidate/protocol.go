package revalidate

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

const (
	// Path is where a member has the stream, for its hub alone.
	Path = "/fleet/unchanged"
	// contentType is that of both ways: something else answers where there is no stream.
	contentType = "application/x-ndjson"
	// maxAsk and maxNews bound the lines.
	maxAsk, maxNews = 64 << 10, 256
	// Term is how long a confirmation counts from when it was asked for.
	Term = 100 * time.Millisecond
)

// Question is a GET that a member has answered.
type Question struct {
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	// Code is that of the answer: 200, or 403 or 404, which have no Tag.
	Code int `json:"code"`
	// Tag is the entity tag of the answer.
	Tag string `json:"tag,omitempty"`
}

// Keepable reports whether an answer can be confirmed, and returns the question with what is to be confirmed.
func Keepable(q Question, resp *http.Response) (Question, bool) {
	q.Code, q.Tag = resp.StatusCode, ""
	switch q.Code {
	case http.StatusOK:
		q.Tag = resp.Header.Get("Etag")
		return q, q.Tag != "" && len(q.Tag) <= maxTag && isAnswer(q.Path)
	case http.StatusForbidden, http.StatusNotFound:
		return q, isAnswer(q.Path)
	}
	return q, false
}

// maxTag bounds an entity tag.
const maxTag = 128

// isAnswer reports whether a path is one whose answers are confirmed: lists, which a member has in memory.
func isAnswer(path string) bool {
	return strings.HasPrefix(path, "/kapis/") || strings.HasPrefix(path, "/kapi/")
}

// ask is a line of the hub's: whether all questions of one caller would be answered as before.
type ask struct {
	N uint64 `json:"n"`
	// Header is what each question is asked with, but for the tag: who asks, above all.
	Header    json.RawMessage `json:"header"`
	Questions []Question      `json:"questions"`
}

// news is a line of the member's: the answer to the ask with the number N, or, where that is 0, that something has changed.
type news struct {
	N    uint64 `json:"n,omitempty"`
	Same bool   `json:"same,omitempty"`
}
