package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/setting"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system}, Data: data}
}

// configs/theme: keys that a change does not name are removed.
func TestTheThemeIsReplacedAsAWhole(t *testing.T) {
	w := newWorld(t, configMap("kubesphere-config", map[string]string{"kubesphere.yaml": "canary"}))
	if code, body := w.call(http.MethodGet, "/configs/theme", ""); code != http.StatusOK || body != "{}" {
		t.Fatalf("%d %s", code, body)
	}
	for _, theme := range []string{`{"logo":"/static/images/a.png","title":"One"}`, `{"title":"Two"}`, `{}`} {
		if code, body := w.call(http.MethodPut, "/configs/theme", theme); code != http.StatusOK || body != theme {
			t.Fatalf("%d %s", code, body)
		}
		if code, body := w.call(http.MethodGet, "/configs/theme", ""); code != http.StatusOK || body != theme {
			t.Errorf("%d %s, want %s", code, body, theme)
		}
	}
	const maps = "kapis:platform:theme %s /api/v1/namespaces/kubesphere-system/configmaps"
	if want := []string{fmt.Sprintf(maps, "PUT") + "/" + setting.ThemeName, fmt.Sprintf(maps, "POST"), fmt.Sprintf(maps, "PUT") + "/" + setting.ThemeName,
		fmt.Sprintf(maps, "PUT") + "/" + setting.ThemeName}; !slices.Equal(w.sent, want) {
		t.Errorf("%q", w.sent)
	}
}

func TestWhatIsNoThemeIsRefused(t *testing.T) {
	w := newWorld(t)
	many := map[string]string{}
	for i := range maxThemeKeys + 1 {
		many[fmt.Sprint("k", i)] = ""
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for claim, tc := range map[string]struct {
		body string
		code int
	}{
		"Array": {"[]", 400}, "Null": {"null", 400}, "Nothing": {"", 400}, "Nested": {`{"a":{"b":"c"}}`, 400}, "Number": {`{"a":1}`, 400},
		"KeyThatIsNone": {`{"../a":"b"}`, 400},
		"TooMany":       {string(tooMany), 400}, "TooLong": {`{"a":"` + strings.Repeat("x", maxTheme) + `"}`, 413},
	} {
		if code, body := w.call(http.MethodPut, "/configs/theme", tc.body); code != tc.code || !strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s: %d %s", claim, code, body)
		}
	}
	if len(w.sent) != 0 {
		t.Errorf("written: %q", w.sent)
	}
}

const platformConfig = `{"kind":"GenericPlatformConfiguration","apiVersion":"config.kubesphere.io/v1alpha2","metadata":{"name":%q,"labels":{"config.kubesphere.io/type":"oauthclient"}},"data":%s}`

// The life of a platform configuration.
func TestAPlatformConfigLives(t *testing.T) {
	w := newWorld(t)
	one := fmt.Sprintf(platformConfig, "telemetry", `{"endpoint":"e","n":9007199254740993,"deep":{"a":1,"b":2}}`)
	for _, step := range []struct {
		method, path, body string
		code               int
		data               string
	}{
		{"GET", "/platformconfigs/telemetry", "", 404, ""},
		{"PUT", "/platformconfigs/telemetry", one, 404, ""},
		{"PATCH", "/platformconfigs/telemetry", one, 404, ""},
		{"DELETE", "/platformconfigs/telemetry", "", 404, ""},
		{"POST", "/platformconfigs", one, 200, `{"deep":{"a":1,"b":2},"endpoint":"e","n":9007199254740993}`},
		{"GET", "/platformconfigs/telemetry", "", 200, `{"deep":{"a":1,"b":2},"endpoint":"e","n":9007199254740993}`},
		{"POST", "/platformconfigs", one, 409, ""},
		{"PATCH", "/platformconfigs/telemetry", `{"data":{"deep":{"a":null,"c":3}},"kind":"","metadata":{"labels":{"x":"y"}}}`, 200,
			`{"deep":{"b":2,"c":3},"endpoint":"e","n":9007199254740993}`},
		{"GET", "/platformconfigs/telemetry", "", 200, `{"deep":{"b":2,"c":3},"endpoint":"e","n":9007199254740993}`},
		{"PUT", "/platformconfigs/telemetry", `{"metadata":{"name":"telemetry"},"data":{"x":true},"cluster":"host"}`, 200, `{"x":true}`},
		{"PUT", "/platformconfigs/telemetry", `{"metadata":{"name":"telemetry","resourceVersion":"1"},"data":{}}`, 409, ""},
		{"DELETE", "/platformconfigs/telemetry", "", 200, ""},
		{"GET", "/platformconfigs/telemetry", "", 404, ""},
	} {
		code, body := w.call(step.method, step.path, step.body)
		var out configuration
		if err := json.Unmarshal([]byte(body), &out); err != nil || code != step.code {
			t.Fatalf("%s %s: %d %s", step.method, step.body, code, body)
		}
		if step.data != "" && (string(out.Data) != step.data || out.Kind != kindPlatform || out.APIVersion != apiVersion || out.Metadata.Name != "telemetry") {
			t.Errorf("%s: %s, want %s", step.method, body, step.data)
		}
		if code >= 400 && strings.Contains(body, "io.kubesphere.config") {
			t.Errorf("the caller, who asked for no Secret, reads of one: %s", body)
		}
		if s := w.secret("io.kubesphere.config.platformconfig.telemetry"); s != nil && (s.Type != setting.PlatformType || len(s.Labels) != 0) {
			t.Errorf("%+v", s)
		}
	}
	for _, sent := range w.sent {
		if !strings.HasPrefix(sent, "kapis:platform:configs ") {
			t.Errorf("written as %s", sent)
		}
	}
}

// S3, S25: a user who may write platform configurations reaches no other Secret by it, under any name, whatever the body says.
func TestNoOtherSecretIsAPlatformConfig(t *testing.T) {
	foreign := secretOf("io.kubesphere.config.platformconfig.keys", "Opaque", "password: canary")
	w := newWorld(t, foreign, secretOf("ks-apiserver-signing-keys", setting.PlatformType, "password: canary"),
		secretOf("oauthclient", "config.kubesphere.io/oauthclient", "secret: canary"))
	for _, name := range []string{"keys", "ks-apiserver-signing-keys", "oauthclient", "UPPER", "a.b", "..", "%2e%2e"} {
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
			if strings.Contains(name, "..") || strings.Contains(name, "%") {
				continue // request.Parse refuses the path
			}
			body := `{"metadata":{"name":"` + name + `"},"data":{"a":"b"}}`
			if method == "DELETE" {
				body = "" // of options only
			}
			if code, answer := w.call(method, "/platformconfigs/"+name, body); code != http.StatusNotFound || strings.Contains(answer, "canary") {
				t.Errorf("%s %s: %d %s", method, name, code, answer)
			}
		}
	}
	for claim, body := range map[string]string{
		"WrongKind":    strings.Replace(fmt.Sprintf(platformConfig, "a", "{}"), kindPlatform, "Secret", 1),
		"WrongVersion": strings.Replace(fmt.Sprintf(platformConfig, "a", "{}"), "v1alpha2", "v1", 1),
		"NoName":       fmt.Sprintf(platformConfig, "", "{}"), "NoLabel": fmt.Sprintf(platformConfig, "a.b", "{}"), "Path": fmt.Sprintf(platformConfig, "../a", "{}"),
		"DataIsText": fmt.Sprintf(platformConfig, "a", `"x"`), "DataIsAList": fmt.Sprintf(platformConfig, "a", `[]`), "Broken": "{", "List": "[]",
	} {
		if code, answer := w.call(http.MethodPost, "/platformconfigs", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", claim, code, answer)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		if code, answer := w.call(method, "/platformconfigs/a", `{"metadata":{"name":"b"},"data":{}}`); code != http.StatusBadRequest {
			t.Errorf("%s with another name: %d %s", method, code, answer)
		}
	}
	if len(w.sent) != 0 {
		t.Errorf("written: %q", w.sent)
	}
}

func TestAPatchTakesInWhatOthersWroteMeanwhile(t *testing.T) {
	w := newWorld(t, secretOf(setting.PlatformPrefix+"a", setting.PlatformType, "count: 1"))
	fails := 2
	w.fails = func(method, _ string) error {
		if fails--; method != http.MethodPatch || fails < 0 {
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "x", errors.New("changed"))
	}
	if code, body := w.call(http.MethodPatch, "/platformconfigs/a", `{"data":{"m":2}}`); code != http.StatusOK || !strings.Contains(body, `{"count":1,"m":2}`) ||
		len(w.sent) != 3 {
		t.Errorf("%d %s after %q", code, body, w.sent)
	}
	fails = 100
	if code, body := w.call(http.MethodPatch, "/platformconfigs/a", `{"data":{"m":2}}`); code != http.StatusConflict || len(w.sent) != 3+caller.Attempts {
		t.Errorf("%d %s after %q", code, body, w.sent)
	}
}

// A bare array, sorted, of Secrets of that very type.
func TestConnectionConfigsAreSecretsOfTheirTypeOnly(t *testing.T) {
	const typ = "config.kubesphere.io/cluster-connection-config"
	w := newWorld(t, secretOf("b", typ, "x: 1"), secretOf("a", typ, ""), secretOf("c", "Opaque", "x: canary"), secretOf("d", typ, "- canary"))
	code, body := w.call(http.MethodGet, "/clusterconnectionconfigurations", "")
	var out []configuration
	if err := json.Unmarshal([]byte(body), &out); err != nil || code != http.StatusOK || len(out) != 2 || out[0].Metadata.Name != "a" ||
		string(out[1].Data) != `{"x":1}` || out[1].Kind != kindConnection {
		t.Errorf("%d %s", code, body)
	}
	for name, want := range map[string]int{"b": 200, "c": 404, "d": 404, "none": 404} {
		if code, body := w.call(http.MethodGet, "/clusterconnectionconfigurations/"+name, ""); code != want || strings.Contains(body, "canary") {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if code, body := newWorld(t).call(http.MethodGet, "/clusterconnectionconfigurations", ""); code != http.StatusOK || body != "[]" {
		t.Errorf("%d %s", code, body)
	}
}
