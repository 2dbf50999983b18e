package redaction_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

const notShown = "(an object that is not redacted)"

func gr(group, resource string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: resource}
}

// S64: an unredacted object can't be formatted or encoded, by itself or within any value.
func TestWhatIsNotRedactedHasNoText(t *testing.T) {
	type holder struct {
		R redaction.Raw
		B redaction.Bytes
	}
	h := holder{redaction.Received(`{"a":"canary"}`), redaction.Bytes(`{"a":"canary"}`)}
	for _, v := range []any{h, &h, h.R, h.B, []any{h.R, h.B}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if out := fmt.Sprintf(verb, v); strings.Contains(out, "canary") || strings.Contains(out, "63616e617279") {
				t.Errorf("%s of %T is %s", verb, v, out)
			}
		}
		if out, err := json.Marshal(v); err == nil {
			t.Errorf("%T is encoded as %s", v, out)
		}
	}
	if h.R.String()+h.R.GoString()+h.B.String()+h.B.GoString() != strings.Repeat(notShown, 4) {
		t.Error("it has a text")
	}
}

// S64: an object, and each item of a list, is shown without its hidden fields; a kind without hidden fields is shown as it is.
func TestObjectsAndListsAreShownWithoutHiddenFields(t *testing.T) {
	users := gr("iam.kubesphere.io", "users")
	for text, want := range map[string]string{
		`{"spec":{"password":"canary","email":"e"}}`:                                              `{"spec":{"email":"e"}}`,
		`{"items":[{"spec":{"password":"canary"}},{"spec":{"password":"canary"}}],"metadata":{}}`: `{"items":[{"spec":{}},{"spec":{}}],"metadata":{}}`,
		`{"items":[],"spec":{"password":"canary"}}`:                                               `{"items":[],"spec":{}}`,
		`{"items":7,"spec":{"password":"canary"}}`:                                                `{"items":7,"spec":{}}`,
	} {
		if got, err := redaction.Received(text).Shown(users); err != nil || got.String() != want {
			t.Errorf("%s is shown as %s, %v", text, got, err)
		}
		if got, err := redaction.Received(text).Shown(gr("", "pods")); err != nil || got.String() != text {
			t.Errorf("%s is shown as %s, %v", text, got, err)
		}
	}
	for _, broken := range []string{"", "[]", `{"spec":`, `{"items":[{"spec":{"password":"canary"}`, `{"items":["canary"]}`} {
		if got, err := redaction.Received(broken).Shown(users); err == nil {
			t.Errorf("%s is shown as %s", broken, got)
		} else if strings.Contains(err.Error(), "canary") {
			t.Error(err)
		}
	}
	shown, err := redaction.Received(`{"a":1,"data":{"x":2}}`).Shown(gr("", "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	if less, err := shown.Without(rawjson.Cut{"data": nil}); err != nil || less.String() != `{"a":1}` {
		t.Errorf("%s, %v", less, err)
	}
	if other := shown.Replace(5, 6, "7"); other.String() != `{"a":7,"data":{"x":2}}` || other.Len() != len(other.String()) {
		t.Error(other)
	}
	if out, err := json.Marshal(map[string]any{"o": shown}); err != nil || string(out) != `{"o":{"a":1,"data":{"x":2}}}` {
		t.Errorf("%s, %v", out, err)
	}
}

// S64: the code that reads an object with its hidden fields, or has kube-apiserver's answer before it is a Response or a Raw, is listed here, with the
// reason. A reviewer checks each new entry.
func TestWhatReadsUnredactedObjectsIsListed(t *testing.T) {
	for call, reasons := range map[string]map[string]string{
		".Unredacted()": {
			"pkg/store/index/decoder.go":                             "tells those that follow a kind",
			"pkg/kapis/iam/user/update.go":                           "compares a user with what he becomes",
			"pkg/kapis/dynamic/escalation_check.go":                  "compares an object with what it becomes",
			"pkg/kapis/dynamic/read_before_write.go":                 "compares an object with what it was",
			"pkg/kapis/dynamic/redacted_field_restore.go":            "keeps hidden fields where an object is written back",
			"pkg/kapis/config/platform_configs.go":                   "reads the Secret that a configuration is kept in",
			"pkg/kapis/config/settings.go":                           "reads the ConfigMap that a setting is kept in",
			"pkg/kapis/static/static.go":                             "reads the ConfigMap that an image is kept in",
			"pkg/kapis/resources/remote/registry_git_routes.go":      "logs in to a registry with a Secret of the caller",
			"pkg/kapis/resources/kubeconfig/certificate_secret.go":   "answers the kubeconfig that a Secret of the caller holds",
			"pkg/kapis/resources/kubeconfig/serviceaccount_token.go": "reads the token that it answers to the user whose it is",
		},
		".RoundTripHere(": {
			"pkg/cluster/exchange/ask_member.go": "tells a member what is to be there, and gets its states, and no object",
			"pkg/cluster/peer/server.go":         "is the way to a member for another replica, and the member redacts what it answers",
		},
		".RoundTrip(": {
			"pkg/caller/kube_client.go":                "makes a Raw of it",
			"pkg/cluster/peer/client.go":               "is the way to a member over another replica, and the member redacts what it answers",
			"pkg/helm/child/dry_run_transport.go":      "is the way of a preview, which shows fields and no values",
			"pkg/helm/lookup/denied_lookups.go":        "is the way of an installer, whose own rights decide what a chart reads",
			"pkg/helm/lookup/hide_read_secrets.go":     "is that way, too, and remembers what is not to be in a message",
			"pkg/cluster/link/hub_end.go":              "is the way to a member, which redacts what it answers",
			"pkg/cluster/link/whole_frame_writes.go":   "opens that way",
			"pkg/proxy/member.go":                      "passes on what a member has redacted",
			"pkg/proxy/member_read.go":                 "reads what a member has redacted",
			"pkg/cluster/revalidate/hub.go":            "is told that answers have not changed, and no objects",
			"pkg/cluster/direct/shared_secret_link.go": "asks a member for its release alone",
			"pkg/cluster/direct/bounded_transport.go":  "bounds what a member answers to this server itself, and passes it to who asked",
			"pkg/kapis/dynamic/send.go":                "makes a Response of it",
			"pkg/kapis/operations/job_client.go":       "asks for Jobs, of which nothing is hidden",
			"pkg/kapis/gateway/pods_and_logs.go":       "answers the log of a pod, which is no object",
			"pkg/proxy/exec_spdy.go":                   "upgrades to a command's streams, and reads at most a Status",
			"pkg/proxy/internal_request.go":            "is the way itself",
			"pkg/web/drop_informational_answers.go":    "is the way of each proxy, which redacts what it passes on",
			"pkg/proxy/redacted_watch_socket.go":       "redacts the watch that it opens",
			"pkg/registry/bounded_transport.go":        "asks registries",

			"pkg/extension/backend_transport.go":          "asks backends of extensions, which have no object of ours",
			"pkg/extension/bundle_file_serving.go":        "reads a file of a bundle",
			"pkg/chart/source/client.go":                  "reads charts and indexes of chart repositories",
			"pkg/chart/source/registry.go":                "reads charts of container registries",
			"pkg/apiserver/backends/openapi_documents.go": "reads the OpenAPI documents of backends",
			"pkg/proxy/backend/extension_proxy.go":        "passes on what a backend answers",
			"pkg/controller/extension/backend_probe.go":   "asks whether a backend answers",
		},
	} {
		found := callers(t, call)
		for _, name := range found {
			if reasons[name] == "" {
				t.Errorf("%s calls %s: show what redaction leaves of objects, or give the reason here", name, call)
			}
		}
		for name := range reasons {
			if !slices.Contains(found, name) {
				t.Errorf("%s is listed, and does not call %s", name, call)
			}
		}
	}
}

// callers returns the files of the product that contain a text.
func callers(t *testing.T, text string) (found []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		content, err := os.ReadFile(path)
		if err == nil && !strings.HasPrefix(name, "pkg/redaction/") && !strings.HasPrefix(name, "pkg/api/") && strings.Contains(string(content), text) {
			found = append(found, name)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is in %v, %v", text, found, err)
	}
	return found
}
