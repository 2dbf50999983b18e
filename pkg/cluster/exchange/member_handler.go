package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Answers are how a member answers its hub, by method and path: "POST /fleet/objects".
type Answers map[string]func(*http.Request) (any, error)

// ServeHTTP answers a request that has come over a link from the hub.
func (a Answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	value, err := a.answer(r)
	web.Write(w, r, value, Explained(err))
}

// Explained returns the error that a hub is told: that this cluster's kube-apiserver does not answer, in the place of how a request to it
// failed, which says addresses.
func Explained(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		klog.ErrorS(err, "What the hub asks for was not done")
		return status.Errorf(http.StatusServiceUnavailable, "the kube-apiserver of this cluster does not answer its ks-apiserver")
	}
	return err
}

func (a Answers) answer(r *http.Request) (any, error) {
	switch answer, ok := a[r.Method+" "+r.URL.Path]; {
	case ok:
		return answer(r)
	case r.Method != http.MethodPost:
		return nil, status.Errorf(http.StatusMethodNotAllowed, "a hub asks this by POST")
	}
	return nil, status.Errorf(http.StatusNotFound, "a hub does not ask for %.100q", r.URL.Path)
}

// To answers a request, whose body is JSON of at most so many bytes, with what answer returns.
func To[In, Out any](most int, answer func(context.Context, *In) (Out, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		raw, err := readAll(r, most)
		if err != nil {
			return nil, err
		}
		in := new(In)
		if json.Unmarshal(raw, in) != nil {
			return nil, status.BadRequestf("the body can't be read")
		}
		return answer(r.Context(), in)
	}
}

// Done is To for a request to do something, whose answer has nothing.
func Done[In any](most int, do func(context.Context, *In) error) func(*http.Request) (any, error) {
	return To(most, func(ctx context.Context, in *In) (struct{}, error) { return struct{}{}, do(ctx, in) })
}

// File is a chart or a package that a hub sends to a member.
type File struct {
	Hub    string
	Digest string
	Raw    []byte
}

// ReadFile reads a file, whose query has the hub and the SHA-256 of the body; what is the word for it in errors.
func ReadFile(r *http.Request, what string) (*File, error) {
	q := r.URL.Query()
	f := &File{Hub: q.Get("hub"), Digest: q.Get("digest")}
	if !IsHub(f.Hub) || !IsDigest(f.Digest) {
		return nil, status.BadRequestf("the query has to have the hub and the digest of the %s", what)
	}
	var err error
	if f.Raw, err = readAll(r, chart.MaxArchive); err != nil {
		return nil, err
	}
	if chart.Digest(f.Raw) != f.Digest {
		return nil, status.BadRequestf("the %s is another one than its digest says", what)
	}
	return f, nil
}

func readAll(r *http.Request, most int) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > most {
		return nil, status.Errorf(http.StatusRequestEntityTooLarge, "the body may have %d bytes at most", most)
	}
	return raw, nil
}
