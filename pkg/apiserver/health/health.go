// Package health answers the questions of load balancers and people whether the server can serve.
package health

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Check is one check of /readyz.
type Check struct {
	Name string
	// Vital is set if the server must not get requests while the check fails. Any other failure is shown, and only what it concerns is
	// degraded.
	Vital bool
	// Fault returns nil if all is well.
	Fault func() error
}

// Handler serves /healthz, /livez and /readyz: the body is "ok", or, with ?verbose or if a vital check fails, a line for each check, in
// the form of kube-apiserver's. A check's own path, /readyz/{name}, reports on it alone. ?exclude=name leaves a check out. Why a check
// fails is only for callers who are logged in: errors name addresses.
type Handler struct {
	// Checks returns those of /readyz.
	Checks func() []Check
}

var errWithheld = errors.New("log in to see why")

var ping = Check{Name: "ping", Vital: true, Fault: func() error { return nil }}

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, name, single := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	checks := []Check{ping}
	if root == "readyz" {
		checks = append(checks, h.Checks()...)
	}
	if single {
		i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
		if i < 0 {
			http.Error(w, "404: no such check", http.StatusNotFound)
			return
		}
		checks = []Check{checks[i]}
		checks[0].Vital = true // a request for one check wants its state in the code
	}
	query := r.URL.Query()
	exclude := query["exclude"]
	_, verbose := query["verbose"]
	u := request.UserFrom(r.Context())
	known := u != nil && slices.Contains(u.GetGroups(), user.AllAuthenticated)
	var b strings.Builder
	failed := false
	for _, c := range checks {
		if slices.Contains(exclude, c.Name) {
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := c.Fault()
		if err != nil && !known {
			err = errWithheld
		}
		switch {
		case err == nil:
			fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
		case c.Vital:
			failed = true
			fmt.Fprintf(&b, "[-]%s failed: %v\n", c.Name, err)
		default:
			fmt.Fprintf(&b, "[!]%s degraded: %v\n", c.Name, err)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	switch {
	case failed:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s%s check failed\n", b.String(), root)
	case verbose:
		fmt.Fprintf(w, "%s%s check passed\n", b.String(), root)
	default:
		fmt.Fprint(w, "ok")
	}
}
