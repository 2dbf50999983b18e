package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/emicklei/go-restful/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/token"
)

// authenticate answers a TokenReview, as kube-apiserver's webhook sends it (--authentication-token-webhook-config-file): whose one of our
// tokens is. v1beta1 has the same fields as v1.
//
// The path is open: it says nothing that the holder of a token could not ask with it elsewhere, and tokens can't be
// guessed. A flood of bad ones from one address is answered with 429; a good one is never refused for that, since
// kube-apiserver passes on the bad tokens of others.
func (s *Server) authenticate(req *restful.Request) (any, error) {
	r := req.Request
	in, err := readReview(r)
	if err != nil {
		return nil, err
	}
	out := &authenticationv1.TokenReview{TypeMeta: in.TypeMeta}
	u, err := s.userOfToken(r.Context(), in.Spec.Token)
	if err != nil {
		return nil, err
	}
	if u == nil {
		key := limitKey{what: guessedToken, source: s.originOf(r).Source}
		if s.limit.exhausted(key, s.Now()) {
			return nil, &Error{Code: http.StatusTooManyRequests, Name: slowDown, RetryAfter: limitPause, Description: "Too many bad tokens; try again in a moment."}
		}
		s.limit.failed(key, s.Now())
		out.Status.Error = "the token is not valid, or no longer"
		return out, nil
	}
	out.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extraOf(u)}}
	// No audience in the answer says that the token is good for the Kubernetes API itself, and for nothing else: what the
	// type says of authenticators that do not know the audiences that they are asked for.
	for _, a := range in.Spec.Audiences {
		if slices.Contains([]string{s.Tokens.Audience, s.Issuer}, a) {
			out.Status.Audiences = append(out.Status.Audiences, a)
		}
	}
	return out, nil
}

func readReview(r *http.Request) (*authenticationv1.TokenReview, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &Error{Code: http.StatusUnsupportedMediaType, Name: invalidRequest, Description: "The body has to be a TokenReview as JSON."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, &Error{Code: http.StatusRequestEntityTooLarge, Name: invalidRequest, Description: "The body is too long."}
	}
	var in authenticationv1.TokenReview
	if err != nil || json.Unmarshal(body, &in) != nil { // the error may quote the token
		return nil, refuse(invalidRequest, "The body is not a TokenReview.")
	}
	if in.APIVersion == "" {
		in.APIVersion = authenticationv1.SchemeGroupVersion.String()
	}
	if in.Kind == "" {
		in.Kind = "TokenReview"
	}
	group, version, _ := strings.Cut(in.APIVersion, "/")
	if in.Kind != "TokenReview" || group != authenticationv1.GroupName || version != "v1" && version != "v1beta1" {
		return nil, refuse(invalidRequest, "The body is not a TokenReview of authentication.k8s.io/v1 or v1beta1.")
	}
	return &in, nil
}

// userOfToken returns whose a token is: an access token, or one that another authenticator knows; nil where it is nobody's. Its error says
// that it can't be told now.
func (s *Server) userOfToken(ctx context.Context, raw string) (user.Info, error) {
	if raw == "" || len(raw) > token.MaxSize {
		return nil, nil
	}
	u, err := s.authenticateToken(ctx, raw)
	if err != nil {
		klog.V(2).InfoS("A token is refused in a TokenReview", "reason", err.Error())
		return nil, undecided(err)
	}
	if u == nil || u.GetName() == "" || strings.HasPrefix(u.GetName(), "system:") { // somebody who has still to register
		return nil, nil
	}
	if len(u.GetExtra()[authz.ExtraScope]) > 0 { // whoever asks would not keep to it
		return nil, nil
	}
	return u, nil
}

// authenticateToken returns whose a token is. Its error says why it is nobody's.
func (s *Server) authenticateToken(ctx context.Context, raw string) (user.Info, error) {
	a, refused := s.Verifier.Access(raw)
	if refused == nil {
		return s.Sessions.Authenticate(ctx, a)
	}
	if s.OtherTokens == nil {
		return nil, refused
	}
	resp, ok, err := s.OtherTokens.AuthenticateToken(ctx, raw)
	switch {
	case err != nil:
		return nil, err
	case !ok || resp == nil:
		return nil, refused
	}
	return resp.User, nil
}

func extraOf(u user.Info) map[string]authenticationv1.ExtraValue {
	if len(u.GetExtra()) == 0 {
		return nil
	}
	out := make(map[string]authenticationv1.ExtraValue, len(u.GetExtra()))
	for k, v := range u.GetExtra() {
		out[k] = v
	}
	return out
}
