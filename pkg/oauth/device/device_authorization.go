// Package device is the device authorization grant (RFC 8628): the endpoint for devices, user codes, and the page for users.
package device

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// Life is how long a device may wait for its user.
	Life = 10 * time.Minute
	// PollInterval is the pause between two polls, which each early poll makes longer by as much (RFC 8628, 3.5).
	PollInterval = 5 * time.Second
	// pollLongest bounds the pause.
	pollLongest = time.Minute
	// maxPolls bounds the memory of polls.
	maxPolls = 8192
)

const purposeDevice token.Purpose = "device"

// request is the content of a device code, which is sealed, so that nothing is stored. The user who types the user code opens a
// session whose name follows from it, and only the device can claim that.
type request struct {
	Client   string    `json:"c"`
	UserCode string    `json:"u"`
	Scopes   []string  `json:"o,omitempty"`
	Expires  time.Time `json:"e"`
}

// authorizationResponse is the device authorization response (RFC 8628, 3.2).
type authorizationResponse struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"`
	Interval                int64  `json:"interval"`
}

// Handler lets devices log in: it answers them, and takes the decisions of users.
type Handler struct {
	Issuer     string
	ClientAuth *client.Authenticator
	Clients    *client.Registry
	Sessions   *session.Store
	Tokens     *grant.Issuer
	UserCodes  *UserCodes
	Sealer     token.Sealer
	// Limit limits wrong user codes.
	Limit *ratelimit.Limiter
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time

	polls polls
}

// ServeAuthorization answers a device authorization request (RFC 8628, 3.1).
func (h *Handler) ServeAuthorization(req *restful.Request) (any, error) {
	r := req.Request
	f, err := protocol.ReadForm(r)
	if err != nil {
		return nil, err
	}
	c, err := h.ClientAuth.Authenticate(r, f)
	if err != nil {
		return nil, err
	}
	if c.IsDenied() {
		return nil, protocol.Refuse(protocol.AccessDenied, "This client is given nothing.")
	}
	if h.Clients.ByUserCode(client.UserCodePrefix(c.Name)) != c {
		return nil, protocol.Refuse(protocol.UnauthorizedClient,
			"Codes for devices tell clients apart by three letters, and another client has those of this one: "+
				"the administrator has to give one of them another name.")
	}
	scopes, err := client.GrantScopes(c, f["scope"])
	if err != nil {
		return nil, err
	}
	if most := c.DeviceScopes(); !c.Trusted { // the user is asked about these, and grants no more
		if scopes = slices.DeleteFunc(scopes, func(s string) bool { return !slices.Contains(most, s) }); len(scopes) == 0 {
			return nil, protocol.Refuse(protocol.InvalidScope,
				"A device of this client can't have the scope; the administrator lists it in scopeRestrictions.")
		}
	}
	userCode := h.UserCodes.New(c.Name)
	if userCode == "" {
		return nil, protocol.Failure(errors.New("no MAC key is good at this time: check the clock"))
	}
	sealed, err := h.Sealer.Seal(purposeDevice, &request{Client: c.Name, UserCode: userCode, Scopes: scopes, Expires: h.Now().Add(Life)})
	if err != nil {
		return nil, err
	}
	page := strings.TrimSuffix(h.Issuer, "/") + "/oauth/device"
	return &authorizationResponse{DeviceCode: sealed, UserCode: display(userCode), VerificationURI: page,
		VerificationURIComplete: page + "?user_code=" + display(userCode),
		ExpiresIn:               int64(Life / time.Second), Interval: int64(PollInterval / time.Second)}, nil
}

// lookUp returns the normalized user code, its client, and the scopes to ask the user about, since the device's own request is not
// known here.
func (h *Handler) lookUp(typed string) (code string, c *client.Client, scopes []string, err error) {
	code, ok := h.UserCodes.Parse(typed)
	if ok {
		c = h.Clients.ByUserCode(code[:client.UserCodePrefixLength])
	}
	if c == nil {
		return "", nil, nil, protocol.Refuse(protocol.InvalidRequest, "There is no such code; see that it is typed as the device shows it.")
	}
	return code, c, c.DeviceScopes(), nil
}

// Approve lets the device with a user code log in as the user of a browser.
func (h *Handler) Approve(r *http.Request, b *browser.Login, code string) error {
	c := h.Clients.ByUserCode(code[:client.UserCodePrefixLength])
	if c == nil {
		return protocol.Refuse(protocol.InvalidRequest, "The client does not exist any more.")
	}
	err := h.Sessions.Approve(r.Context(), session.Login{
		AuthnResult: iam.AuthnResult{User: b.User, Provider: b.Session.Provider, Groups: b.Session.Groups, Methods: b.Session.Methods,
			At: b.Session.Authenticated},
		Origin: h.OriginOf(r), Name: deviceSession(code), Client: c.Name, Parent: b.Session.Name, Scopes: c.DeviceScopes(),
	})
	return deviceError(err)
}

// Deny refuses the device with a user code.
func (h *Handler) Deny(ctx context.Context, b *browser.Login, code string) error {
	return deviceError(h.Sessions.Deny(ctx, deviceSession(code), b.User))
}

// deviceError returns the error response for a decision that could not be stored.
func deviceError(err error) error {
	switch {
	case errors.Is(err, iam.ErrUsed):
		return protocol.Refuse(protocol.InvalidRequest, "The code was used already; start again at the device.").Because(err)
	case errors.Is(err, iam.ErrOver):
		return protocol.Refuse(protocol.LoginRequired, "You have been logged out in the meantime.").Because(err)
	case errors.Is(err, iam.ErrBusy):
		return &protocol.Error{Code: http.StatusTooManyRequests, Name: protocol.SlowDown, RetryAfter: GuessPause, Cause: err,
			Description: "Too many of your devices are waiting; try again in a few minutes."}
	}
	return err
}
