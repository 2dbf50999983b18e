package relay

import (
	"context"
	"io"
	"mime"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// WatchBody makes the end of a stream that this server ends look like an ordinary end of the answer: a watch is then over as if its time
// was up, and clients begin the next. What has an end of its own stays cut off: a part of a file would be taken for the whole one.
func WatchBody(res *http.Response) {
	ctx := res.Request.Context()
	if s := stream.From(ctx); s != nil && endsAnywhere(request.InfoFrom(ctx), res.Header) {
		res.Body = &streamBody{ReadCloser: res.Body, ctx: s.Context()}
	}
}

// endsAnywhere reports whether the answer to a long request has no end of its own: a watch, a live page, a log that is followed, or
// events for a browser. Whatever else a workload behind a proxy subresource sends may be a download.
func endsAnywhere(i *request.Info, h http.Header) bool {
	if media, _, _ := mime.ParseMediaType(h.Get("Content-Type")); media == "text/event-stream" {
		return true
	}
	return i != nil && (i.Verb == "watch" || i.Verb == "list" || i.Subresource == "log")
}

type streamBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *streamBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && stream.Ended(b.ctx) != nil {
		err = io.EOF
	}
	return n, err
}
