package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/status"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// declare is the advice about a registry without verified TLS.
const declare = "if that is on purpose, declare the registry insecure: with the annotation " + InsecureAnnotation +
	`: "true" on its Secret, or to log in without a Secret, with http:// before its address`

// failure returns a Status for an error at a registry, in our own words: the errors of libraries quote answers, addresses and tokens. It
// is nil for nil, and leaves a Status alone.
func failure(ctx context.Context, host, what string, err error) error {
	var known apierrors.APIStatus
	if err == nil || errors.As(err, &known) {
		return err
	}
	var answer *transport.Error
	var unknown *net.DNSError
	var untrusted *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var network *net.OpError
	say := func(format string, args ...any) error {
		return status.BadRequestf("%s at the registry %s: %s", what, host, fmt.Sprintf(format, args...))
	}
	switch {
	case errors.As(err, &answer):
		return refusal(say, host, what, answer)
	case errors.Is(err, egress.ErrRefused):
		return say("%v", egress.ErrRefused)
	case errors.Is(err, errElse):
		return say("it wants the credentials to be sent to another site, which is refused")
	case errors.Is(err, errRequests), errors.Is(err, errTooLong):
		return say("it answers more than this server takes")
	case errors.Is(err, errNoImage):
		return say("it lists nothing there that is an image")
	case errors.As(err, &untrusted):
		return say("its certificate is not trusted; %s", declare)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return say("there is no such host")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		// A refused connection and a silent server give the same answer: the caller must not learn which ports of a private network are
		// open.
		return say("it can't be reached, or does not answer in time")
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record), errors.Is(err, errPlain):
		return say("it does not speak TLS; %s", declare)
	}
	return say("it does not answer as a container registry does")
}

// refusal returns a Status for an answer that is an error.
func refusal(say func(string, ...any) error, host, what string, answer *transport.Error) error {
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return say("it refuses the credentials, or there are none for it")
	case http.StatusNotFound:
		return status.Errorf(http.StatusNotFound, "%s at the registry %s: it has no such image, or does not show it to this account", what, host)
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests(fmt.Sprintf("%s at the registry %s: it has had too many requests", what, host), 60)
	}
	return say("it answers %d", answer.StatusCode)
}

// excerpt shortens what a client sent for an error message.
func excerpt(s string) string { return status.Excerpt(s, 120) }
