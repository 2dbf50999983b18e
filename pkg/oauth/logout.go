package oauth

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// logout ends the whole session of the caller: its access and its refresh tokens, on every replica
// (OpenID Connect RP-Initiated Logout 1.0). What proves the session is the bearer token, which a foreign
// page can't send, or an ID token of ours as hint. Without a proof nothing happens and nobody is sent
// anywhere, and that is no error: the caller is logged out already.
func (s *Server) logout(req *restful.Request) (any, error) {
	r := req.Request
	f, err := logoutForm(r)
	if err != nil {
		return nil, err
	}
	session, client, err := s.proof(r, f)
	if err != nil {
		return nil, err
	}
	if session == "" {
		return success(), nil
	}
	if err := s.Sessions.End(r.Context(), session, "logout"); err != nil {
		return nil, err
	}
	if to := s.afterLogout(client, f); to != "" {
		return redirect(to), nil
	}
	return success(), nil
}

// proof returns the session that the request proves, and its client; "" where it proves none.
func (s *Server) proof(r *http.Request, f form) (session, client string, err error) {
	a, _, err := s.bearer(r)
	switch {
	case err == nil:
		session, client = a.Session, a.Client
	case errors.Is(err, iam.ErrUnavailable):
		return "", "", err
	case f["id_token_hint"] != "":
		if id, bad := s.Verifier.Identity(f["id_token_hint"]); bad == nil { // one that is not ours proves nothing
			session, client = id.Session, id.Client
		}
	}
	if f["client_id"] != "" && session != "" && f["client_id"] != client {
		return "", "", refuse(invalidRequest, "The client_id is not the one that the token was issued to.")
	}
	return session, client, nil
}

// afterLogout returns where to send the person: where he asks to go, if his client registered that very
// URL, else nowhere.
func (s *Server) afterLogout(client string, f form) string {
	to := f["post_logout_redirect_uri"]
	c := s.Clients.Client(client)
	if to == "" || c == nil || !slices.Contains(c.PostLogoutRedirectURIs, to) {
		return ""
	}
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	if f["state"] != "" {
		q := u.Query()
		q.Set("state", f["state"])
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// logoutForm reads the parameters, from the query of a GET and the body of a POST.
func logoutForm(r *http.Request) (form, error) {
	if r.Method != http.MethodPost {
		return once(r.URL.Query())
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return form{}, nil
	}
	if r.Header.Get("Content-Type") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxBody)
		return form{}, nil
	}
	return readForm(nil, r)
}

func success() any {
	return struct {
		Message string `json:"message"`
	}{"success"}
}

// redirect sends the browser on; after a POST it goes on with GET (RFC 9700, 4.12: never 307).
type redirect string

// Respond writes the redirection.
func (to redirect) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", string(to))
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusFound)
}
