package login

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/oauth2"
)

// errRefused is the error for a token that is not accepted.
var errRefused = errors.New("the server does not accept the token")

// statusError is the error for a response that is not a success.
type statusError struct {
	code       int
	name, text string
}

func (e *statusError) Error() string {
	out := fmt.Sprintf("the server answers %d", e.code)
	if e.name != "" {
		out += " " + plain(e.name)
	}
	if e.text != "" {
		out += ": " + plain(e.text)
	}
	return out
}

func (e *statusError) Is(target error) bool {
	return target == errRefused && e.code == http.StatusUnauthorized
}

// isOver reports whether a refresh has failed finally: the session has ended (RFC 6749, 5.2).
func isOver(err error) bool {
	var e *oauth2.RetrieveError
	return errors.As(err, &e) && e.ErrorCode == "invalid_grant"
}

// explain describes what an error means, and what to do about it.
func (s *Session) explain(err error) error {
	var status *statusError
	var e *oauth2.RetrieveError
	code, name, text := 0, "", ""
	switch {
	case errors.As(err, &e) && e.Response != nil:
		code, name, text = e.Response.StatusCode, e.ErrorCode, e.ErrorDescription
	case errors.As(err, &status):
		code, name, text = status.code, status.name, status.text
	}
	says := strings.TrimSpace(plain(name) + ": " + plain(text))
	says = strings.Trim(says, ": ")
	switch {
	case code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests:
		return &wordedError{fmt.Sprintf("%s can't do it at the moment (%d %s); nothing is lost: try again in a moment", s.Issuer, code, says),
			err}
	case slices.Contains([]string{"invalid_client", "unauthorized_client"}, name):
		return &wordedError{fmt.Sprintf("%s does not let the OAuth client %q in (%s): see --client-id", s.Issuer, s.Client, says), err}
	case name == "access_denied":
		return &wordedError{fmt.Sprintf("the login at %s was refused (%s)", s.Issuer, says), err}
	case e != nil && code != 0: // the library's own text quotes the whole answer
		return &wordedError{fmt.Sprintf("%s answers %d %s", s.Issuer, code, says), err}
	}
	return err
}

// wordedError is an error with another text.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }

func (e *wordedError) Unwrap() error { return e.err }

// plain makes a text of a server short, and safe to be shown on a terminal.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 300)]
}
