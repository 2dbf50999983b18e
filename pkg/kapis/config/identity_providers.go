package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/web"
)

// IdentityProviders answers the routes that show and try identity providers. They show no setting of a provider, and so no secret.
type IdentityProviders struct {
	Directory *idp.Directory
	Accounts  *account.Linker
}

// provider is an identity provider, as it is shown.
type provider struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"`
	DisplayName string      `json:"displayName,omitempty"`
	Mapping     idp.Mapping `json:"mappingMethod"`
	Hidden      bool        `json:"hidden"`
	Disabled    bool        `json:"disabled"`
	// Source is where it is configured.
	Source string         `json:"source"`
	Status providerStatus `json:"status"`
}

type providerStatus struct {
	Conditions []metav1.Condition `json:"conditions"`
	// CheckedAt is when it was last asked whether it answers.
	CheckedAt *metav1.Time `json:"checkedAt,omitempty"`
}

type providerList struct {
	Items      []provider `json:"items"`
	TotalItems int        `json:"totalItems"`
	// Problems are what is wrong with configurations, including those that name no provider.
	Problems []string `json:"problems,omitempty"`
}

// attempt is what a provider is tried with; without a user name only its connection is tried.
type attempt struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// The results of a trial.
const (
	resultOK          = "OK"
	resultInvalid     = "Invalid"     // the configuration can't be used
	resultUnavailable = "Unavailable" // the provider can't be asked
	resultRefused     = "Refused"     // it answers, and refuses what is configured
	resultCredentials = "Credentials" // the name or the password is wrong
	resultUnsupported = "Unsupported" // people can't log in there with a password
)

// trial is the result of trying a provider. Nothing was made or changed by it.
type trial struct {
	Check outcome  `json:"check"`
	Login *outcome `json:"login,omitempty"`
	// Identity is the person who logged in, and User the user that they are or would be here.
	Identity *person `json:"identity,omitempty"`
	User     *mapped `json:"user,omitempty"`
}

type outcome struct {
	Result  string `json:"result"`
	Message string `json:"message,omitempty"`
}

type person struct {
	Subject     string   `json:"subject"`
	Username    string   `json:"username"`
	DisplayName string   `json:"displayName,omitempty"`
	Email       string   `json:"email,omitempty"`
	Groups      []string `json:"groups"`
}

// What a login makes of an identity: it is a User's, one is created for it, the person registers, or is refused.
const (
	actionLinked   = "Linked"
	actionCreate   = "Create"
	actionRegister = "Register"
	actionRefuse   = "Refuse"
)

type mapped struct {
	Action  string `json:"action"`
	Name    string `json:"name,omitempty"`
	State   string `json:"state,omitempty"`
	Message string `json:"message,omitempty"`
}

func (p *IdentityProviders) mount(ws *restful.WebService) {
	ws.Route(ws.GET("/identityproviders").To(web.Handle(p.list)).
		Doc("the configured identity providers, and how they are").Operation("listIdentityProviders").Writes(providerList{}))
	ws.Route(ws.GET("/identityproviders/{name}").To(web.Handle(p.get)).Param(ws.PathParameter("name", "name of the provider")).
		Doc("a configured identity provider, and how it is").Operation("getIdentityProvider").Writes(provider{}))
	ws.Route(ws.POST("/identityproviders/{name}/test").To(web.Handle(p.test)).Param(ws.PathParameter("name", "name of the provider")).
		Doc("try an identity provider, and a login at it; nobody is logged in, and nothing is made").Operation("testIdentityProvider").
		Consumes(restful.MIME_JSON).AllowedMethodsWithoutContentType([]string{http.MethodPost}).Reads(attempt{}).Writes(trial{}))
}

func (p *IdentityProviders) list(*restful.Request) (any, error) {
	entries := p.Directory.Entries()
	out := providerList{Items: make([]provider, 0, len(entries)), Problems: p.Directory.Problems()}
	for _, e := range entries {
		if s := p.Directory.Status(e.Name); s != nil {
			out.Items = append(out.Items, show(s))
		}
	}
	out.TotalItems = len(out.Items)
	return out, nil
}

func (p *IdentityProviders) get(r *restful.Request) (any, error) {
	s := p.Directory.Status(r.PathParameter("name"))
	if s == nil {
		return nil, missing(r)
	}
	return show(s), nil
}

func missing(r *restful.Request) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "config.kubesphere.io", Resource: "identityproviders"}, r.PathParameter("name"))
}

func show(s *idp.Status) provider {
	e := s.Entry
	out := provider{Name: e.Name, Type: e.Type, DisplayName: e.DisplayName, Mapping: e.Mapping, Hidden: e.Hidden, Disabled: e.Disabled,
		Source: s.Source, Status: providerStatus{Conditions: s.Conditions}}
	if !s.Checked.IsZero() {
		out.Status.CheckedAt = &metav1.Time{Time: s.Checked.Truncate(time.Second)}
	}
	return out
}

func (p *IdentityProviders) test(r *restful.Request) (any, error) {
	e := p.Directory.Entry(r.PathParameter("name"))
	if e == nil {
		return nil, missing(r)
	}
	var a attempt
	dec := json.NewDecoder(r.Request.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil && !errors.Is(err, io.EOF) {
		return nil, apierrors.NewBadRequest("the body has to be a JSON object with username and password, or nothing")
	}
	ctx := r.Request.Context()
	out := &trial{Check: result(p.Directory.Check(ctx, e.Name))}
	if e.Provider == nil {
		out.Check.Result = resultInvalid
		return out, nil
	}
	if a.Username == "" {
		return out, nil
	}
	by, ok := e.Provider.(idp.Password)
	if !ok {
		out.Login = &outcome{resultUnsupported, "people log in there with a browser; begin at /oauth/login/" + e.Name}
		return out, nil
	}
	id, err := by.Login(ctx, a.Username, a.Password)
	login := result(err)
	out.Login = &login
	if login.Result != resultOK {
		return out, nil
	}
	out.Identity = &person{Subject: id.Subject, Username: id.Username, DisplayName: id.DisplayName, Email: id.Email, Groups: id.Groups}
	if out.Identity.Groups == nil {
		out.Identity.Groups = []string{}
	}
	out.User = p.plan(e, id)
	return out, nil
}

// plan returns what a login would make of an identity.
func (p *IdentityProviders) plan(e *idp.Entry, id *idp.Identity) *mapped {
	switch u, registration, name, err := p.Accounts.Plan(e, id); {
	case err != nil:
		return &mapped{Action: actionRefuse, Message: err.Error()}
	case u != nil:
		return &mapped{Action: actionLinked, Name: u.Name, State: string(u.State)}
	case registration != nil:
		return &mapped{Action: actionRegister, Name: registration.Username}
	default:
		return &mapped{Action: actionCreate, Name: name}
	}
}

// result returns what an error of a provider means. Errors of providers hold no secret.
func result(err error) outcome {
	switch {
	case err == nil:
		return outcome{Result: resultOK}
	case errors.Is(err, idp.ErrCredentials):
		return outcome{resultCredentials, err.Error()}
	case errors.Is(err, idp.ErrUnavailable):
		return outcome{resultUnavailable, err.Error()}
	}
	return outcome{resultRefused, fmt.Sprint(err)}
}
