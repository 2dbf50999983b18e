package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
)

// byDevice is the device authorization grant, for a machine without a browser (RFC 8628).
func (s *Session) byDevice(ctx context.Context, p *provider) (*oauth2.Token, error) {
	if p.Device == "" {
		return nil, errors.New("the server has no login by device code")
	}
	conf := p.config(s)
	d, err := conf.DeviceAuth(s.client(ctx))
	if err != nil {
		return nil, err
	}
	if !isAddress(d.VerificationURI) || d.VerificationURIComplete != "" && !isAddress(d.VerificationURIComplete) || d.DeviceCode == "" ||
		d.UserCode == "" {
		return nil, errors.New("the server's answer has no address and no code to show")
	}
	if d.VerificationURIComplete != "" {
		fmt.Fprintf(s.Tell, "Log in with a browser on any machine: open\n  %s\nand see that it shows the code %s\n", d.VerificationURIComplete,
			plain(d.UserCode))
	} else {
		fmt.Fprintf(s.Tell, "Log in with a browser on any machine: open\n  %s\nand type the code %s\n", d.VerificationURI, plain(d.UserCode))
	}
	if d.Interval < 1 || d.Interval > 60 {
		d.Interval = 5
	}
	for {
		t, err := conf.DeviceAccessToken(s.client(ctx), d)
		// A server that can't be reached for a moment has not refused (RFC 8628, 3.5).
		switch {
		case err == nil:
			return t, nil
		case ctx.Err() == nil && !d.Expiry.IsZero() && !time.Now().Before(d.Expiry):
			return nil, errors.New("nobody has logged in while the code was good")
		case ctx.Err() != nil || !isPassing(err):
			return nil, err
		}
	}
}

// isPassing reports whether an error is of the server or the network, and may be gone at the next attempt.
func isPassing(err error) bool {
	var e *oauth2.RetrieveError
	if errors.As(err, &e) && e.Response != nil {
		return e.Response.StatusCode >= http.StatusInternalServerError || e.Response.StatusCode == http.StatusTooManyRequests
	}
	var u *url.Error
	return errors.As(err, &u)
}

// isAddress reports whether a text of the server is a URL that may be shown on a terminal.
func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") && plain(s) == s
}
