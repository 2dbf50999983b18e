package relay

import (
	"context"
	"io"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// WatchBody makes the end of a stream that this server ends look like an ordinary end of the answer: a watch is then over as if its time
// was up, and clients begin the next. An archive of files stays cut off, which would be taken for a whole one.
func WatchBody(res *http.Response) {
	ctx := res.Request.Context()
	if s := stream.From(ctx); s != nil && !isFile(request.InfoFrom(ctx)) {
		res.Body = &streamBody{ReadCloser: res.Body, ctx: s.Context()}
	}
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
