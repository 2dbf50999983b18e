package iam_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
)

func TestPasswords(t *testing.T) {
	const fresh = "Secret-123"
	for name, test := range map[string]struct {
		by   user.Info
		path string
		body string
		code int
		say  string
	}{
		"OwnWithTheCurrentOne":      {as("alice"), "alice", `{"currentPassword":"` + secret + `","password":"` + fresh + `"}`, 200, "sessionsEnded"},
		"OwnWithout":                {as("alice"), "alice", `{"password":"` + fresh + `"}`, 400, "incorrect old password"},
		"OwnWithAWrongOne":          {as("alice"), "alice", `{"currentPassword":"nope","password":"` + fresh + `"}`, 400, "incorrect old password"},
		"OwnOfWhoHasNone":           {as("ldap"), "ldap", `{"password":"` + fresh + `"}`, 400, "incorrect old password"},
		"AManagersReset":            {as("bob"), "alice", `{"password":"` + fresh + `","rePassword":"` + fresh + `"}`, 200, "success"},
		"AManagersWithAWrongOne":    {as("bob"), "alice", `{"currentPassword":"nope","password":"` + fresh + `"}`, 400, "incorrect old password"},
		"Repeated":                  {as("bob"), "alice", `{"password":"` + fresh + `","rePassword":"other"}`, 400, "differ"},
		"Weak":                      {as("bob"), "alice", `{"password":"short"}`, 400, "8 to 64"},
		"AHash":                     {as("bob"), "alice", `{"password":"$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"}`, 400, "hash"},
		"TheOneInUse":               {as("bob"), "alice", `{"password":"` + secret + `"}`, 400, "in use"},
		"NoJSON":                    {as("bob"), "alice", `password=x`, 400, "JSON"},
		"TooLong":                   {as("bob"), "alice", `{"password":"` + strings.Repeat("x", wire.MaxSmall) + `"}`, 413, ""},
		"ByAnAPIKey":                {withKey("bob"), "alice", `{"password":"` + fresh + `"}`, 403, "API key"},
		"OfNobody":                  {as("bob"), "nobody", `{"password":"` + fresh + `"}`, 404, ""},
		"OfAnotherWhoHasTheOldName": {&user.DefaultInfo{Name: "alice", UID: "uid-of-old"}, "alice", `{"password":"` + fresh + `"}`, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			answer := w.want(test.code, test.by, http.MethodPut, "/users/"+test.path+"/password", test.body)
			if !strings.Contains(answer, test.say) {
				t.Errorf("%s", answer)
			}
			hash, written := w.written[test.by.GetName()+"→"+test.path]
			if written != (test.code == 200) {
				t.Errorf("written: %v", w.written)
			}
			if written && bcrypt.CompareHashAndPassword([]byte(hash), []byte(fresh)) != nil {
				t.Error("what was written is not the hash of the new password")
			}
		})
	}
}

// S47: the current password is guessed no faster here than at the login.
func TestTheCurrentPasswordCantBeGuessed(t *testing.T) {
	w := newWorld(t)
	body := `{"currentPassword":"nope","password":"Secret-123"}`
	for range 3 {
		w.want(400, as("alice"), http.MethodPut, "/users/alice/password", body)
	}
	w.want(429, as("alice"), http.MethodPut, "/users/alice/password", body)
	w.want(429, as("alice"), http.MethodPut, "/users/alice/password", strings.Replace(body, "nope", secret, 1))
}

func TestAUserIsCreatedAsTheCaller(t *testing.T) {
	w := newWorld(t)
	// As the console sends it, with a password in clear text.
	answer := w.want(200, as("bob"), http.MethodPost, "/users?dryRun=All&x=y",
		`{"metadata":{"annotations":{"iam.kubesphere.io/uninitialized":"true"},"name":"carol"},`+
			`"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","spec":{"email":"carol@example.com","password":"Secret-123"},"status":{"state":"Active"}}`)
	if len(w.sent) != 1 || !strings.HasPrefix(w.sent[0], "bob POST /apis/iam.kubesphere.io/v1beta1/users?dryRun=All {") {
		t.Fatalf("%v", w.sent)
	}
	if s := w.sent[0]; strings.Contains(s, "Secret-123") || !strings.Contains(s, `"password":"$2a$10$`) || strings.Contains(s, `"status"`) ||
		!strings.Contains(s, "uninitialized") {
		t.Errorf("%s", s)
	}
	if strings.Contains(answer, "password") || !strings.Contains(answer, "carol@example.com") {
		t.Errorf("%s", answer)
	}
	w.want(200, as("bob"), http.MethodPost, "/users", `{"metadata":{"name":"no-password"}}`)
	w.want(200, withKey("bob"), http.MethodPost, "/users", `{"metadata":{"name":"by-key"}}`)
	for body, code := range map[string]int{
		`{"metadata":{"name":"taken"}}`:                                                          409,
		`{"metadata":{"name":"x"},"spec":{"password":"short"}}`:                                  400,
		`{"metadata":{"name":"x"},"spec":{"password":12}}`:                                       400,
		`{"metadata":{"name":"x"},"spec":{"password":"$2a$10$` + strings.Repeat("a", 53) + `"}}`: 400,
		`{"metadata":{"name":"Secret-123"},"spec":{"password":"secret-123"}}`:                    400,
		`{"metadata":{}}`:                         400,
		`{"kind":"Role","metadata":{"name":"x"}}`: 400,
		`[]`:   400,
		`null`: 400,
		``:     400,
	} {
		w.want(code, as("bob"), http.MethodPost, "/users", body)
	}
	w.want(400, as("bob"), http.MethodPost, "/users?dryrun=All", `{"metadata":{"name":"x"}}`)
}

func TestWhoRegistersNamesAnIdentity(t *testing.T) {
	w := newWorld(t)
	pre := &user.DefaultInfo{Name: v1beta1.UserPreRegistration, Groups: []string{v1beta1.GroupPreRegistration}}
	w.want(403, pre, http.MethodPost, "/users", `{"metadata":{"name":"carol"}}`)
	pre.Extra = map[string][]string{"idp": {"ldap"}, "uid": {"c1"}}
	w.want(409, pre, http.MethodPost, "/users", `{"metadata":{"name":"alice"}}`)
	w.want(200, pre, http.MethodPost, "/users", `{"metadata":{"name":"carol"},"spec":{"groups":["admins"]}}`)
	if len(w.made) != 1 || w.made[0].Name != "carol" || w.made[0].Spec.Groups != nil ||
		w.made[0].Annotations[v1beta1.AnnotationIdentityProviderPrefix+"ldap"] != "c1" {
		t.Errorf("made %+v", w.made)
	}
	if len(w.sent) != 0 {
		t.Errorf("sent %v", w.sent)
	}
}

func TestAPIKeysAreMadeByTheirUserOnly(t *testing.T) {
	w := newWorld(t)
	expires := `"expiresAt":"` + noon().Add(time.Hour).Format(time.RFC3339) + `"`
	body := `{"description":"ci","currentPassword":"` + secret + `",` + expires + `}`
	made := credential.Key{}
	if err := json.Unmarshal([]byte(w.want(200, as("alice"), http.MethodPost, "/users/alice/apikeys", body)), &made); err != nil ||
		!strings.HasPrefix(made.Token, "ksk_"+made.Name) {
		t.Fatalf("%+v, %v", made, err)
	}
	for name, test := range map[string]struct {
		by   user.Info
		code int
	}{
		"AManager": {as("bob"), 403}, "AnotherKey": {withKey("alice"), 403}, "AnOlderUserOfTheName": {&user.DefaultInfo{Name: "alice", UID: "old"}, 403},
	} {
		if code, answer := w.do(test.by, http.MethodPost, "/users/alice/apikeys", body); code != test.code {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
	w.want(400, as("alice"), http.MethodPost, "/users/alice/apikeys", `{"currentPassword":"`+secret+`"}`)
	w.want(400, as("alice"), http.MethodPost, "/users/alice/apikeys", `{"expiresAt":"soon"}`)
	if text := w.want(400, as("alice"), http.MethodPost, "/users/alice/apikeys", strings.Replace(body, "{", `{"scope":"write",`,
		1)); !strings.Contains(text, `\"read\"`) {
		t.Errorf("the values of scope are not named: %s", text)
	}
	list := w.want(200, as("bob"), http.MethodGet, "/users/alice/apikeys", "")
	if !strings.Contains(list, made.Name) || strings.Contains(list, made.Token) || strings.Contains(list, "token") || !strings.Contains(list, `"totalItems":1`) {
		t.Errorf("%s", list)
	}
	w.want(404, as("bob"), http.MethodDelete, "/users/bob/apikeys/"+made.Name, "")
	w.want(404, as("alice"), http.MethodDelete, "/users/alice/apikeys/none", "")
	reads := w.want(200, as("alice"), http.MethodPost, "/users/alice/apikeys", strings.Replace(body, "{", `{"scope":"read",`, 1))
	list = w.want(200, as("alice"), http.MethodGet, "/users/alice/apikeys", "")
	if strings.Count(reads, `"scope":"read"`) != 1 || strings.Count(list, `"scope":"read"`) != 1 || !strings.Contains(list, `"totalItems":2`) {
		t.Errorf("%s in %s", reads, list)
	}
	w.want(200, as("alice"), http.MethodDelete, "/users/alice/apikeys/"+made.Name, "")
	w.want(200, as("bob"), http.MethodDelete, "/users/alice/apikeys", "")
	if list := w.want(200, as("alice"), http.MethodGet, "/users/alice/apikeys", ""); list != `{"items":[],"totalItems":0}` {
		t.Errorf("%s", list)
	}
}

// A token that was stolen for some minutes does not become a key for months.
func TestAnAPIKeyNeedsAProofOfNow(t *testing.T) {
	w := newWorld(t)
	expires := `"expiresAt":"` + noon().Add(time.Hour).Format(time.RFC3339) + `"`
	for _, proof := range []string{"", `"currentPassword":"wrong",`} {
		w.want(400, as("alice"), http.MethodPost, "/users/alice/apikeys", `{`+proof+expires+`}`)
	}
	// A user without a password proves their identity by a login at their provider.
	for ago, code := range map[time.Duration]int{time.Minute: 200, 5*time.Minute + time.Second: 403} {
		his := session.WithSession(as("ldap"), &session.Session{UserUID: "uid-ldap", Authenticated: noon().Add(-ago)})
		w.want(code, his, http.MethodPost, "/users/ldap/apikeys", `{`+expires+`}`)
	}
	// A fresh login lends nothing to another token of the same user.
	w.proved = noon()
	old := session.WithSession(as("ldap"), &session.Session{UserUID: "uid-ldap", Authenticated: noon().Add(-time.Hour)})
	for _, by := range []user.Info{old, as("ldap"), session.WithSession(as("ldap"), &session.Session{UserUID: "uid-bob", Authenticated: noon()})} {
		w.want(403, by, http.MethodPost, "/users/ldap/apikeys", `{`+expires+`}`)
	}
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	w := newWorld(t)
	if list := w.want(200, as("alice"), http.MethodGet, "/users/alice/sessions", ""); !strings.Contains(list, `"name":"s-of-uid-alice"`) ||
		!strings.Contains(list, "192.0.2.1") {
		t.Errorf("%s", list)
	}
	w.want(404, as("alice"), http.MethodDelete, "/users/alice/sessions/s-of-uid-bob", "")
	w.want(200, as("alice"), http.MethodDelete, "/users/alice/sessions/s-of-uid-alice", "")
	w.want(200, as("bob"), http.MethodDelete, "/users/alice/sessions", "")
	if strings.Join(w.ended, " ") != "s-of-uid-alice uid-alice" {
		t.Errorf("ended %v", w.ended)
	}
}

func TestSecondFactorsAreResetByOthersOnly(t *testing.T) {
	w := newWorld(t)
	if got := w.want(200, as("alice"), http.MethodGet, "/users/alice/factors", ""); got != `{"totp":false,"recoveryLeft":0,"passkeys":[]}` {
		t.Errorf("%s", got)
	}
	w.want(403, as("alice"), http.MethodDelete, "/users/alice/factors", "")
	w.want(403, withKey("bob"), http.MethodDelete, "/users/alice/factors", "")
	w.want(200, as("bob"), http.MethodDelete, "/users/alice/factors", "")
}

func FuzzCreateUser(f *testing.F) {
	f.Add(`{"metadata":{"name":"x"},"spec":{"password":"Secret-123"}}`)
	f.Add(`{"metadata":[],"spec":"x"}`)
	f.Add(`{"metadata":{"name":{}},"spec":{"password":null}}`)
	f.Fuzz(func(t *testing.T, body string) {
		w := newWorld(t)
		if code, answer := w.do(as("bob"), http.MethodPost, "/users", body); code >= 500 {
			t.Errorf("%q: %d %s", body, code, answer)
		}
	})
}
