package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// forgedStamp is an approval that nobody gave.
const forgedStamp = "1111111111111111111111111111111111111111111111111111111111111111"

// storeGroups are the groups of the application store and of extensions.
var storeGroups = []string{"application.kubesphere.io", "kubesphere.io", "extensions.kubesphere.io"}

// storeFinalizers are what controllers add to objects that are new.
var storeFinalizers = map[string]string{
	"InstallPlan": "kubesphere.io/installplan-protection", "ApplicationRelease": "helmrelease.application.kubesphere.io",
}

// storeTargets are the kinds of the application store and of extensions. Nothing is served or installed of them as they are here.
func storeTargets() []target {
	const store, platform, extensions = "application.kubesphere.io/v2", "kubesphere.io/v1alpha1", "extensions.kubesphere.io/v1alpha1"
	idle := obj{"status": obj{"state": "Disabled"}}
	return []target{
		{store, "Application", "applications", false, obj{"spec": obj{"appType": "helm"}}},
		{store, "ApplicationVersion", "applicationversions", false, obj{"spec": obj{"versionName": "1.0.0", "appType": "helm"}}},
		{store, "ApplicationRelease", "applicationreleases", false, obj{"spec": obj{"appID": "none", "appVersionID": "none-1.0.0"}}},
		{store, "Category", "categories", false, obj{"spec": obj{"icon": "x"}}},
		{store, "Repo", "repos", false, obj{"spec": obj{"url": "https://none.example/charts"}}},
		{platform, "Category", "categories", false, nil},
		{platform, "Extension", "extensions", false, nil},
		{platform, "ExtensionVersion", "extensionversions", false, obj{"spec": obj{"version": "1.0.0"}}},
		{platform, "InstallPlan", "installplans", false, nil},
		{platform, "Repository", "repositories", false, obj{"spec": obj{"url": "https://none.example/charts"}}},
		{extensions, "APIService", "apiservices", false, idle},
		{extensions, "ExtensionEntry", "extensionentries", false, idle},
		{extensions, "JSBundle", "jsbundles", false, idle},
		{extensions, "ReverseProxy", "reverseproxies", false, idle},
	}
}

// storeSpec is the spec of an object that has to say its own name, or something that no other object has; nil for one that has not.
func storeSpec(kind, name string) obj {
	switch kind {
	case "InstallPlan":
		return obj{"extension": obj{"name": name, "version": "1.0.0"}, "enabled": true}
	case "APIService":
		return obj{"group": name + ".example.com", "version": "v1", "url": "https://none.example"}
	case "ReverseProxy":
		return obj{"matcher": obj{"path": "/proxy/" + name + "/*", "method": "*"}, "upstream": obj{"url": "https://none.example"}}
	case "JSBundle":
		return obj{"raw": encoded("0")}
	}
	return nil
}

// storeIsWritten has somebody write every body who may write all kinds of the store and of extensions, and nothing else: what is accepted is the object
// of its path, no approval and no author is forged, no other object changes, and no right comes of it. It returns how many bodies were written.
func (w *hostileWorld) storeIsWritten(t *testing.T, spots []spot) int {
	t.Helper()
	name := w.one + "-planner"
	planner := asker{withRole(t, name, obj{"rules": []rule{{storeGroups, []string{"*"}, []string{"*"}}}}), "planner", name}
	eventually(t, "kube-apiserver knows the planner", planner.accepts(http.StatusCreated, http.MethodPost, platformAPI+"/extensions?dryRun=All",
		obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Extension", "metadata": obj{"name": name}}))
	rights, before := w.rights(t, []asker{planner}), w.outsideStore(t)
	var all []attempt
	for i, s := range spots {
		if !isOfStore(s.target) {
			continue
		}
		for j, m := range w.mutations() {
			all = append(all, s.attempt(t, m, writes[(i+j)%len(writes)], fmt.Sprintf("%s-h%d-%d-planner", w.one, i, j)),
				s.attempt(t, m, writes[(i+j+3)%len(writes)], fmt.Sprintf("%s-h%d-%d-again", w.one, i, j)))
		}
	}
	verdicts, accepted := make([]string, len(all)), make([]bool, len(all))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(askers)
	for i, a := range all {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			r, err := planner.do(ctx, a.method, a.path, a.body, "Content-Type: "+a.contentType)
			accepted[i] = err == nil && r.code < http.StatusMultipleChoices
			verdicts[i] = storeVerdict(a, r, err)
			return nil
		})
	}
	_ = group.Wait() // errors are in the verdicts
	wrong, byKind := map[string]string{}, map[string]int{}
	for i, a := range all {
		if verdicts[i] != "" {
			wrong[a.method+" "+a.contentType+" "+a.api+" "+a.plural+" "+a.mutation] = verdicts[i] + ": " + a.path + " " + clip(a.body)
		}
		if accepted[i] {
			byKind[a.api+" "+a.kind]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("the planner: %s: %s", key, wrong[key])
	}
	for _, k := range storeTargets() { // what is refused for another reason says nothing
		if byKind[k.api+" "+k.kind] == 0 {
			t.Errorf("no body of a %s of %s is accepted of who may write it", k.kind, k.api)
		}
	}
	w.garbageIsCollected(t)
	for _, change := range w.changes(before, w.outsideStore(t)) {
		t.Errorf("the planner wrote something else: %s", change)
	}
	for right := range w.rights(t, []asker{planner}) {
		if !rights[right] {
			t.Errorf("a right came of it: %s", right)
		}
	}
	t.Logf("the planner wrote %d bodies; accepted: %v", len(all), byKind)
	return len(all)
}

// isOfStore tells the kinds of the store and of extensions.
func isOfStore(k target) bool {
	group, _, _ := strings.Cut(k.api, "/")
	return slices.Contains(storeGroups, group) && k.kind != "ServiceAccount"
}

// isAway reports whether the store answers that a repository is not there, which it looks at before it takes one.
func isAway(a attempt, r reply) bool {
	return a.kind == "Repo" && strings.HasPrefix(a.path, storeAPI) && (r.code == http.StatusBadGateway || r.code == http.StatusServiceUnavailable)
}

// storeVerdict says what is wrong with the answer to a write of an object of the store or of an extension.
func storeVerdict(a attempt, r reply, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case r.code >= http.StatusInternalServerError && !kubeBreaks.MatchString(r.body) && !isAway(a, r):
		return fmt.Sprintf("it breaks, %d %s", r.code, clip(r.body))
	case r.code >= http.StatusMultipleChoices:
		return ""
	}
	var o unstructured.Unstructured
	if err := json.Unmarshal([]byte(r.body), &o.Object); err != nil {
		return err.Error()
	}
	is := o.GetAnnotations()
	switch {
	case o.GetKind() == "" && strings.HasPrefix(a.path, storeAPI): // the store's own route answers with what it wrote in words of its own
		return ""
	case o.GetKind() != a.kind, !a.new && o.GetName() != a.name, o.GetNamespace() != "":
		return "it wrote another object: " + clip(r.body)
	case a.kind == "InstallPlan" && (is["kapis.dev/approved"] != "" || is["kapis.dev/approved-by"] != "" || is["kapis.dev/approved-placement"] != "" ||
		is["kapis.dev/approve"] != ""):
		return "an approval is forged: " + clip(r.body)
	case a.kind == "InstallPlan" && strings.Contains(r.body, `"targetNamespace"`):
		return "it says of somebody else's release that it is its own: " + clip(r.body)
	case a.kind == "ApplicationRelease" && a.new && is["application.kubesphere.io/req-user"] == "admin": // those that are there are the administrator's
		return "it is somebody else's release: " + clip(r.body)
	}
	return ""
}

// outsideStore are the digests of all objects but those of the store and of extensions.
func (w *hostileWorld) outsideStore(t *testing.T) map[string][sha256.Size]byte {
	t.Helper()
	out := w.outside(t, tenant{workspace: "none"})
	for key := range out {
		kind, _, _ := strings.Cut(key, " ")
		for _, group := range storeGroups {
			if _, version, ok := strings.Cut(kind, "."+group+"/"); ok && !strings.Contains(version, ".") && !strings.HasPrefix(kind, "serviceaccounts.") {
				delete(out, key)
			}
		}
	}
	return out
}
