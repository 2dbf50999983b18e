package iam_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/token"
)

// newKeys returns keys for what is sealed.
func newKeys(t *testing.T) *token.KeySet {
	t.Helper()
	began := noon().Add(-time.Hour)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	set, err := token.NewKeySet([]token.SigningKey{{ID: "s", Private: private, Created: began, NotBefore: began}},
		[]token.MACKey{{ID: "k", Secret: []byte(strings.Repeat("0123456789abcdef", 2)), Created: began, NotBefore: began}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// loggedIn returns the user with a session that began some time ago.
func loggedIn(name string, ago time.Duration) user.Info {
	return session.WithSession(as(name), &session.Session{UserUID: "uid-" + name, Authenticated: noon().Add(-ago)})
}

func TestTheTabOfTheConsoleEnrolsAnAuthenticatorApp(t *testing.T) {
	w := newWorld(t)
	w.h.Factors.Keys, w.h.Logins.Factors = newKeys(t), w.h.Factors
	alice, path := loggedIn("alice", time.Minute), "/users/alice/authkey"
	read := func() (out credential.AuthKey) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.want(200, alice, http.MethodGet, path, "")), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	offered := read()
	if len(offered.AuthKey) != 32 || read() != offered {
		t.Fatalf("offered %q, and then %q", offered, read())
	}
	for name, by := range map[string]user.Info{
		"an older login": loggedIn("alice", 6*time.Minute), "no session": as("alice"), "another user": loggedIn("bob", time.Minute), "an API key": withKey("alice"),
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if code, answer := w.do(by, method, path, "{}"); code != 403 {
				t.Errorf("%s: %s is %d %s", name, method, code, answer)
			}
		}
	}
	code, err := totp.GenerateCode(offered.AuthKey, noon())
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.Repeat("A", 32) // a secret of one's own choice
	own, err := totp.GenerateCode(mine, noon())
	if err != nil {
		t.Fatal(err)
	}
	for body, say := range map[string]string{
		`{}`: "authKey and otp", `{"authKey":"` + offered.AuthKey + `","otp":"000000"}`: "the code is wrong",
		`{"authKey":"` + mine + `","otp":"` + own + `"}`: "the code is wrong",
	} {
		if answer := w.want(400, alice, http.MethodPost, path, body); !strings.Contains(answer, say) {
			t.Errorf("%s: %s", body, answer)
		}
	}
	w.want(404, alice, http.MethodDelete, path+"?otp="+code, "")
	body := `{"authKey":"` + offered.AuthKey + `","otp":"` + code + `"}`
	made := credential.Enrolled{}
	if err := json.Unmarshal([]byte(w.want(200, alice, http.MethodPost, path, body)), &made); err != nil || len(made.RecoveryCodes) != 10 {
		t.Fatal(made, err)
	}
	if got := read(); got.AuthKey != "" {
		t.Errorf("with an app, %q is offered", got.AuthKey)
	}
	w.want(409, alice, http.MethodPost, path, body)
	w.want(400, alice, http.MethodDelete, path, "")
	w.want(400, alice, http.MethodDelete, path+"?otp="+code, "") // it was used
	w.want(200, alice, http.MethodDelete, path+"?otp="+made.RecoveryCodes[0], "")
	if got := w.want(200, alice, http.MethodGet, "/users/alice/factors", ""); got != `{"totp":false,"recoveryLeft":0,"passkeys":[]}` {
		t.Errorf("after the removal: %s", got)
	}
	for range 3 {
		w.want(400, alice, http.MethodPost, path, `{"authKey":"`+offered.AuthKey+`","otp":"000000"}`)
	}
	w.want(429, alice, http.MethodPost, path, body)
}
