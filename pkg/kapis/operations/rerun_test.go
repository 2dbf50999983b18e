package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func typesUID(n int) types.UID { return types.UID(fmt.Sprintf("uid-%d", n)) }

func allow(context.Context, user.Info, *request.Info) (authz.Decision, error) {
	return authz.Allow("", ""), nil
}

const finished = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","creationTimestamp":"2026-01-01T00:00:00Z","generation":3,
	"managedFields":[{"manager":"x"}],"labels":{"app":"x","controller-uid":"u","job-name":"job","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"job"},
	"annotations":{"revisions":"{\"1\":{\"status\":\"complete\"},\"2\":{\"status\":\"running\"}}","a":"running"},
	"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"c","uid":"uc","controller":true}]},
	"spec":{"parallelism":3,"backoffLimit":6,"suspend":false,"selector":{"matchLabels":{"controller-uid":"u"}},"newField":{"n":9007199254740993},
	"template":{"metadata":{"labels":{"app":"x","controller-uid":"u","job-name":"job","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"job"}},
	"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"succeeded":3}}`

// anew is what a rerun makes of finished.
const anew = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","namespace":"a","labels":{"app":"x"},
	"annotations":{"revisions":"{\"1\":{\"status\":\"complete\"},\"2\":{\"status\":\"unfinished\"}}","a":"running"},
	"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"c","uid":"uc","controller":true}]},
	"spec":{"parallelism":3,"backoffLimit":6,"suspend":false,"newField":{"n":9007199254740993},
	"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTheManifestIsWhatWasWanted(t *testing.T) {
	job := parse(t, finished)
	job.SetNamespace("a")
	before := job.DeepCopy()
	if m := manifest(job); !reflect.DeepEqual(m, parse(t, anew)) {
		raw, _ := json.Marshal(m.Object)
		t.Errorf("got %s", raw)
	}
	if !reflect.DeepEqual(job, before) {
		t.Error("the Job was changed")
	}
	t.Run("AManualSelectorStays", func(t *testing.T) {
		const text = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","namespace":"a","labels":{"job-name":"mine"}},
			"spec":{"manualSelector":true,"selector":{"matchLabels":{"job-name":"mine"}},"template":{"metadata":{"labels":{"job-name":"mine"}}}}}`
		if m := manifest(parse(t, text)); !reflect.DeepEqual(m, parse(t, text)) {
			t.Errorf("got %v", m.Object)
		}
	})
	t.Run("WithoutAnnotationsThereAreNone", func(t *testing.T) {
		m := manifest(parse(t, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","namespace":"a"},"spec":{}}`))
		if m.GetAnnotations() != nil {
			t.Errorf("got %v", m.Object)
		}
	})
}

func TestAParkedJobRunsNothingAndKeepsTheManifest(t *testing.T) {
	m := parse(t, anew)
	if err := unstructured.SetNestedField(m.Object, true, "spec", "manualSelector"); err != nil {
		t.Fatal(err)
	}
	p, err := parked(m)
	if err != nil {
		t.Fatal(err)
	}
	spec := p.Object["spec"].(map[string]any)
	if spec["suspend"] != true || spec["manualSelector"] != nil || p.GetOwnerReferences() != nil || p.GetLabels() != nil {
		t.Errorf("parked as %v", p.Object)
	}
	if back, err := unparked(p, "job"); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("came back as %v, %v", back, err)
	}
	for claim, change := range map[string]func(u *unstructured.Unstructured){
		"OfAnotherJob": func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{rerunOfAnnotation: "other"}) },
		"OfNoJob":      func(u *unstructured.Unstructured) { u.SetAnnotations(nil) },
		"Broken": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{rerunOfAnnotation: "job", manifestAnnotation: "{"})
		},
		"AnotherNamespace": func(u *unstructured.Unstructured) { u.SetNamespace("b") },
		"AnotherKind": func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{rerunOfAnnotation: "job",
				manifestAnnotation: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"job","namespace":"a"}}`})
		},
	} {
		c := p.DeepCopy()
		change(c)
		if _, err := unparked(c, "job"); err == nil {
			t.Errorf("%s is taken", claim)
		}
	}
	for _, name := range []string{"a", strings.Repeat("x", 63), strings.Repeat("x.", 31) + "y", strings.Repeat("x", 39) + "-" + strings.Repeat("y", 20)} {
		got := parkedName(name)
		if len(got) > 55 || got == parkedName(name+"z") || strings.Contains(got, "--") || strings.Contains(got, ".-") {
			t.Errorf("%s is parked as %s", name, got)
		}
	}
}

func TestRerun(t *testing.T) {
	c := newCluster(t)
	old := c.put(finished)
	rec := c.rerun(nil, "action=rerun&resourceVersion="+old.GetResourceVersion())
	if rec.Code != 200 || rec.Body.String() != `{"message":"success"}` {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	now := c.jobs["job"]
	if now == nil || now.GetUID() == old.GetUID() || len(c.jobs) != 1 {
		t.Fatalf("there are %v", c.names())
	}
	want := parse(t, anew)
	want.SetUID(now.GetUID())
	want.SetResourceVersion(now.GetResourceVersion())
	if !reflect.DeepEqual(now, want) {
		t.Errorf("created %v", now.Object)
	}
	if got, want := strings.Join(c.log, ", "), "GET job, DELETE job (dry), POST job (dry), POST parked, DELETE job, POST job, DELETE parked"; got != want {
		t.Errorf("the order was %s", got)
	}
}

// S22: a dry run changes nothing.
func TestADryRunRerunsNothing(t *testing.T) {
	for _, dry := range []string{"dryRun=All", "dryrun=All", "dryRun="} {
		c := newCluster(t)
		old := c.put(finished)
		if rec := c.rerun(nil, "action=rerun&"+dry); rec.Code != 400 || c.jobs["job"].GetUID() != old.GetUID() || len(c.log) > 0 {
			t.Errorf("%s: %d %s, after %q", dry, rec.Code, rec.Body, c.log)
		}
	}
}

func TestWhatCannotBeRerunStays(t *testing.T) {
	for _, r := range []struct {
		name, query string
		job         string
		may         authz.Func
		fail        string
		code        int
		has         string
	}{
		{"UnknownAction", "action=stop", finished, nil, "", 400, "rerun"},
		{"NoAction", "", finished, nil, "", 400, "rerun"},
		{"AnotherVersion", "action=rerun&resourceVersion=99", finished, nil, "", 409, "resourceVersion is 1"},
		{"Missing", "action=rerun", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"other"},"spec":{}}`, nil, "", 404, "not found"},
		{"BeingDeleted", "action=rerun", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`, nil,
			"", 409, "being deleted"},
		{"Finalizers", "action=rerun", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job","finalizers":["x/y"]},"spec":{}}`, nil, "", 409, "x/y"},
		{"MayNotRead", "action=rerun", finished, refuse("get"), "", 403, "cannot get"},
		{"MayNotDelete", "action=rerun", finished, refuse("delete"), "", 403, "cannot delete"},
		{"MayNotCreate", "action=rerun", finished, refuse("create"), "", 403, "cannot create"},
		{"DeletionWouldBeRefused", "action=rerun", finished, nil, "DELETE job (dry)", 403, "refused"},
		{"CreationWouldBeRefused", "action=rerun", finished, nil, "POST job (dry)", 403, "refused"},
		{"ParkingIsRefused", "action=rerun", finished, nil, "POST parked", 403, "refused"},
		{"DeletionIsRefused", "action=rerun", finished, nil, "DELETE job", 403, "refused"},
		{"DeletionIsTooLate", "action=rerun", finished, nil, "DELETE job", 409, "refused"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := newCluster(t)
			was := c.put(r.job)
			c.fail = func(what string) int { return map[bool]int{true: r.code}[what == r.fail] }
			rec := c.rerun(r.may, r.query)
			if rec.Code != r.code || !strings.Contains(rec.Body.String(), r.has) || !strings.Contains(rec.Body.String(), `"kind":"Status"`) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if len(c.jobs) != 1 || c.jobs[was.GetName()] != was {
				t.Errorf("there are %v", c.names())
			}
		})
	}
}

// refuse refuses one verb on Jobs.
func refuse(verb string) authz.Func {
	return func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if r.Verb == verb && r.APIGroup == "batch" && r.Resource == "jobs" {
			return authz.Decision{}, nil
		}
		return authz.Allow("", ""), nil
	}
}

func TestTheJobIsNeverLost(t *testing.T) {
	// If any request fails, in any way, and permanently: the Job exists or it is parked, and once the fault is over the same request
	// completes the rerun.
	steps := []string{"GET job", "DELETE job (dry)", "POST job (dry)", "POST parked", "DELETE job", "POST job", "DELETE parked"}
	for _, broken := range steps {
		for _, code := range []int{403, 409, 422, 429, 500, 503} {
			t.Run(fmt.Sprintf("%s/%d", broken, code), func(t *testing.T) {
				c := newCluster(t)
				c.put(finished)
				trouble := false
				c.fail = func(what string) int {
					trouble = trouble || what == broken
					return map[bool]int{true: code}[trouble]
				}
				if rec := c.rerun(nil, "action=rerun"); rec.Code == 200 != (broken == "DELETE parked") {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
				if names := c.names(); !names["job"] && !names["parked"] {
					t.Fatalf("there are %v", names)
				}
				c.fail = nil
				if rec := c.rerun(nil, "action=rerun"); rec.Code != 200 {
					t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
				}
				if names := c.names(); len(names) != 1 || !names["job"] || c.jobs["job"].GetLabels()["app"] != "x" {
					t.Errorf("afterwards, there are %v", names)
				}
			})
		}
		t.Run(broken+"/AnswerLost", func(t *testing.T) {
			c := newCluster(t)
			c.put(finished)
			once := true
			c.lost = func(what string) bool {
				lose := once && what == broken
				once = once && !lose
				return lose
			}
			_ = c.rerun(nil, "action=rerun")
			if names := c.names(); !names["job"] && !names["parked"] {
				t.Fatalf("there are %v", names)
			}
			if rec := c.rerun(nil, "action=rerun"); rec.Code != 200 || len(c.jobs) != 1 || c.jobs["job"] == nil {
				t.Errorf("afterwards: %d %s, %v", rec.Code, rec.Body, c.names())
			}
		})
	}
}

func TestAnErrorSaysWhereTheJobIs(t *testing.T) {
	c := newCluster(t)
	c.put(finished)
	c.fail = func(what string) int { return map[bool]int{true: 422}[what == "POST job"] }
	rec := c.rerun(nil, "action=rerun")
	if rec.Code != 422 || !strings.Contains(rec.Body.String(), parkedName("job")) || !strings.Contains(rec.Body.String(), "refused by the test") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestCreationIsTriedAgainWhileThatMayHelp(t *testing.T) {
	for _, code := range []int{503, 429, 500} {
		c := newCluster(t)
		c.put(finished)
		n := 0
		c.fail = func(what string) int {
			if what == "POST job" {
				n++
				return map[bool]int{true: code}[n < 4]
			}
			return 0
		}
		if rec := c.rerun(nil, "action=rerun"); rec.Code != 200 || n != 4 || len(c.jobs) != 1 {
			t.Errorf("%d: %d %s after %d", code, rec.Code, rec.Body, n)
		}
	}
}

func TestAnotherJobOfTheNameStays(t *testing.T) {
	c := newCluster(t)
	c.put(finished)
	var other *unstructured.Unstructured
	c.fail = func(what string) int {
		if what == "POST job" && other == nil {
			other = c.put(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job"},"spec":{}}`)
		}
		return 0
	}
	rec := c.rerun(nil, "action=rerun")
	if rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "meanwhile") || c.jobs["job"] != other || !c.names()["parked"] {
		t.Errorf("%d %s, %v", rec.Code, rec.Body, c.names())
	}
}

func TestWhatAnEarlierRerunLeftIsNoHindrance(t *testing.T) {
	stale := func(of string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"` + parkedName(
			"job",
		) + `","annotations":{"` + rerunOfAnnotation + `":"` + of + `","` + manifestAnnotation + `":"{}"}},"spec":{}}`
	}
	c := newCluster(t)
	c.put(finished)
	c.put(stale("job"))
	if rec := c.rerun(nil, "action=rerun"); rec.Code != 200 || len(c.jobs) != 1 {
		t.Errorf("%d %s, %v", rec.Code, rec.Body, c.names())
	}
	c = newCluster(t)
	c.put(finished)
	c.put(stale("other"))
	if rec := c.rerun(nil, "action=rerun"); rec.Code != 409 || len(c.jobs) != 2 || !strings.Contains(rec.Body.String(), parkedName("job")) {
		t.Errorf("one that is no parked Job: %d %s, %v", rec.Code, rec.Body, c.names())
	}
}

func TestOtherPathsAreNotThere(t *testing.T) {
	c := newCluster(t)
	c.put(finished)
	h := &V1alpha2{Kube: c, Authorizer: authz.Func(allow)}
	if got := h.WebService().RootPath(); got != "/kapis/operations.kubesphere.io/v1alpha2" {
		t.Errorf("the root is %s", got)
	}
}
