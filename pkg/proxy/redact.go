package proxy

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	typeJSON = "application/json"
	// maxValue bounds one object of an answer that is rewritten: the most that etcd accepts, with managedFields, as text.
	maxValue = 16 << 20
)

// redactionOf returns the redaction for the answer to a request, nil for all but a few kinds. Writes and sub-resources answer with their
// whole objects too.
func redactionOf(i *request.Info) *redaction.Redaction {
	if !i.IsResource {
		return nil
	}
	return redaction.Of(schema.GroupResource{Group: i.APIGroup, Resource: i.Resource})
}

// askJSON makes out a request whose answer can be rewritten: JSON, and not compressed. Tables and bare metadata are still possible.
func askJSON(out *http.Request) {
	var takes []string
	for _, line := range out.Header["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			if media, _, err := mime.ParseMediaType(part); err == nil && media == typeJSON {
				takes = append(takes, strings.TrimSpace(part))
			}
		}
	}
	out.Header.Set("Accept", strings.Join(append(takes, typeJSON), ","))
	out.Header.Set("Accept-Encoding", "identity")
}

// redactAnswer has the hidden fields of a kind removed from an answer while it passes. Refusals are Statuses, and pass as they are.
func redactAnswer(res *http.Response) error {
	info := request.InfoFrom(res.Request.Context())
	x := redactionOf(info)
	if x == nil || res.StatusCode >= http.StatusBadRequest || res.StatusCode == http.StatusNotModified {
		return nil
	}
	if err := checkReadable(res); err != nil {
		return err
	}
	delete(res.Header, "Content-Length")
	if res.Request.Method == http.MethodHead {
		return nil
	}
	res.ContentLength = -1
	in := rawjson.NewReader(res.Body, maxValue)
	if info.Verb == "watch" {
		res.Body = &redacted{Closer: res.Body, next: func(dst []byte) ([]byte, error) {
			frame, err := in.Line()
			if err != nil {
				return dst, err
			}
			dst, err = appendEvent(dst, x, frame)
			return append(dst, '\n'), err
		}}
		relay.WatchBody(res) // a stream may end within an event, and the client still sees a clean end
		return nil
	}
	d := &document{in: in, redaction: x}
	res.Body = &redacted{Closer: res.Body, next: d.batch}
	return nil
}

// checkReadable refuses an answer that could have secrets but can't be parsed.
func checkReadable(res *http.Response) error {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != typeJSON || res.Header.Get("Content-Encoding") != "" {
		return &relay.RefusedAnswer{Reason: "it answered with something other than JSON, of a kind that has secrets"}
	}
	return nil
}

// appendEvent appends an event of a watch.
func appendEvent(dst []byte, x *redaction.Redaction, frame string) ([]byte, error) {
	dst = append(dst, '{')
	m := rawjson.Object(frame)
	var err error
	for first := true; m.Next(); first = false {
		dst = appendName(dst, !first, m.Key)
		if m.Key != "object" {
			dst = append(dst, m.Value...)
			continue
		}
		if dst, err = appendWhole(dst, x, m.Value); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), m.Err()
}

// appendWhole appends an object, a Table or a Status.
func appendWhole(dst []byte, x *redaction.Redaction, s string) ([]byte, error) {
	d := &document{in: rawjson.NewReader(strings.NewReader(s), maxValue), redaction: x}
	for {
		var err error
		if dst, err = d.next(dst); errors.Is(err, io.EOF) {
			return dst, nil
		} else if err != nil {
			return dst, err
		}
	}
}

// redacted is the body of an answer that is rewritten piece by piece. Input that can't be parsed ends it with an error, which ends the
// connection: nothing passes that was not parsed.
type redacted struct {
	io.Closer
	next func(dst []byte) ([]byte, error)

	piece []byte
	at    int
	err   error
}

// Read implements io.Reader. It waits for no more than the next piece.
func (b *redacted) Read(p []byte) (int, error) {
	for b.at == len(b.piece) {
		if b.err != nil {
			return 0, b.err
		}
		if cap(b.piece) > 2*relay.BufferSize {
			b.piece = nil // the buffer of one large object must not stay
		}
		b.at = 0
		if b.piece, b.err = b.next(b.piece[:0]); b.err != nil {
			b.piece = b.piece[:0]
		}
	}
	n := copy(p, b.piece[b.at:])
	b.at += n
	return n, nil
}
