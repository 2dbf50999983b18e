package tokeninfo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
	"kapis.dev/ks-apiserver/pkg/token"
)

// TokenReview is the endpoint that kube-apiserver's token webhook calls.
type TokenReview struct {
	Issuer string
	// Audience is that of access tokens for the API.
	Audience string
	Verifier *token.Verifier
	Sessions *session.Store
	// OtherTokens authenticates tokens other than access tokens; nil for none.
	OtherTokens authenticator.Token
	// Limit limits invalid tokens.
	Limit *ratelimit.Limiter
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

// Serve answers a TokenReview as kube-apiserver's webhook sends it (--authentication-token-webhook-config-file): the user of a token.
// v1beta1 has the same fields as v1.
//
// The endpoint needs no credentials: it says nothing that the holder of a token could not ask elsewhere, and tokens can't be
// guessed. Many invalid tokens from one address are answered with 429; valid ones never are, since kube-apiserver also passes on
// invalid tokens of others.
func (t *TokenReview) Serve(req *restful.Request) (any, error) {
	r := req.Request
	in, err := readReview(r)
	if err != nil {
		return nil, err
	}
	out := &authenticationv1.TokenReview{TypeMeta: in.TypeMeta}
	u, err := t.user(r.Context(), in.Spec.Token)
	if err != nil {
		return nil, err
	}
	if u == nil {
		key := ratelimit.Key{Kind: ratelimit.AccessToken, Source: t.OriginOf(r).Source}
		if t.Limit.Exhausted(key, t.Now()) {
			return nil, &protocol.Error{Code: http.StatusTooManyRequests, Name: protocol.SlowDown, RetryAfter: ratelimit.Pause,
				Description: "Too many bad tokens; try again in a moment."}
		}
		t.Limit.Failed(key, t.Now())
		out.Status.Error = "the token is not valid, or no longer"
		return out, nil
	}
	out.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extraOf(u)}}
	// An answer without audiences says that the token is valid for the Kubernetes API itself only (see TokenReviewStatus).
	for _, a := range in.Spec.Audiences {
		if slices.Contains([]string{t.Audience, t.Issuer}, a) {
			out.Status.Audiences = append(out.Status.Audiences, a)
		}
	}
	return out, nil
}

// readReview reads the TokenReview in a request's body.
func readReview(r *http.Request) (*authenticationv1.TokenReview, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &protocol.Error{Code: http.StatusUnsupportedMediaType, Name: protocol.InvalidRequest,
			Description: "The body has to be a TokenReview as JSON."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, protocol.MaxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, &protocol.Error{Code: http.StatusRequestEntityTooLarge, Name: protocol.InvalidRequest, Description: "The body is too long."}
	}
	var in authenticationv1.TokenReview
	if err != nil || json.Unmarshal(body, &in) != nil { // the error may quote the token
		return nil, protocol.Refuse(protocol.InvalidRequest, "The body is not a TokenReview.")
	}
	if in.APIVersion == "" {
		in.APIVersion = authenticationv1.SchemeGroupVersion.String()
	}
	if in.Kind == "" {
		in.Kind = "TokenReview"
	}
	group, version, _ := strings.Cut(in.APIVersion, "/")
	if in.Kind != "TokenReview" || group != authenticationv1.GroupName || version != "v1" && version != "v1beta1" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The body is not a TokenReview of authentication.k8s.io/v1 or v1beta1.")
	}
	return &in, nil
}

// user returns the user of a token; nil if it is not valid. An error says that this is not known now.
func (t *TokenReview) user(ctx context.Context, raw string) (user.Info, error) {
	if raw == "" || len(raw) > token.MaxSize {
		return nil, nil
	}
	u, err := t.authenticate(ctx, raw)
	if err != nil {
		klog.V(2).InfoS("A token is refused in a TokenReview", "reason", err.Error())
		return nil, Undecided(err)
	}
	if u == nil || u.GetName() == "" || strings.HasPrefix(u.GetName(), "system:") { // a user who has still to register
		return nil, nil
	}
	if len(u.GetExtra()[authz.ExtraScope]) > 0 { // the caller would not respect the scope
		return nil, nil
	}
	return u, nil
}

// authenticate returns the user of an access token, or of a token that OtherTokens accepts. Its error gives the reason if there is none.
func (t *TokenReview) authenticate(ctx context.Context, raw string) (user.Info, error) {
	a, refused := t.Verifier.Access(raw)
	if refused == nil {
		return t.Sessions.Authenticate(ctx, a)
	}
	if t.OtherTokens == nil {
		return nil, refused
	}
	resp, ok, err := t.OtherTokens.AuthenticateToken(ctx, raw)
	switch {
	case err != nil:
		return nil, err
	case !ok || resp == nil:
		return nil, refused
	}
	return resp.User, nil
}

// extraOf returns a user's extra in the type of TokenReviews.
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
