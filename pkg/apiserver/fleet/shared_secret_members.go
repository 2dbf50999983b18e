package fleet

import (
	"net/http"
	"net/url"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/sharedsecret"
)

// SharedSecret is how members are reached that know their callers by a secret alone.
type SharedSecret struct {
	// Members are their names, and Directory has a file with the secret of each.
	Members   []string
	Directory string
	// Issuer is that of the tokens, and Own the secret with which this server accepts tokens of an older installation.
	Issuer string
	Own    []byte
	// Serve returns the handler that passes requests on to ks-apiserver of a member.
	Serve func(at *url.URL, by http.RoundTripper, token func(user string) (string, error)) http.Handler
}

// dialled returns how they are dialled, nil where there are none. Each start says so.
func (s *SharedSecret) dialled() *direct.SharedSecret {
	if len(s.Members) == 0 {
		return nil
	}
	klog.InfoS("Requests to some members go with tokens that are signed by a secret which they share with this server: who has the secret of"+
		" one can be any user there (fleet.sharedSecretMembers)", "clusters", s.Members)
	return &direct.SharedSecret{Issuer: s.Issuer, Serve: s.Serve,
		Secrets: sharedsecret.Secrets{Members: s.Members, Directory: s.Directory, Own: s.Own}}
}
