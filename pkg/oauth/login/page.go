package login

import (
	"net/http"
	"net/url"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// ProvesFreshLogin reports whether a provider can prove that the user has just authenticated.
func ProvesFreshLogin(p idp.Provider) bool {
	r, ok := p.(idp.Reauthentication)
	return ok && r.ProvesFreshLogin()
}

// Ask answers with the login page. After the login the authorization request is resumed.
func (p *Page) Ask(r *http.Request, a *protocol.AuthorizationRequest) (any, error) {
	return p.Show(r, formstate.State{Request: a}, PageState{})
}

// Serve answers GET /oauth/login: the login page, or a redirect to the account page for users who are logged in.
func (p *Page) Serve(req *restful.Request) (any, error) {
	b, err := p.Logins.Of(req.Request)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return protocol.Redirect(page.Root(req.Request) + "account"), nil
	}
	return p.Show(req.Request, formstate.State{}, PageState{})
}

// Page is the login page.
type Page struct {
	Book      *page.Book
	Forms     *formstate.Forms
	Logins    *browser.Logins
	Directory Directory
	// Passkeys begins logins by passkey; nil if the platform has no passkeys.
	Passkeys Passkeys
}

// Passkeys begins logins by passkey.
type Passkeys interface {
	BeginLogin(*iam.User) (options []byte, sealed string, err error)
}

// PageState is what the login page shows of a failed step; zero for a new page.
type PageState struct {
	Code               int
	Error              page.Message
	Username, Provider string
}

// Show answers with the login page. The state says how to continue after the login.
func (p *Page) Show(r *http.Request, state formstate.State, shown PageState) (any, error) {
	d := page.Login{Client: state.ClientName(), Username: shown.Username}
	d.Error = shown.Error
	if d.Username == "" && state.Request != nil {
		d.Username = state.Request.LoginHint
	}
	b, err := p.Logins.Of(r)
	if err != nil {
		return nil, err
	}
	if b != nil && (state.Request == nil || !slices.Contains(state.Request.Prompt, protocol.PromptSelectAccount)) {
		d.Again, d.Username = true, b.User.Name
	}
	// A failed step leaves nothing of its state.
	state.Session, state.Result, state.Challenge, state.Enrolment = "", nil, "", nil
	var set *http.Cookie
	if d.Form, set, err = p.Forms.Seal(r, formstate.Login, state); err != nil {
		return nil, err
	}
	if d.Passkey, err = p.passkeyButton(r, state, set, nil); err != nil {
		return nil, err
	}
	p.listProviders(&d, r, shown.Provider, state.MustBeFresh(), b)
	if d.Passkey != nil {
		d.Passkey.Or = len(d.Redirects) == 0
	}
	return p.Book.Show(shown.Code, d, state.Targets(), set), nil
}

// listProviders adds the providers to the login page. If the login has to be fresh, providers that can't prove it are left out, and
// a user of such a provider is told so.
func (p *Page) listProviders(d *page.Login, r *http.Request, chosen string, fresh bool, b *browser.Login) {
	for _, e := range p.Directory.Entries() {
		if e.Hidden || e.Disabled || e.Provider == nil {
			continue
		}
		provider := page.Provider{Name: e.Name, Label: Label(e), Chosen: e.Name == chosen}
		if _, ok := e.Provider.(idp.Password); ok {
			d.Passwords = append(d.Passwords, provider)
			continue
		}
		if _, ok := e.Provider.(idp.Redirect); ok {
			if fresh && !ProvesFreshLogin(e.Provider) {
				if d.Error == nil && b != nil && b.Session.Provider == e.Name {
					d.Error = page.Say("error.fresh", provider.Label)
				}
				continue
			}
			provider.Address = page.Root(r) + "login/" + url.PathEscape(e.Name) + "?form=" + d.Form
			d.Redirects = append(d.Redirects, provider)
		}
	}
}

// Label returns the name of a provider for users.
func Label(e *idp.Entry) string {
	if e.DisplayName != "" {
		return e.DisplayName
	}
	return e.Name
}

// label returns the name for users of the provider that has a name.
func (p *Page) label(provider string) string {
	if e := p.Directory.Entry(provider); e != nil {
		return Label(e)
	}
	return provider
}

// passkeyButton returns the passkey button, for the passkeys of a user or, for nil, any. It returns nil if no passkeys can be used.
func (p *Page) passkeyButton(r *http.Request, state formstate.State, cookie *http.Cookie, u *iam.User) (*page.Passkey, error) {
	if p.Passkeys == nil {
		return nil, nil
	}
	options, challenge, err := p.Passkeys.BeginLogin(u)
	if err != nil {
		klog.V(2).InfoS("The login page has no button for passkeys", "reason", err.Error())
		return nil, nil
	}
	state.Challenge = challenge
	if cookie != nil { // the browser gets its cookie with this response
		r = r.Clone(r.Context())
		r.AddCookie(cookie)
	}
	sealed, _, err := p.Forms.Seal(r, formstate.Passkey, state)
	if err != nil {
		return nil, err
	}
	return &page.Passkey{Form: sealed, Step: "passkey", Root: page.Root(r), Action: "login", Call: "get", Options: string(options)}, nil
}

// Failed answers with the login page again and says what went wrong.
func (p *Page) Failed(r *http.Request, state *formstate.State, err error, shown PageState) (any, error) {
	var ok bool
	if shown.Code, shown.Error, ok = Fault(err, p.label(shown.Provider)); !ok {
		return nil, err
	}
	klog.V(2).InfoS("Login refused", "provider", shown.Provider, "client", state.ClientName(), "reason", err.Error())
	return p.Show(r, *state, shown)
}

// Directory has the identity providers.
type Directory interface {
	Entry(name string) *idp.Entry
	Entries() []*idp.Entry
}
