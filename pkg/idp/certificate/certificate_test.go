package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/certificate"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestConformance(t *testing.T) {
	idptest.Suite{Type: certificate.Type(), Start: func(t *testing.T, _ idptest.Outside) *idptest.Double {
		return &idptest.Double{Settings: map[string]any{"clientCAData": idptest.NewAuthority(t, "people", now).PEM, "groupsPrefix": "cert:"}}
	}}.Run(t)
}

func TestSettingsThatCanNotWorkAreRefused(t *testing.T) {
	ca := "clientCAData: " + base64.StdEncoding.EncodeToString([]byte(idptest.NewAuthority(t, "people", now).PEM)) + "\n"
	for name, tc := range map[string]struct{ settings, names string }{
		"NoAuthority":          {"groupsPrefix: 'cert:'", "clientCA"},
		"TwoAuthorities":       {ca + "clientCA: /x", "clientCA"},
		"AnAuthorityThatIsNot": {"clientCAData: eA==", "clientCAData"},
		"AMissingFile":         {"clientCA: /nonexistent", "clientCA"},
		"GroupsOfKubernetes":   {ca + "groupsPrefix: 'system:'", "groupsPrefix"},
		"GroupsOfThisServer":   {ca + "groupsPrefix: 'kapis:x:'", "groupsPrefix"},
		"AKeyThatHasNoMeaning": {ca + "allowedNames: [x]", "allowedNames"},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := certificate.Type().Open([]byte(tc.settings), idp.OpenOptions{}); err == nil || p != nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("got %v, %v; want an error that names %s", p, err, tc.names)
			}
		})
	}
}

func TestACertificateNamesItsHolder(t *testing.T) {
	people, others := idptest.NewAuthority(t, "people", now), idptest.NewAuthority(t, "people", now) // with the same name
	ca := "clientCAData: " + base64.StdEncoding.EncodeToString([]byte(people.PEM)) + "\n"
	unverified := people.Peer(t, pkix.Name{CommonName: "jane"}, 1)
	unverified.VerifiedChains = nil
	for name, tc := range map[string]struct {
		settings string
		peer     *tls.ConnectionState
		subject  string
		groups   []string
		fails    bool
	}{
		"TheCommonName":              {ca, people.Peer(t, pkix.Name{CommonName: "jane", Organization: []string{"devs"}}, 1), "jane", nil, false},
		"GroupsOfOrganizations":      {ca + "groupsPrefix: 'cert:'", people.Peer(t, pkix.Name{CommonName: "jane", Organization: []string{"system:masters", "devs"}}, 1), "jane", []string{"cert:devs", "cert:system:masters"}, false},
		"NoCommonName":               {ca, people.Peer(t, pkix.Name{Organization: []string{"devs"}}, 1), "", nil, true},
		"AComponentOfKubernetes":     {ca, people.Peer(t, pkix.Name{CommonName: "system:node:n1"}, 1), "", nil, true},
		"AnotherAuthorityOfThatName": {ca, others.Peer(t, pkix.Name{CommonName: "jane"}, 1), "", nil, false},
		"ExpiredSinceTheHandshake":   {ca, people.Peer(t, pkix.Name{CommonName: "jane"}, -1), "", nil, false},
		"NotVerified":                {ca, unverified, "", nil, false},
		"TheAuthorityItself":         {ca, &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{people.Cert}}}, "", nil, false},
		"NoTLS":                      {ca, nil, "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := certificate.Type().Open([]byte(tc.settings), idp.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			id, err := p.(idp.Certificate).Holder(tc.peer, now)
			if errors.Is(err, idp.ErrRefused) != tc.fails || (err != nil) != tc.fails {
				t.Fatalf("got the error %v, want one: %v", err, tc.fails)
			}
			if id == nil {
				id = &idp.Identity{}
			}
			if id.Subject != tc.subject || id.Username != tc.subject || !slices.Equal(id.Groups, tc.groups) {
				t.Errorf("got %q of %q, want %q of %q", id.Subject, id.Groups, tc.subject, tc.groups)
			}
		})
	}
}
