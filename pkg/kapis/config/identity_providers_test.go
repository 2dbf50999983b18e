package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
	"kapis.dev/ks-apiserver/pkg/store"
)

// directory is a Password provider with two people.
type directory struct {
	Secret string
	down   error
}

func (d *directory) Check(context.Context) error { return d.down }

func (d *directory) Login(_ context.Context, username, password string) (*idp.Identity, error) {
	switch {
	case d.down != nil:
		return nil, d.down
	case password != "right":
		return nil, idp.ErrCredentials
	}
	return &idp.Identity{Subject: "s-" + username, Username: username, Groups: []string{"dev"}, Hint: "canary-hint", Refresh: "canary-refresh"}, nil
}

type browserOnly struct{}

func (browserOnly) Check(context.Context) error { return errors.New("the client is not registered") }

func call(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	users := iam.NewUserIndex()
	users.Set(
		&store.Object{
			Name: "jane",
			Raw:  []byte(`{"metadata":{"name":"jane","uid":"1","annotations":{"iam.kubesphere.io/identity-provider.corp":"s-jane"}},"status":{"state":"Active"}}`),
		},
	)
	entry := func(name string, m idp.Mapping, p idp.Provider) *idp.Entry {
		return &idp.Entry{Name: name, Type: "T", DisplayName: "D", Mapping: m, Provider: p}
	}
	d := idptest.Directory(t,
		entry("corp", idp.MapAuto, &directory{Secret: "canary-settings"}), entry("manual", idp.MapManual, &directory{}), entry("lookup", idp.MapLookup, &directory{}),
		entry("down", idp.MapAuto, &directory{down: fmt.Errorf("%w: connection refused", idp.ErrUnavailable)}), entry("web", idp.MapAuto, browserOnly{}),
		&idp.Entry{Name: "wrong", Fault: errors.New("no such key: scopez")},
	)
	c := restful.NewContainer()
	c.Add(
		kapisconfig.Handler{
			IdentityProviders: &kapisconfig.IdentityProviders{Directory: d, Accounts: account.New(account.Options{Users: users, Synced: func() bool { return true }})},
		}.V1alpha2(),
	)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, "/kapis/config.kubesphere.io/v1alpha2/identityproviders"+path, strings.NewReader(body)))
	if strings.Contains(w.Body.String(), "canary") || strings.Contains(w.Body.String(), "right") {
		t.Errorf("a secret shows: %s", w.Body)
	}
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return w.Code, out
}

// U32: what is configured, and how it is; a wrong configuration names what is wrong.
func TestProvidersAreShownWithTheirConditions(t *testing.T) {
	code, out := call(t, http.MethodGet, "", "")
	if code != http.StatusOK || out["totalItems"] != 6.0 {
		t.Fatalf("%d %v", code, out)
	}
	code, out = call(t, http.MethodGet, "/wrong", "")
	conditions, _ := json.Marshal(out["status"])
	if code != http.StatusOK || !strings.Contains(string(conditions),
		`"message":"provider: no such key: scopez","reason":"Invalid","status":"False","type":"Configured"`) {
		t.Errorf("%d %s", code, conditions)
	}
	for _, path := range []string{"/none", "/none/test"} {
		method := http.MethodGet
		if strings.HasSuffix(path, "test") {
			method = http.MethodPost
		}
		if code, _ := call(t, method, path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// U30, U32: a trial distinguishes an outage from a wrong password, says what would become of the person, and changes nothing.
func TestATrialTellsWhatALoginWouldBring(t *testing.T) {
	for _, tc := range []struct{ claim, provider, body, check, login, action, name string }{
		{"OnlyACheck", "corp", "", "OK", "", "", ""},
		{"ALinkedUser", "corp", `{"username":"jane","password":"right"}`, "OK", "OK", "Linked", "jane"},
		{"AUserWouldBeMade", "corp", `{"username":"joe","password":"right"}`, "OK", "OK", "Create", "joe"},
		{"OneOfANameThatIsTaken", "manual", `{"username":"jane","password":"right"}`, "OK", "OK", "Register", "jane-"},
		{"NobodyIsLinked", "lookup", `{"username":"joe","password":"right"}`, "OK", "OK", "Refuse", ""},
		{"AWrongPassword", "corp", `{"username":"jane","password":"wrong"}`, "OK", "Credentials", "", ""},
		{"AnOutage", "down", `{"username":"jane","password":"right"}`, "Unavailable", "Unavailable", "", ""},
		{"WithoutPasswords", "web", `{"username":"jane","password":"right"}`, "Refused", "Unsupported", "", ""},
		{"AWrongConfiguration", "wrong", `{"username":"jane","password":"right"}`, "Invalid", "", "", ""},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			code, out := call(t, http.MethodPost, "/"+tc.provider+"/test", tc.body)
			get := func(object, key string) string {
				m, _ := out[object].(map[string]any)
				s, _ := m[key].(string)
				return s
			}
			if code != http.StatusOK || get("check", "result") != tc.check || get("login", "result") != tc.login || get("user", "action") != tc.action ||
				!strings.HasPrefix(get("user", "name"), tc.name) {
				t.Errorf("%d %v", code, out)
			}
			if (tc.action != "") != (get("identity", "subject") != "") {
				t.Errorf("identity %v", out["identity"])
			}
		})
	}
	for _, body := range []string{"{", `{"user":"jane"}`, `[]`} {
		if code, _ := call(t, http.MethodPost, "/corp/test", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, code)
		}
	}
}
