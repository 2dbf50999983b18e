package oauth

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// form has the parameters of a request, each once.
type form map[string]string

// secretParameters never stand in a URL, which logs and histories keep (RFC 6749, 2.3.1).
func secretParameters() []string {
	return []string{"client_secret", "password", "encrypt", "refresh_token", "code", "code_verifier", "client_assertion", "username",
		"device_code", "token", "subject_token", "otp"}
}

// readForm reads the body of a request of the token endpoint (RFC 6749, 3.2): a form and nothing else.
// An empty parameter counts as left out, and none may stand there twice.
func readForm(w http.ResponseWriter, r *http.Request) (form, error) {
	values, err := readValues(w, r)
	if err != nil {
		return nil, err
	}
	return once(values)
}

func readValues(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return nil, &Error{Code: http.StatusUnsupportedMediaType, Name: invalidRequest,
			Description: "The body has to be of type application/x-www-form-urlencoded."}
	}
	query := r.URL.Query()
	for _, name := range secretParameters() {
		if query.Has(name) {
			return nil, refuse(invalidRequest, "The parameter "+name+" belongs in the body, never in the URL.")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, &Error{Code: http.StatusRequestEntityTooLarge, Name: invalidRequest, Description: "The body is too long."}
	}
	if err != nil {
		return nil, refuse(invalidRequest, "The body could not be read.").because(err)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil { // the error quotes the body
		return nil, refuse(invalidRequest, "The body is not a well-formed form.")
	}
	return values, nil
}

// once refuses a parameter that stands there twice (RFC 6749, 3.1).
func once(values url.Values) (form, error) {
	f := make(form, len(values))
	for name, v := range values {
		if len(v) > 1 {
			return nil, refuse(invalidRequest, "A parameter stands there more than once.")
		}
		if v[0] != "" {
			f[name] = v[0]
		}
	}
	return f, nil
}
