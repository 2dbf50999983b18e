package iam_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// far are members, each of which answers by an error, or by what it removes.
type far struct {
	mu      sync.Mutex
	w       *world
	answers map[string]error // by the member; with " dry" for dry runs alone, " wet" for others
	asked   []string
	early   bool
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := request.InfoFrom(r.Context())
	line := info.Cluster + " " + r.Method + " " + info.Path
	at := " wet"
	if q := r.URL.Query()["dryRun"]; len(q) > 0 {
		at, line = " dry", line+" "+strings.Join(q, ",")
	}
	f.asked = append(f.asked, request.UserFrom(r.Context()).GetName()+" "+line)
	f.w.mu.Lock()
	f.early = f.early && len(f.w.sent) == 0
	f.w.mu.Unlock()
	rec := httptest.NewRecorder()
	for _, key := range []string{info.Cluster, info.Cluster + at} {
		if err := f.answers[key]; err != nil {
			web.WriteError(rec, r, err)
			return rec.Result(), nil
		}
	}
	web.WriteJSON(rec, r, http.StatusOK, removal.Removal{Removed: []removal.Removed{{Resource: "rolebindings", Namespace: "shop", Name: "eve-admin"}},
		Kept: []removal.Removed{{Resource: "workspacerolebindings", Name: "eve-demo-regular"}}})
	return rec.Result(), nil
}

// hubOf is estate on a hub, with demo in m1 and m2.
func hubOf(t *testing.T, answers map[string]error, change func(objects)) (*world, *far) {
	t.Helper()
	w := estate(t, func(o objects) {
		o.add("/apis/tenant.kubesphere.io/v1beta1/workspacetemplates", "", "demo", nil, map[string]any{"spec": map[string]any{"placement": map[string]any{
			"clusters": []map[string]string{{"name": "m1"}, {"name": "m2"}}}}})
		if change != nil {
			change(o)
		}
	})
	f := &far{w: w, answers: answers, early: true}
	w.h.Fleet = &removal.Fleet{AsCaller: caller.Client{May: w.h.Authorizer, Kube: f},
		Placed: func(_ context.Context, template string) ([]string, error) {
			var all struct {
				Spec struct {
					Placement struct{ Clusters []struct{ Name string } }
				}
			}
			err := json.Unmarshal([]byte(template), &all)
			var names []string
			for _, c := range all.Spec.Placement.Clusters {
				names = append(names, c.Name)
			}
			return names, err
		}}
	return w, f
}

// S67: a user who is removed from a workspace is removed from it in the members in which it is placed, as the caller, before the hub's own bindings go.
func TestS67WhoIsRemovedIsRemovedInTheFleet(t *testing.T) {
	const path = " DELETE /kapis/iam.kubesphere.io/v1beta1/workspaces/demo/workspacemembers/eve"
	w, f := hubOf(t, nil, nil)
	answer := w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	slices.Sort(f.asked[:2]) // at once
	slices.Sort(f.asked[2:])
	if want := []string{"boss m1" + path + " All", "boss m2" + path + " All", "boss m1" + path, "boss m2" + path}; !slices.Equal(f.asked, want) || !f.early {
		t.Errorf("asked %q, before anything was written: %v", f.asked, f.early)
	}
	var told removal.Removal
	if err := json.Unmarshal([]byte(answer), &told); err != nil || len(told.Removed) != 8 || told.Kept != nil ||
		told.Removed[0] != (removal.Removed{Cluster: "m1", Resource: "rolebindings", Namespace: "shop", Name: "eve-admin"}) ||
		told.Removed[1].Cluster != "m2" || told.Removed[2].Cluster != "" || told.Removed[7].Resource != "workspacerolebindings" {
		t.Errorf("answered %s: %v", answer, err)
	}
	t.Run("ADryRunIsOneThere", func(t *testing.T) {
		w, f := hubOf(t, nil, nil)
		answer := w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve?dryRun=All", "")
		if len(f.asked) != 2 || !strings.HasSuffix(f.asked[0], " All") || !strings.HasSuffix(f.asked[1], " All") || strings.Count(answer, `"cluster"`) != 2 {
			t.Errorf("asked %q, answered %s", f.asked, answer)
		}
	})
	t.Run("NotFromANamespace", func(t *testing.T) {
		w, f := hubOf(t, nil, nil)
		w.want(200, as("boss"), http.MethodDelete, "/namespaces/made/namespacemembers/eve", "")
		if f.asked != nil {
			t.Errorf("asked %q", f.asked)
		}
	})
	nothing := map[string]error{"m1": removal.NotMember("eve", "x"), "m2": apierrors.NewNotFound(schema.GroupResource{Group: "tenant.kubesphere.io",
		Resource: "workspaces"}, "demo")}
	t.Run("WhoHasNothingThere", func(t *testing.T) {
		w, _ := hubOf(t, nothing, nil)
		w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	})
	none := func(o objects) {
		for _, kind := range []string{"workspacerolebindings", "rolebindings", "groupbindings"} {
			delete(o, iamPath+kind)
		}
	}
	t.Run("WhoHasSomethingThereAlone", func(t *testing.T) {
		w, _ := hubOf(t, map[string]error{"m1": removal.NotMember("eve", "x")}, none)
		if answer := w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", ""); !strings.Contains(answer, `"cluster":"m2"`) {
			t.Error(answer)
		}
	})
	t.Run("WhoHasNothingAnywhere", func(t *testing.T) {
		w, _ := hubOf(t, nothing, none)
		w.want(400, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	})
}

// S67, F24: a member that does not answer keeps nobody in the workspace elsewhere. It is named, and the removal can be sent again.
func TestS67AMemberThatIsAwayKeepsNobodyElsewhere(t *testing.T) {
	for _, code := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		for _, when := range []string{"m2 dry", "m2 wet"} {
			w, f := hubOf(t, map[string]error{when: status.Errorf(code, "it is not reached")}, nil)
			answer := w.want(code, as("boss"), http.MethodDelete, inDemo+"/eve", "")
			if !strings.Contains(answer, "cluster m2") || !strings.Contains(answer, "removed once more") || len(w.changes()) != 6 ||
				!slices.ContainsFunc(f.asked, func(asked string) bool {
					return strings.HasPrefix(asked, "boss m1 DELETE ") && !strings.HasSuffix(asked, " All")
				}) {
				t.Errorf("%s, %d: %s; asked %q, wrote %q", when, code, answer, f.asked, w.changes())
			}
		}
	}
	w, f := hubOf(t, map[string]error{"m2 dry": status.Errorf(http.StatusServiceUnavailable, "it is not reached")}, nil)
	w.want(503, as("boss"), http.MethodDelete, inDemo+"/eve?dryRun=All", "")
	if slices.ContainsFunc(f.asked, func(asked string) bool { return !strings.HasSuffix(asked, " All") }) {
		t.Errorf("a dry run asked %q", f.asked)
	}
}

// S67: where a member refuses, its cluster is named, and the user stays a member until it is gone there.
func TestS67WhoIsNotRemovedInAMemberStaysAMember(t *testing.T) {
	no := func(path string) error { return apierrors.NewNotFound(schema.GroupResource{Resource: path}, "demo") }
	for name, c := range map[string]struct {
		answer error
		code   int
	}{
		"MayNot":            {status.Forbiddenf("no role there"), 403},
		"IsNotAskedThis":    {no("workspaces"), 404},
		"DoesNotUnderstand": {status.BadRequestf("what is this"), 400},
		"HasJustBoundThem":  {status.Errorf(http.StatusConflict, "try again"), 409},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := hubOf(t, map[string]error{"m2 dry": c.answer}, nil)
			answer := w.want(c.code, as("boss"), http.MethodDelete, inDemo+"/eve", "")
			if !strings.Contains(answer, "cluster m2") || !strings.Contains(answer, "nothing was written") || len(w.changes()) != 0 || len(f.asked) != 2 {
				t.Errorf("%s; asked %q, wrote %q", answer, f.asked, w.changes())
			}
			w, _ = hubOf(t, map[string]error{"m2 wet": c.answer}, nil)
			answer = w.want(c.code, as("boss"), http.MethodDelete, inDemo+"/eve", "")
			if !strings.Contains(answer, "cluster m2") || !strings.Contains(answer, "1 bindings were removed in other clusters") || len(w.changes()) != 0 {
				t.Errorf("%s; wrote %q", answer, w.changes())
			}
		})
	}
	t.Run("WhoMayNotHereAsksNobody", func(t *testing.T) {
		w, f := hubOf(t, nil, nil)
		w.forbidden["delete rolebindings eve-admin"] = true
		removesNothing(t, w, "rolebindings made/eve-admin")
		if f.asked != nil {
			t.Errorf("asked %q", f.asked)
		}
	})
	t.Run("WhoMayNotEnter", func(t *testing.T) {
		w, f := hubOf(t, nil, nil)
		w.h.Fleet.AsCaller.May = authz.Func(func(_ context.Context, _ user.Info, i *request.Info) (authz.Decision, error) {
			if i.Cluster == "m2" {
				return authz.Decision{}, nil
			}
			return authz.Allow("", ""), nil
		})
		removesNothing(t, w, "cluster m2")
		if len(f.asked) != 1 {
			t.Errorf("asked %q", f.asked)
		}
	})
}

// S67, F26: in a member the bindings that the hub keeps stay, since the hub writes them, and everything else goes.
func TestS67WhatTheHubKeepsInAMemberStays(t *testing.T) {
	kept := func(o objects) {
		for _, one := range o[iamPath+"workspacerolebindings"] {
			one.(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]string)["kapis.dev/fleet"] = "hub"
		}
		o.bind(&binding.Workspace, demo, "own", "demo-regular", "eve")
	}
	w := estate(t, kept)
	w.h.Member = true
	w.forbidden["delete workspacerolebindings eve-demo-regular"] = true
	answer := w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	got := kinds(w.changes())
	if slices.Contains(got, "DELETE workspacerolebindings/eve-demo-regular") || !slices.Contains(got, "DELETE workspacerolebindings/own") || len(got) != 6 {
		t.Errorf("sent %q", got)
	}
	var told removal.Removal
	if err := json.Unmarshal([]byte(answer), &told); err != nil || len(told.Removed) != 6 ||
		!slices.Equal(told.Kept, []removal.Removed{{Resource: "workspacerolebindings", Name: "eve-demo-regular"}}) {
		t.Errorf("answered %s: %v", answer, err)
	}
	t.Run("AlsoWhereThereIsNothingElse", func(t *testing.T) {
		w := estate(t, func(o objects) {
			kept(o)
			delete(o, iamPath+"rolebindings")
			delete(o, iamPath+"groupbindings")
			o[iamPath+"workspacerolebindings"] = o[iamPath+"workspacerolebindings"][:1]
		})
		w.h.Member = true
		if answer := w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", ""); !strings.Contains(answer, `"kept":[{`) || len(w.changes()) != 0 {
			t.Errorf("%s, sent %q", answer, w.changes())
		}
	})
	t.Run("NotWhereThereIsNoHub", func(t *testing.T) {
		w := estate(t, kept)
		w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
		if got := kinds(w.changes()); !slices.Contains(got, "DELETE workspacerolebindings/eve-demo-regular") {
			t.Errorf("sent %q", got)
		}
	})
}
