package direct

import (
	"errors"
	"io"
	"net/http"
)

// mostAnswer bounds what a member's kube-apiserver answers to this server itself, in bytes, after decompression: the largest are the kinds
// that it has.
const mostAnswer = 8 << 20

// errAnswer says that an answer is none of a kube-apiserver.
var errAnswer = errors.New("what answers at the server in the kubeconfig is no kube-apiserver, or not as one does: it redirects, or its" +
	" answer is too long")

// bounded is the transport to the kube-apiserver of a member, which is not trusted. client-go reads whole answers into memory, however long
// they are, and follows redirects with the credential.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // as it failed
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return resp, nil // a link, in which the member proves who it is
	case resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest:
		_ = resp.Body.Close()
		return nil, errAnswer
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: mostAnswer}
	return resp, nil
}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// boundedBody is a body that can't be read beyond its bound.
type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errAnswer
	}
	return n, err //nolint:wrapcheck // as it failed
}
