package kubeconfig

import (
	"crypto/x509"
	"time"
)

// life is when a certificate is due to be renewed, and when it ends.
type life struct{ renewal, ends time.Time }

// note remembers a user's certificate for the metrics, nil for none.
func (r *Reconciler) note(user string, certificate *x509.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if certificate == nil {
		delete(r.lives, user)
		return
	}
	if r.lives == nil {
		r.lives = map[string]life{}
	}
	r.lives[user] = life{renewal: renewal(certificate), ends: certificate.NotAfter}
}

// first returns the value of a metric: the earliest time of all certificates.
func (r *Reconciler) first(of func(life) time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first time.Time
	for _, l := range r.lives {
		if t := of(l); first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.Unix())
}
