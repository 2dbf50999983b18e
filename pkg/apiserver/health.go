package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// check is one check of /readyz.
type check struct {
	name string
	// vital is set if the server must not get requests while the check fails. Any other failure is shown, and only what it concerns is
	// degraded.
	vital bool
	// fault returns nil if all is well.
	fault func() error
}

// health serves /healthz, /livez and /readyz: the body is "ok", or, with ?verbose or if a vital check fails, a line for each check, in
// the form of kube-apiserver's. A check's own path, /readyz/{name}, reports on it alone. ?exclude=name leaves a check out. Why a check
// fails is only for callers who are logged in: errors name addresses.
type health struct {
	checks func() []check
}

func isHealth(path string) bool {
	return strings.HasPrefix(path, "/healthz") || strings.HasPrefix(path, "/livez") || strings.HasPrefix(path, "/readyz")
}

var errWithheld = errors.New("log in to see why")

var ping = check{name: "ping", vital: true, fault: func() error { return nil }}

func (h health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, name, single := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	checks := []check{ping}
	if root == "readyz" {
		checks = append(checks, h.checks()...)
	}
	if single {
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
		if i < 0 {
			http.Error(w, "404: no such check", http.StatusNotFound)
			return
		}
		checks = []check{checks[i]}
		checks[0].vital = true // a request for one check wants its state in the code
	}
	query := r.URL.Query()
	exclude := query["exclude"]
	_, verbose := query["verbose"]
	u := request.UserFrom(r.Context())
	known := u != nil && slices.Contains(u.GetGroups(), user.AllAuthenticated)
	var b strings.Builder
	failed := false
	for _, c := range checks {
		if slices.Contains(exclude, c.name) {
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.name)
			continue
		}
		err := c.fault()
		if err != nil && !known {
			err = errWithheld
		}
		switch {
		case err == nil:
			fmt.Fprintf(&b, "[+]%s ok\n", c.name)
		case c.vital:
			failed = true
			fmt.Fprintf(&b, "[-]%s failed: %v\n", c.name, err)
		default:
			fmt.Fprintf(&b, "[!]%s degraded: %v\n", c.name, err)
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
