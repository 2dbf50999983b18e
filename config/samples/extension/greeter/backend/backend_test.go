package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// server is a ks-apiserver with one key, and the backend that it passes requests on to.
type server struct {
	*httptest.Server
	key   *rsa.PrivateKey
	now   time.Time
	asked int
	to    http.Handler
}

func newServer(t *testing.T) *server {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{key: key, now: time.Unix(1_800_000_000, 0)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.asked++; r.URL.Path == "/oauth/keys" {
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{"kty": "RSA", "use": "sig", "kid": "one",
				"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())}}})
			return
		}
		_, _ = io.WriteString(w, `{"issuer":"https://ks.example.com"}`)
	}))
	t.Cleanup(s.Close)
	s.to = newHandler(newVerifier(s.URL, s.Client(), func() time.Time { return s.now }))
	return s
}

// signed returns a token with the usual header and claims, but for what is changed.
func (s *server) signed(t *testing.T, by *rsa.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	part := func(base, changes map[string]any) string {
		for key, value := range changes {
			base[key] = value
		}
		text, err := json.Marshal(base)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "RS256", "typ": "kapis-backend+jwt", "kid": "one"}, header) + "." +
		part(map[string]any{"iss": "https://ks.example.com", "aud": []string{apiAudience}, "sub": "uid-1", "username": "ann", "exp": s.now.Unix() + 300}, claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, by, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (s *server) do(method, path, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("X-Remote-User", "admin") // anybody can send it
	w := httptest.NewRecorder()
	s.to.ServeHTTP(w, r)
	return w
}

const greetings = "/kapis/" + group + "/v1/greetings"

func TestWhoAsksIsWhatTheTokenSays(t *testing.T) {
	s := newServer(t)
	token := s.signed(t, s.key, nil, nil)
	if w := s.do(http.MethodPost, greetings, token, `{"text": "hello"}`); w.Code != http.StatusCreated || !strings.Contains(w.Body.String(), `"author":"ann"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.do(http.MethodGet, greetings, token, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"text":"hello"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	page := s.signed(t, s.key, nil, map[string]any{"aud": []string{pageAudience}, "username": "<b>ann"})
	if w := s.do(http.MethodGet, "/hello", page, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "&lt;b&gt;ann") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if s.asked != 2 {
		t.Errorf("the server was asked %d times for one issuer and one set of keys", s.asked)
	}
}

func TestATokenThatIsNotForThisBackendCountsNothing(t *testing.T) {
	s := newServer(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := s.signed(t, s.key, nil, nil)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"none":                      "",
		"of somebody else's key":    s.signed(t, other, nil, nil),
		"without an algorithm":      s.signed(t, s.key, map[string]any{"alg": "none"}, nil),
		"of another algorithm":      s.signed(t, s.key, map[string]any{"alg": "HS256"}, nil),
		"of another type":           s.signed(t, s.key, map[string]any{"typ": "at+jwt"}, nil),
		"with a critical extension": s.signed(t, s.key, map[string]any{"crit": []string{"exp"}}, nil),
		"of an unknown key":         s.signed(t, s.key, map[string]any{"kid": "two"}, nil),
		"for another backend":       s.signed(t, s.key, nil, map[string]any{"aud": []string{pageAudience}}),
		"for two backends":          s.signed(t, s.key, nil, map[string]any{"aud": []string{apiAudience, pageAudience}}),
		"for nobody":                s.signed(t, s.key, nil, map[string]any{"aud": []string{}}),
		"of another issuer":         s.signed(t, s.key, nil, map[string]any{"iss": "https://other.example.com"}),
		"that has expired":          s.signed(t, s.key, nil, map[string]any{"exp": s.now.Unix() - 31}),
		"without an end":            s.signed(t, s.key, nil, map[string]any{"exp": nil}),
		"without a user":            s.signed(t, s.key, nil, map[string]any{"username": ""}),
		"without a signature":       parts[0] + "." + parts[1] + ".",
		"with other claims":         parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"username":"admin"}`)) + "." + parts[2],
		"too long":                  good + strings.Repeat("A", maxToken),
		"no token":                  "a.b",
	} {
		if w := s.do(http.MethodGet, greetings, token, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("a token %s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestUnknownKeysAreAskedForFromTimeToTime(t *testing.T) {
	s := newServer(t)
	for range 20 {
		s.do(http.MethodGet, greetings, s.signed(t, s.key, map[string]any{"kid": "two"}, nil), "")
	}
	if s.asked != 2 {
		t.Errorf("the server was asked %d times", s.asked)
	}
	s.now = s.now.Add(askAgain)
	if s.do(http.MethodGet, greetings, s.signed(t, s.key, map[string]any{"kid": "two"}, nil), ""); s.asked != 4 {
		t.Errorf("the server was not asked again: %d", s.asked)
	}
	s.Close()
	s.now = s.now.Add(askAgain)
	if w := s.do(http.MethodGet, greetings, s.signed(t, s.key, map[string]any{"kid": "two"}, nil), ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a server that is away: %d", w.Code)
	}
	if w := s.do(http.MethodGet, greetings, s.signed(t, s.key, nil, nil), ""); w.Code != http.StatusOK {
		t.Errorf("a key that is known is asked for: %d", w.Code)
	}
}

func TestGreetingsAreBounded(t *testing.T) {
	s := newServer(t)
	token := s.signed(t, s.key, nil, nil)
	for body, want := range map[string]int{`{"text": " "}`: 422, `{"text": "` + strings.Repeat("x", maxText+1) + `"}`: 422, `[`: 400,
		`{"text": "` + strings.Repeat("x", maxBody) + `"}`: 400} {
		if w := s.do(http.MethodPost, greetings, token, body); w.Code != want {
			t.Errorf("%.40s: %d, want %d", body, w.Code, want)
		}
	}
	for n := range maxGreetings + 3 {
		s.do(http.MethodPost, greetings, token, fmt.Sprintf(`{"text": "number %d"}`, n))
	}
	w := s.do(http.MethodGet, greetings, token, "")
	if n := strings.Count(w.Body.String(), `"id"`); n != maxGreetings || strings.Contains(w.Body.String(), `"number 2"`) {
		t.Errorf("%d greetings: %.200s", n, w.Body)
	}
}
