package sharedsecret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"kapis.dev/ks-apiserver/pkg/cluster/sharedsecret"
)

const (
	ofShop  = "0123456789abcdefghijklmnopqrstuvwxyz"
	ofEdge  = "zyxwvutsrqponmlkjihgfedcba9876543210"
	ofOlder = "the-secret-of-the-older-installation"
)

// F12: only a listed member has a secret, and only one that nobody else has: not another member, and not the hub. What is wrong is said
// without it.
func TestASecretIsOfOneMember(t *testing.T) {
	for name, x := range map[string]struct {
		shop, edge, own, member, want string
	}{
		"Own":             {shop: ofShop, edge: ofEdge, own: ofOlder, member: "shop"},
		"LineEnd":         {shop: ofShop + "\n", edge: ofEdge, member: "shop"},
		"OtherUnreadable": {shop: ofShop, member: "shop"},
		"NotListed":       {shop: ofShop, member: "other", want: "not one of fleet.sharedSecretMembers"},
		"Escape":          {shop: ofShop, member: "../shop", want: "not one of fleet.sharedSecretMembers"},
		"Missing":         {edge: ofEdge, member: "shop", want: "can't be read"},
		"Empty":           {shop: "\n", member: "shop", want: "0 bytes"},
		"Short":           {shop: ofShop[:31], member: "shop", want: "31 bytes"},
		"Repeated":        {shop: strings.Repeat("abcd", 10), member: "shop", want: "repeated"},
		"Long":            {shop: strings.Repeat(ofShop, 200), member: "shop", want: "more than"},
		"OfAnother":       {shop: ofShop, edge: ofShop + "\n", member: "shop", want: "share the same secret"},
		"OfTheHub":        {shop: ofOlder, edge: ofEdge, own: ofOlder, member: "shop", want: "jwtSecret of this server"},
		"OfTheHubBlanks":  {shop: ofOlder, own: " " + ofOlder + "\n", member: "shop", want: "jwtSecret of this server"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"shop": x.shop, "edge": x.edge} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, "shared-secret-"+file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := (&sharedsecret.Secrets{Members: []string{"shop", "edge"}, Directory: dir, Own: []byte(x.own)}).Of(x.member)
			if x.want == "" && (err != nil || string(got) != ofShop) {
				t.Errorf("%q, %v", got, err)
			}
			if x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want) || got != nil) {
				t.Errorf("%q, %v, want %q", got, err, x.want)
			}
			if err != nil && (strings.Contains(err.Error(), ofShop) || strings.Contains(err.Error(), ofOlder)) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	if _, err := (*sharedsecret.Secrets)(nil).Of("shop"); err == nil {
		t.Error("a server without a list has a secret")
	}
}

// F12: a token is of one user, for one cluster, for a minute, and nobody gets one whose name a member would take for something else.
func TestATokenIsForAMinute(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tokens := &sharedsecret.Tokens{Secret: []byte(ofShop), Issuer: "https://hub.example", Cluster: "u-1", Now: func() time.Time { return now }}
	s, err := tokens.For("ann")
	if err != nil {
		t.Fatal(err)
	}
	read := func(at time.Time, secret string) (jwt.MapClaims, error) {
		c := jwt.MapClaims{}
		_, err := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithTimeFunc(func() time.Time { return at }), jwt.WithIssuedAt(),
			jwt.WithExpirationRequired()).ParseWithClaims(s, c, func(*jwt.Token) (any, error) { return []byte(secret), nil })
		return c, err
	}
	c, err := read(now.Add(59*time.Second), ofShop)
	if audience, _ := c.GetAudience(); err != nil || c["username"] != "ann" || c["sub"] != "ann" || c["token_type"] != "access_token" ||
		c["iss"] != "https://hub.example" || len(audience) != 1 || audience[0] != "kapis:u-1" {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := read(now.Add(61*time.Second), ofShop); err == nil {
		t.Error("it counts after a minute")
	}
	if _, err := read(now, ofEdge); err == nil {
		t.Error("another member takes it")
	}
	for _, name := range []string{"", "system:masters", "kubesphere:serviceaccount:default:root", "kapis:hub", "Ann", "a b", "ann\n", "ann/../root", "*",
		strings.Repeat("a", 300)} {
		if s, err := tokens.For(name); err == nil {
			t.Errorf("%q has a token: %s", name, s)
		}
	}
	if s, err := tokens.ForHub(); err != nil || s == "" {
		t.Error(err)
	}
}
