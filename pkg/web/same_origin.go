package web

import (
	"fmt"
	"net/http"
)

// CheckSameOrigin refuses a request that a page of another origin than these made a browser send, if it could change something, or open a
// stream: browsers don't prevent these. It is for credentials that browsers send by themselves.
func CheckSameOrigin(r *http.Request, origin string) error {
	protection := http.NewCrossOriginProtection()
	if origin != "" {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return fmt.Errorf("the issuer's origin: %w", err)
		}
	}
	if r.Header.Get("Upgrade") != "" { // a GET, which Check would accept
		changing := *r
		changing.Method = http.MethodPost
		r = &changing
	}
	return protection.Check(r)
}
