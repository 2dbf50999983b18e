package stack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxBody bounds an answer that is read whole: every object of a large test cluster in one list.
const maxBody = 1 << 30

// client follows no redirects, since they are part of an answer, and requests no compression, so that an answer is what was sent.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, DisableCompression: true},
}

// Server is one address of ks-apiserver.
type Server struct {
	// URL is the base of every request, http://HOST:PORT without a slash at the end.
	URL string
}

// Request is one call.
type Request struct {
	// Method is GET unless set.
	Method string
	// Path is sent as it is, with its query: "/kapis/...?limit=10". It is not cleaned.
	Path string
	// Token is the bearer token; "" sends none.
	Token string
	// Header are further header fields; a Content-Type of application/json is the default where there is a body.
	Header http.Header
	// Body is the body; nil for none.
	Body []byte
}

// Response is a whole answer.
type Response struct {
	// Status is the code.
	Status int
	// Header are the header fields.
	Header http.Header
	// Body is the body, read to its end.
	Body []byte
}

// JSON decodes the body of an answer with one of the codes into v, and otherwise returns an error that shows the answer.
func (r Response) JSON(v any, codes ...int) error {
	for _, c := range codes {
		if r.Status == c {
			if err := json.Unmarshal(r.Body, v); err != nil {
				return fmt.Errorf("decode an answer: %w; it begins %q", err, r.begin())
			}
			return nil
		}
	}
	return fmt.Errorf("answered %d, want %v: %s", r.Status, codes, r.begin())
}

func (r Response) begin() []byte { return r.Body[:min(len(r.Body), 512)] }

// Do sends a request and reads the answer, with any code. It follows no redirect.
func (s Server) Do(ctx context.Context, r Request) (Response, error) {
	method := cmp.Or(r.Method, http.MethodGet)
	req, err := http.NewRequestWithContext(ctx, method, s.URL+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, fmt.Errorf("make a request: %w", err)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Response{}, err // net/http says what was attempted
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("it has more than %d bytes", maxBody)
	}
	if err != nil {
		return Response{}, fmt.Errorf("read the answer to %s %s: %w", method, req.URL.Path, err)
	}
	return Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// Token is the result of a login.
type Token struct {
	// Access is the bearer token of requests.
	Access string
	// Refresh gets the next Token.
	Refresh string
	// ExpiresIn is the life of Access, counted from the login.
	ExpiresIn time.Duration
}

// Login exchanges a password for tokens, as the console does (RFC 6749, 4.3).
func (s Server) Login(ctx context.Context, user, password string) (Token, error) {
	t, err := s.grant(ctx, url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}})
	if err != nil {
		return Token{}, fmt.Errorf("log in as %s: %w", user, err)
	}
	return t, nil
}

// Renew exchanges a refresh token for the next tokens (RFC 6749, 6).
func (s Server) Renew(ctx context.Context, refresh string) (Token, error) {
	t, err := s.grant(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
	if err != nil {
		return Token{}, fmt.Errorf("renew a token: %w", err)
	}
	return t, nil
}

func (s Server) grant(ctx context.Context, form url.Values) (Token, error) {
	form.Set("client_id", "kubesphere")
	form.Set("client_secret", "kubesphere")
	resp, err := s.Do(ctx, Request{
		Method: http.MethodPost,
		Path:   "/oauth/token",
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		Body:   []byte(form.Encode()),
	})
	if err != nil {
		return Token{}, err
	}
	var body struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		ExpiresIn    int64  `json:"expires_in"`
	}
	if resp.Status != http.StatusOK {
		return Token{}, fmt.Errorf("answered %d: %s", resp.Status, resp.begin())
	}
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		return Token{}, fmt.Errorf("decode the tokens: %w", err) // not shown: they are secrets
	}
	if body.AccessToken == "" {
		return Token{}, errors.New("the answer has no access_token")
	}
	return Token{
		Access:    body.AccessToken,
		Refresh:   body.RefreshToken,
		ExpiresIn: time.Duration(body.ExpiresIn) * time.Second,
	}, nil
}
