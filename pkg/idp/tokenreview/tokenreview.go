// Package tokenreview authenticates requests by tokens that another server reviews: a webhook for TokenReviews of authentication.k8s.io/v1,
// as kube-apiserver asks one (--authentication-token-webhook-config-file).
package tokenreview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "TokenReviewIdentityProvider"

// settings are the keys of the configuration.
type settings struct {
	// URL is the webhook's address.
	URL string `json:"url"`
	// TokenPrefix is what the tokens begin with. No others are sent to the webhook; "" stands for all that have not the form of a JWT.
	TokenPrefix string `json:"tokenPrefix"`
	// Audiences are those that the webhook is asked for, of which it has to name one; none.
	Audiences []string `json:"audiences"`
	// BearerToken authenticates this server at the webhook; "" sends none.
	BearerToken idp.Secret `json:"bearerToken"`
	// GroupsPrefix is put before the names of groups; without it there are none.
	GroupsPrefix string `json:"groupsPrefix"`

	upstream.Settings
}

// Provider asks one webhook.
type Provider struct {
	settings
	client *upstream.Client
}

var _ idp.Bearer = (*Provider)(nil)

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: Name, Open: open} }

func open(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
	p := &Provider{}
	if err := idp.Decode(raw, &p.settings); err != nil {
		return nil, err
	}
	if err := upstream.Address("url", p.URL, o.AllowLoopback); err != nil {
		return nil, err
	}
	if err := upstream.Prefix("groupsPrefix", p.GroupsPrefix); err != nil {
		return nil, err
	}
	if slices.Contains(p.Audiences, "") {
		return nil, fmt.Errorf("the key %q holds an empty audience", "audiences")
	}
	var err error
	if p.client, err = upstream.NewClient(p.Settings, o); err != nil {
		return nil, err
	}
	return p, nil
}

// Check asks the webhook about a token that nobody has.
func (p *Provider) Check(ctx context.Context) error {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	_, err := p.review(ctx, p.TokenPrefix+"no-token")
	return upstream.Checked(err)
}

// Issued implements idp.Bearer.
func (p *Provider) Issued(token string) bool {
	if p.TokenPrefix != "" {
		return strings.HasPrefix(token, p.TokenPrefix)
	}
	return strings.Count(token, ".") != 2
}

// Remote implements idp.Bearer.
func (p *Provider) Remote() bool { return true }

// Bearer implements idp.Bearer: the user name is the subject, as it is at kube-apiserver. Names of Kubernetes' own components are nobody's.
func (p *Provider) Bearer(ctx context.Context, token string) (*idp.Identity, error) {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	s, err := p.review(ctx, token)
	if err != nil {
		return nil, err
	}
	named := func(a string) bool { return slices.Contains(p.Audiences, a) }
	switch name := s.User.Username; {
	case !s.Authenticated:
		return nil, fmt.Errorf("%w: the webhook does not accept the token", idp.ErrRefused)
	case len(p.Audiences) > 0 && !slices.ContainsFunc(s.Audiences, named):
		return nil, fmt.Errorf("%w: the webhook accepts the token for no audience of the configuration", idp.ErrRefused)
	case name == "" || strings.HasPrefix(name, "system:"):
		return nil, fmt.Errorf("%w: the webhook names nobody, or a component of Kubernetes", idp.ErrRefused)
	}
	id := &idp.Identity{Subject: s.User.Username, Username: s.User.Username}
	if p.GroupsPrefix != "" {
		id.Groups = idp.Groups(s.User.Groups, p.GroupsPrefix)
	}
	return id, nil
}

// review returns what the webhook answers about a token.
func (p *Provider) review(ctx context.Context, token string) (*authenticationv1.TokenReviewStatus, error) {
	kind := metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"}
	asked := &authenticationv1.TokenReview{TypeMeta: kind, Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: p.Audiences}}
	a, err := p.client.PostJSON(ctx, p.URL, p.BearerToken.Reveal(), asked)
	if err != nil {
		return nil, err
	}
	var answer authenticationv1.TokenReview
	if err := a.JSON(&answer); err != nil {
		return nil, err
	}
	if answer.Kind != kind.Kind || answer.APIVersion != kind.APIVersion {
		return nil, a.Unreadable("a TokenReview of " + kind.APIVersion)
	}
	return &answer.Status, nil
}
