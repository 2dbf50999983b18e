package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// Document is a JSON document in memory, with a strong entity tag. It answers any number of requests.
type Document struct {
	mediaType, tag string
	body           []byte
}

// NewDocument returns the document of a value. The media type may have parameters.
func NewDocument(mediaType string, v any) (*Document, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return &Document{mediaType: mediaType, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`, body: body}, nil
}

// Hash identifies the content, in characters that a URL may have.
func (d *Document) Hash() string { return strings.Trim(d.tag, `"`) }

// Respond implements Responder: 304 for a client that has the document, by If-None-Match (RFC 9110, 13.1.2).
func (d *Document) Respond(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("ETag", d.tag)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "no-cache, private")
	if HasTag(r.Header, d.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", d.mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		defer WriteDeadline(w, r, int64(len(d.body)))()
		_, _ = w.Write(d.body)
	}
}
