package source

import (
	"crypto/tls"
	"net/url"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

var ofRepo = fieldNames{"spec.credential", "spec.credential.caFile", "spec.credential.insecureSkipTLSVerify"}

// AccessOfRepo returns how a Repo is reached. The certificates and the key in its credential are content, and never paths.
func AccessOfRepo(r *applicationv2.Repo) (*Access, error) {
	base, err := parseBase(r.Spec.URL, ofRepo)
	if err != nil {
		return nil, err
	}
	c := &r.Spec.Credential
	out := &Access{base: base, username: c.Username, password: c.Password, fields: ofRepo,
		insecure: c.InsecureSkipTLSVerify != nil && *c.InsecureSkipTLSVerify}
	if out.authorities, err = authorities(ofRepo.authorities, c.CAFile); err != nil {
		return nil, err
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return out, nil
	}
	pair, err := tls.X509KeyPair(decoded(c.CertFile), decoded(c.KeyFile))
	if err != nil { // its text is about a key
		return nil, failure(ReasonInvalid, "spec.credential.certFile and keyFile: they are no certificate and its key in PEM")
	}
	out.certificate = &pair
	return out, nil
}

// WithoutUserinfo moves the user and the password in a Repo's URL, which everybody sees who sees the Repo, into its credential, which
// nobody sees. It reports whether there were any.
func WithoutUserinfo(spec *applicationv2.RepoSpec) bool {
	u, err := url.Parse(spec.URL)
	if err != nil || u.User == nil {
		return false
	}
	spec.Credential.Username = u.User.Username()
	spec.Credential.Password, _ = u.User.Password()
	u.User = nil
	spec.URL = u.String()
	return true
}

// SameAddress reports whether two URLs are of one repository: a credential that was written for one is then sent for the other, too.
func SameAddress(a, b string) bool {
	x, errX := parse("", a)
	y, errY := parse("", b)
	return errX == nil && errY == nil && x.Scheme == y.Scheme && hostport(x) == hostport(y) &&
		x.JoinPath("/").EscapedPath() == y.JoinPath("/").EscapedPath()
}
