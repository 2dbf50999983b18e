package protocol

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// MaxBody bounds the body of a request, in bytes.
const MaxBody = 64 << 10

// Form holds the parameters of a request by name. None is empty, and none was repeated.
type Form map[string]string

// secretParameters returns the names that are refused in a URL, since logs and browser histories keep URLs (RFC 6749, 2.3.1).
func secretParameters() []string {
	return []string{"client_secret", "password", "encrypt", "refresh_token", "code", "code_verifier", "client_assertion", "username",
		"device_code", "token", "subject_token", "otp"}
}

// ReadForm reads the form in a request's body (RFC 6749, 3.2). Empty parameters count as left out; repeated ones are refused.
func ReadForm(r *http.Request) (Form, error) {
	values, err := ReadValues(r)
	if err != nil {
		return nil, err
	}
	return Once(values)
}

// ReadValues reads the form in a request's body, where a parameter may be repeated.
func ReadValues(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return nil, &Error{Code: http.StatusUnsupportedMediaType, Name: InvalidRequest,
			Description: "The body has to be of type application/x-www-form-urlencoded."}
	}
	query := r.URL.Query()
	for _, name := range secretParameters() {
		if query.Has(name) {
			return nil, Refuse(InvalidRequest, "The parameter "+name+" belongs in the body, never in the URL.")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, &Error{Code: http.StatusRequestEntityTooLarge, Name: InvalidRequest, Description: "The body is too long."}
	}
	if err != nil {
		return nil, Refuse(InvalidRequest, "The body could not be read.").Because(err)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil { // the error quotes the body
		return nil, Refuse(InvalidRequest, "The body is not a well-formed form.")
	}
	return values, nil
}

// Once returns the values as a Form, and refuses repeated parameters (RFC 6749, 3.1).
func Once(values url.Values) (Form, error) {
	f := make(Form, len(values))
	for name, v := range values {
		if len(v) > 1 {
			return nil, Refuse(InvalidRequest, "A parameter is given more than once.")
		}
		if v[0] != "" {
			f[name] = v[0]
		}
	}
	return f, nil
}
