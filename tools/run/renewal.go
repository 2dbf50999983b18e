package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// checkEvery is how often the login is tried: the kubeconfig works again that soon after its session was ended.
	checkEvery   = 15 * time.Second
	shortestRest = time.Second
)

// renewIn is how long to wait before a token is renewed: half its life.
func renewIn(l login) time.Duration {
	return max(shortestRest, time.Duration(l.Seconds)*time.Second/2)
}

// adminState is what decides whether a password that was refused may be accepted now: a wrong one must not be sent again and again, since
// each counts towards the lockout of the admin.
type adminState struct {
	// user is the UID of the user and the generation of its spec, which has the hash of the password.
	user     string
	password string
}

// renewal renews the token in ks.kubeconfig.
type renewal struct {
	*session
	login
	due  time.Time
	said string // the last failure
	// refused is where the password did not count, and refusal says so.
	refused adminState
	refusal error
}

// keepLoggedIn renews the token in ks.kubeconfig before it expires, and soon after its session was ended, as long as ctx lasts.
func (s *session) keepLoggedIn(ctx context.Context, l login) {
	r := &renewal{session: s, login: l, due: time.Now().Add(renewIn(l))}
	for r.Seconds > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(shortestRest, min(checkEvery, time.Until(r.due)))):
		}
		r.step(ctx, time.Now())
	}
}

// step renews the token where it is due or is not accepted any more, and says what keeps it from that, once.
func (r *renewal) step(ctx context.Context, now time.Time) {
	if now.Before(r.due) && !r.over(ctx) {
		return
	}
	next, err := r.renew(ctx)
	if err == nil {
		err = r.writeKubeconfig(next)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.due = now // until it works
		if text := err.Error(); text != r.said {
			r.said = text
			r.say("the login in %s is not renewed: %s", r.path("ks.kubeconfig"), text)
		}
	default:
		if r.said != "" {
			r.say("the login in %s is renewed", r.path("ks.kubeconfig"))
		}
		r.login, r.due, r.said, r.refused = next, now.Add(renewIn(next)), "", adminState{}
	}
}

// over reports whether the server has answered that the token does not count any more. No answer means nothing.
func (r *renewal) over(ctx context.Context) bool {
	_, err := get(ctx, r.url()+"/kapis/iam.kubesphere.io/v1beta1/users/admin", r.Access)
	var status *statusError
	return errors.As(err, &status) && status.code == http.StatusUnauthorized
}

// renew uses the refresh token or, where the session was ended, the password.
func (r *renewal) renew(ctx context.Context) (login, error) {
	if r.Refresh != "" {
		next, err := refreshLogin(ctx, r.url(), r.consoleSecret, r.Refresh)
		if err == nil || !refused(err) {
			return next, err
		}
		r.Refresh = "" // it ended with the session
	}
	password, err := os.ReadFile(r.path("admin-password"))
	if err != nil {
		return login{}, fmt.Errorf("read the admin's password: %w", err)
	}
	state, err := r.tool(ctx, nil, r.kubectl(), "--kubeconfig", r.clusterKubeconfig(), "get", "users.iam.kubesphere.io", "admin",
		"--ignore-not-found", "-o", "jsonpath={.metadata.uid}/{.metadata.generation} {.status.state}")
	if err != nil {
		return login{}, fmt.Errorf("find the user admin: %w", err)
	}
	user, active, _ := strings.Cut(strings.TrimSpace(state), " ")
	switch {
	case user == "":
		return login{}, errors.New("there is no user admin")
	case active != "Active":
		return login{}, fmt.Errorf("the user admin is not active: its state is %q", active)
	}
	now := adminState{user, strings.TrimSpace(string(password))}
	if now == r.refused {
		return login{}, r.refusal
	}
	next, err := passwordLogin(ctx, r.url(), r.consoleSecret, now.password)
	if refused(err) {
		r.refused, r.refusal = now, fmt.Errorf("the user admin has another password than %s says (%w): write it there, or start with"+
			" ADMIN_PASSWORD=", r.path("admin-password"), err)
		return login{}, r.refusal
	}
	return next, err
}
