package oauth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// deviceLife is how long a device may wait for its person.
	deviceLife = 10 * time.Minute
	// pollInterval is the pause between two polls, and what each poll that comes too early adds to it (RFC 8628, 3.5).
	pollInterval = 5 * time.Second
	// pollLongest bounds the pause.
	pollLongest = time.Minute
	// polled bounds the memory of polls.
	polled = 8192
)

const purposeDevice token.Purpose = "device"

// device is what a device code is made of. Nothing is stored for it: it is sealed, and the person who types the user code opens a
// session of the name that follows from that, which this device alone can then claim.
type device struct {
	Client   string    `json:"c"`
	UserCode string    `json:"u"`
	Scopes   []string  `json:"o,omitempty"`
	Expires  time.Time `json:"e"`
}

// deviceAnswer is RFC 8628, 3.2.
type deviceAnswer struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"`
	Interval                int64  `json:"interval"`
}

// deviceAuthorization is the endpoint that a device begins at (RFC 8628, 3.1).
func (s *Server) deviceAuthorization(req *restful.Request) (any, error) {
	r := req.Request
	f, err := readForm(nil, r)
	if err != nil {
		return nil, err
	}
	c, err := s.authenticateClient(r, f)
	if err != nil {
		return nil, err
	}
	if c.GrantMethod == "deny" {
		return nil, refuse(accessDenied, "This client is given nothing.")
	}
	if s.Clients.byLetters(lettersOf(c.Name)) != c {
		return nil, refuse(unauthorized, "Codes for devices tell clients apart by three letters, and another client has those of this one: "+
			"the administrator has to give one of them another name.")
	}
	scopes, err := grantScopes(c, f["scope"])
	if err != nil {
		return nil, err
	}
	if most := c.deviceScopes(); !c.Trusted { // the person is shown no more, and gives no more
		if scopes = slices.DeleteFunc(scopes, func(s string) bool { return !has(most, s) }); len(scopes) == 0 {
			return nil, refuse(invalidScope, "A device of this client can't have the scope; the administrator lists it in scopeRestrictions.")
		}
	}
	userCode := s.newUserCode(c.Name)
	if userCode == "" {
		return nil, failure(errors.New("no MAC key is good at this time: check the clock"))
	}
	sealed, err := s.seal(purposeDevice, &device{Client: c.Name, UserCode: userCode, Scopes: scopes, Expires: s.Now().Add(deviceLife)})
	if err != nil {
		return nil, err
	}
	page := strings.TrimSuffix(s.Issuer, "/") + "/oauth/device"
	return &deviceAnswer{DeviceCode: sealed, UserCode: display(userCode), VerificationURI: page,
		VerificationURIComplete: page + "?user_code=" + display(userCode),
		ExpiresIn:               int64(deviceLife / time.Second), Interval: int64(pollInterval / time.Second)}, nil
}

// deviceRequest returns which client a user code lets in, and the most that it may get: what the device asked for is not known
// here. code is the user code as it was made, whatever the person has typed.
func (s *Server) deviceRequest(typed string) (code string, c *Client, scopes []string, err error) {
	code, ok := s.userCode(typed)
	if ok {
		c = s.Clients.byLetters(code[:clientLetters])
	}
	if c == nil {
		return "", nil, nil, refuse(invalidRequest, "There is no such code; see that it is typed as the device shows it.")
	}
	return code, c, c.deviceScopes(), nil
}

// deviceScopes are the most that a device gets, and what the person is asked about.
func (c *Client) deviceScopes() []string { return c.toAsk(mostScopes(c)) }

// approveDevice lets the device in that shows a code (of deviceRequest), as the person of a browser.
func (s *Server) approveDevice(r *http.Request, b *browser, code string) error {
	c := s.Clients.byLetters(code[:clientLetters])
	if c == nil {
		return refuse(invalidRequest, "The client does not exist any more.")
	}
	err := s.Sessions.Approve(r.Context(), session.Login{
		AuthnResult: iam.AuthnResult{User: b.user, Provider: b.session.Provider, Groups: b.session.Groups, Methods: b.session.Methods,
			At: b.session.Authenticated},
		Origin: s.originOf(r), Name: deviceSession(code), Client: c.Name, Parent: b.session.Name, Scopes: c.deviceScopes(),
	})
	return deviceError(err)
}

// denyDevice refuses the device that shows a code.
func (s *Server) denyDevice(ctx context.Context, b *browser, code string) error {
	return deviceError(s.Sessions.Deny(ctx, deviceSession(code), b.user))
}

func deviceError(err error) error {
	switch {
	case errors.Is(err, iam.ErrUsed):
		return refuse(invalidRequest, "The code was used already; start again at the device.").because(err)
	case errors.Is(err, iam.ErrOver):
		return refuse(loginRequired, "You have been logged out in the meantime.").because(err)
	case errors.Is(err, iam.ErrBusy):
		return &Error{Code: http.StatusTooManyRequests, Name: slowDown, RetryAfter: guessPause, cause: err,
			Description: "Too many of your devices are waiting; try again in a few minutes."}
	}
	return err
}

// deviceCode is the grant of a device (RFC 8628, 3.4).
func (s *Server) deviceCode(r *http.Request, c *Client, f form) (*tokens, error) {
	if f["device_code"] == "" {
		return nil, refuse(invalidRequest, "The device_code is missing.")
	}
	var d device
	if err := s.open(purposeDevice, f["device_code"], &d); err != nil {
		return nil, refuse(invalidGrant, "The device_code is not valid.").because(err)
	}
	if d.Client != c.Name {
		return nil, refuse(invalidGrant, "The device_code was issued to another client.")
	}
	if !s.Now().Before(d.Expires) {
		return nil, refuse("expired_token", "The device_code has expired; start again.")
	}
	name := deviceSession(d.UserCode)
	if s.polls.early(name, s.Now()) {
		return nil, refuse(slowDown, "The device asks too often.")
	}
	sess, u, refresh, err := s.Sessions.Claim(r.Context(), name, c.Name, d.Scopes...)
	switch {
	case errors.Is(err, iam.ErrWaiting):
		return nil, refuse("authorization_pending", "Nobody has let the device in yet.")
	case errors.Is(err, iam.ErrDenied):
		return nil, refuse(accessDenied, "The person said no.")
	case errors.Is(err, iam.ErrUsed), errors.Is(err, iam.ErrOver):
		return nil, refuse(invalidGrant, "The device_code was used before, or the login is over.").because(err)
	case err != nil:
		return nil, err
	}
	return s.issue(c, &issued{session: sess, user: u, scopes: sess.Scopes, refresh: refresh})
}

// polls remembers when devices asked last. It is one replica's: a device that asks several is told to slow down later.
type polls struct {
	mu         sync.Mutex
	young, old map[string]poll
}

type poll struct {
	last     time.Time
	interval time.Duration
}

func newPolls() *polls { return &polls{young: map[string]poll{}} }

// early notes a poll, and tells whether it came before its time.
func (p *polls) early(key string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.young[key]
	if !known {
		last, known = p.old[key]
	}
	next := poll{last: now, interval: max(last.interval, pollInterval)}
	early := known && now.Sub(last.last) < last.interval
	if early {
		next.interval = min(next.interval+pollInterval, pollLongest)
	}
	if _, ok := p.young[key]; !ok && len(p.young) >= polled/2 {
		p.old, p.young = p.young, map[string]poll{}
	}
	p.young[key] = next
	return early
}
