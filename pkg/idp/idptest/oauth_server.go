package idptest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// The secrets of a Server and its client.
const (
	ClientID     = "kapis"
	ClientSecret = "client-secret-canary+/%"
	codePrefix   = "code-canary-"
	accessPrefix = "access-canary-"
	freshPrefix  = "refresh-canary-"
)

// ServerSecrets returns the secrets of a Server, which must not be shown.
func ServerSecrets() []string { return []string{ClientSecret, codePrefix, accessPrefix, freshPrefix} }

// Server is an OAuth 2.0 authorization server with one client and one user, who is logged in and consents to everything. Tests add to
// its Mux the other endpoints of their provider's real server.
type Server struct {
	Mux *http.ServeMux
	// Plain answers errors with status 200 and a name, as GitHub does.
	Plain bool
	// FormOnly refuses clients that authenticate by HTTP Basic.
	FormOnly bool
	// NoRefresh issues no refresh tokens.
	NoRefresh bool
	// Issuer is the issuer in the answers to the browser (RFC 9207); "" for none.
	Issuer string
	// IDToken returns an ID token for a nonce and an access token; nil for none.
	IDToken func(nonce, access string) string

	mu    sync.Mutex
	gone  bool
	count int
	codes map[string]code
	live  map[string]bool // access and refresh tokens
}

type code struct{ callback, challenge, nonce string }

// NewServer returns a Server with its endpoints at /authorize and /token.
func NewServer() *Server {
	s := &Server{Mux: http.NewServeMux(), codes: map[string]code{}, live: map[string]bool{}}
	s.Mux.HandleFunc("GET /authorize", s.Authorize)
	s.Mux.HandleFunc("POST /token", s.Token)
	return s
}

// Remove removes the user: their tokens end.
func (s *Server) Remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

func (s *Server) next(prefix string) string {
	s.count++
	return fmt.Sprint(prefix, s.count)
}

// Authorize serves the authorization endpoint.
func (s *Server) Authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("state") == "" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.next(codePrefix)
	s.codes[c] = code{q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("nonce")}
	back := url.Values{"code": {c}, "state": q["state"]}
	if s.Issuer != "" {
		back.Set("iss", s.Issuer)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// Token serves the token endpoint.
func (s *Server) Token(w http.ResponseWriter, r *http.Request) {
	if failed := s.client(r); failed != "" {
		s.refuse(w, http.StatusUnauthorized, failed, "incorrect_client_credentials")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var nonce string
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		c, ok := s.codes[r.PostForm.Get("code")]
		delete(s.codes, r.PostForm.Get("code"))
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		proven := c.challenge == "" || c.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
		if !ok || c.callback != r.PostForm.Get("redirect_uri") || !proven {
			s.refuse(w, http.StatusBadRequest, "invalid_grant", "bad_verification_code")
			return
		}
		nonce = c.nonce
	case "refresh_token":
		if old := r.PostForm.Get("refresh_token"); s.gone || !s.live[old] {
			s.refuse(w, http.StatusBadRequest, "invalid_grant", "bad_refresh_token")
			return
		} else if !s.NoRefresh { // the next one takes its place (RFC 9700, 4.14.2)
			delete(s.live, old)
		}
	default:
		s.refuse(w, http.StatusBadRequest, "unsupported_grant_type", "unsupported_grant_type")
		return
	}
	access := s.next(accessPrefix)
	s.live[access] = true
	answer := map[string]any{"access_token": access, "token_type": "bearer", "expires_in": 3600}
	if !s.NoRefresh {
		fresh := s.next(freshPrefix)
		s.live[fresh] = true
		answer["refresh_token"] = fresh
	}
	if s.IDToken != nil {
		answer["id_token"] = s.IDToken(nonce, access)
	}
	WriteJSON(w, http.StatusOK, answer)
}

// client authenticates the client of a request.
func (s *Server) client(r *http.Request) string {
	if r.ParseForm() != nil {
		return "invalid_request"
	}
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	if id != ClientID || secret != ClientSecret || basic && s.FormOnly {
		return "invalid_client"
	}
	return ""
}

func (s *Server) refuse(w http.ResponseWriter, status int, failed, plain string) {
	if s.Plain {
		status, failed = http.StatusOK, plain
	}
	WriteJSON(w, status, map[string]any{"error": failed, "error_description": "for people"})
}

// Protected serves h to clients with an access token.
func (s *Server) Protected(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		ok := s.live[token] && strings.HasPrefix(token, accessPrefix) && !s.gone
		s.mu.Unlock()
		if !ok {
			WriteJSON(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
			return
		}
		h(w, r)
	}
}

// WriteJSON answers with a value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
