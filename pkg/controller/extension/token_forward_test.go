package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	controller "kapis.dev/ks-apiserver/pkg/controller/extension"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// written sends a write through both webhooks, as kube-apiserver does, and returns the object that would be stored.
func written(t *testing.T, v *controller.Validator, by, resource string, o, old obj) (obj, webhook.Response) {
	t.Helper()
	req := request(t, resource, o, nil)
	if old != nil {
		req = request(t, resource, o, old)
	}
	req.UserInfo.Username = by
	out := controller.Defaulter{}.Handle(t.Context(), req)
	if !out.Allowed {
		return nil, out
	}
	patch, err := json.Marshal(out.Patches)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Patches) > 0 {
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if req.Object.Raw, err = p.Apply(req.Object.Raw); err != nil {
			t.Fatal(err)
		}
	}
	var stored obj
	if err := json.Unmarshal(req.Object.Raw, &stored); err != nil {
		t.Fatal(err)
	}
	return stored, v.Handle(t.Context(), req)
}

// impersonators has root alone impersonate users.
func impersonators(_ context.Context, u authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if u.Username == "away" {
		return false, errors.New("kube-apiserver is away")
	}
	return u.Username == "root" && what.Verb == "impersonate" && what.Group == "" && what.Resource == "users" && what.Name == "", nil
}

const asks, note = v1alpha1.AnnotationForward, v1alpha1.AnnotationApprovedForward

// shops are an object of each kind that may ask for access tokens, with annotations.
func shops(annotations obj, address obj) map[string]obj {
	api := obj{"group": "shop.example.com", "version": "v1"}
	maps.Copy(api, address)
	meta := func() obj { return obj{"name": "shop", "annotations": maps.Clone(annotations)} }
	return map[string]obj{
		"apiservices":    {"metadata": meta(), "spec": api, "status": obj{"state": "Available"}},
		"reverseproxies": {"metadata": meta(), "spec": obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": address}, "status": obj{"state": "Available"}},
	}
}

func noteOf(o obj) string {
	annotations, _ := o["metadata"].(obj)["annotations"].(obj)
	text, _ := annotations[note].(string)
	return text
}

// digest is what the note of an object has to be.
func digest(t *testing.T, resource string, o obj) string {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var typed metav1.Object = &v1alpha1.ReverseProxy{}
	if resource == "apiservices" {
		typed = &v1alpha1.APIService{}
	}
	if err := json.Unmarshal(raw, typed); err != nil {
		t.Fatal(err)
	}
	return extension.ForwardDigest(typed)
}

var (
	https   = obj{"url": "https://shop.example.com"}
	another = obj{"url": "https://evil.example.com"}
)

// X5: who may not impersonate users has no backend get access tokens, neither by a new object nor by a change, and nobody has them sent where the
// certificate is not verified.
func TestX5OnlyWhoMayImpersonateUsersHasAccessTokensForwarded(t *testing.T) {
	v := &controller.Validator{Live: newClient(t), May: impersonators}
	for name, c := range map[string]struct {
		by          string
		annotations obj
		address     obj
		want        string // in the refusal; "" where it is allowed
		noted       bool
	}{
		"Nobody":           {"ann", obj{asks: "true"}, https, "may not impersonate users", false},
		"WhoMay":           {"root", obj{asks: "true"}, https, "", true},
		"WithACA":          {"root", obj{asks: "true"}, obj{"service": obj{"namespace": "shop", "name": "web"}}, "", true},
		"KubeIsAway":       {"away", obj{asks: "true"}, https, "away", false},
		"ByHTTP":           {"root", obj{asks: "true"}, obj{"url": "http://shop.example.com"}, "https", false},
		"AServiceByHTTP":   {"root", obj{asks: "true"}, obj{"service": obj{"namespace": "shop", "name": "web", "port": 80}}, "https", false},
		"NotVerified":      {"root", obj{asks: "true"}, obj{"url": "https://shop.example.com", "insecureSkipVerify": true}, "https", false},
		"NotAsked":         {"ann", nil, https, "", false},
		"Declined":         {"ann", obj{asks: "false"}, https, "", false},
		"AnotherWord":      {"root", obj{asks: "yes"}, https, "neither", false},
		"InOtherLetters":   {"ann", obj{"KAPIS.DEV/Forward-Authorization": "true"}, https, "", false},
		"AForgedNote":      {"ann", obj{note: "forged"}, https, "", false},
		"AForgedNoteAsked": {"ann", obj{asks: "true", note: "forged"}, https, "may not impersonate users", false},
	} {
		t.Run(name, func(t *testing.T) {
			for resource, o := range shops(c.annotations, c.address) {
				stored, out := written(t, v, c.by, resource, o, nil)
				switch {
				case out.Allowed != (c.want == ""), c.want != "" && !strings.Contains(out.Result.Message, c.want):
					t.Errorf("%s: %v %v", resource, out.Allowed, out.Result)
				case !out.Allowed:
				case c.noted && noteOf(stored) != digest(t, resource, stored), !c.noted && noteOf(stored) != "":
					t.Errorf("%s: the note is %q", resource, noteOf(stored))
				case c.noted != strings.Contains(strings.Join(out.Warnings, " "), asks):
					t.Errorf("%s: it is said %q", resource, out.Warnings)
				}
			}
		})
	}
}

// X5: what was stored before the webhook judged it gets no note by an update of something else; what was approved keeps its note while nothing of it changes,
// and no writer's own note counts, in whatever letters.
func TestX5ANoteIsOfAnApprovalAlone(t *testing.T) {
	v := &controller.Validator{Live: newClient(t), May: impersonators}
	for resource := range shops(nil, https) {
		good := digest(t, resource, shops(nil, https)[resource])
		of := func(annotations, address obj) obj { return shops(annotations, address)[resource] }
		for name, c := range map[string]struct {
			by       string
			old, now obj
			refused  bool
			want     string
		}{
			"OnlyItsState":         {"ann", of(obj{asks: "true", note: good}, https), of(obj{asks: "true", note: good, "a": "b"}, https), false, good},
			"WithoutItsNote":       {"ann", of(obj{asks: "true", note: good}, https), of(obj{asks: "true"}, https), false, good},
			"AnotherNote":          {"ann", of(obj{asks: "true", note: good}, https), of(obj{asks: "true", note: "forged"}, https), false, good},
			"BeforeTheWebhook":     {"ann", of(obj{asks: "true"}, https), of(obj{asks: "true", "a": "b"}, https), false, ""},
			"AForgedNoteLater":     {"ann", of(obj{asks: "true"}, https), of(obj{asks: "true", note: good}, https), false, ""},
			"AnotherAddress":       {"ann", of(obj{asks: "true", note: good}, https), of(obj{asks: "true", note: good}, another), true, ""},
			"AnotherAddressByRoot": {"root", of(obj{asks: "true", note: good}, https), of(obj{asks: "true"}, another), false, "new"},
			"AskedLater":           {"ann", of(nil, https), of(obj{asks: "true", note: good}, https), true, ""},
			"AskedLaterByRoot":     {"root", of(nil, https), of(obj{asks: "true"}, https), false, good},
			"NoLongerAsked":        {"ann", of(obj{asks: "true", note: good}, https), of(obj{note: good}, https), false, ""},
			"FromOtherLetters":     {"ann", of(obj{"KAPIS.DEV/forward-authorization": "true"}, https), of(obj{asks: "true"}, https), true, ""},
			"FromANoteInOtherOnes": {"ann", of(obj{asks: "true", "KAPIS.DEV/approved-forward-authorization": good}, https), of(obj{asks: "true"}, https), false, ""},
			"ToANoteInOtherOnes":   {"ann", of(obj{asks: "true"}, https), of(obj{asks: "true", "KAPIS.DEV/approved-forward-authorization": good}, https), false, ""},
			"BothInOtherOnesBefore": {"ann", of(obj{"KAPIS.DEV/forward-authorization": "true", "KAPIS.DEV/approved-forward-authorization": good}, https),
				of(obj{asks: "true"}, https), true, ""},
		} {
			t.Run(resource+"/"+name, func(t *testing.T) {
				stored, out := written(t, v, c.by, resource, c.now, c.old)
				if c.want == "new" {
					c.want = digest(t, resource, c.now)
				}
				if out.Allowed == c.refused || out.Allowed && noteOf(stored) != c.want {
					t.Errorf("%v %v, the note is %q, want %q", out.Allowed, out.Result, noteOf(stored), c.want)
				}
			})
		}
	}
}

// X5, X42: a note that did not come from the first webhook, as if that were away or another one had changed the object after it, is refused by the second.
func TestX5TheValidatorJudgesANoteItself(t *testing.T) {
	v := &controller.Validator{Live: newClient(t), May: impersonators}
	for resource, o := range shops(obj{asks: "true", note: "of another object"}, https) {
		for by, want := range map[string]string{"ann": "may not impersonate", "root": "another one than was looked at"} {
			for _, old := range []any{nil, shops(obj{asks: "true"}, https)[resource]} {
				req := request(t, resource, o, old)
				req.UserInfo.Username = by
				if out := v.Handle(t.Context(), req); out.Allowed || !strings.Contains(out.Result.Message, want) {
					t.Errorf("%s by %s: %v %v", resource, by, out.Allowed, out.Result)
				}
			}
		}
	}
}
