package record_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// Records are Secrets of a namespace, which its members may write: whatever two of them say is refused, or read without a fault; and those with one digest do
// the same to a cluster.
func FuzzRecords(f *testing.F) {
	const one = `{"name":"r","namespace":"n","version":1,"info":{"status":"deployed"},"manifest":"a: b\n",` +
		`"hooks":[{"name":"h","kind":"Job","manifest":"x","events":["pre-delete"]}],"chart":{"metadata":{"name":"c","version":"1.0.0"}}}`
	for _, seed := range []string{
		one, "{}", "null", `{"name":"r","namespace":"n","version":2,"info":{"status":"failed"},"hooks":[null]}`,
		`{"name":"r","namespace":"other","version":-1,"info":{"status":"pending-upgrade"},"chart":{"metadata":null,"files":[null]}}`,
		`{"name":"r","namespace":"n","version":2,"info":{"status":"uninstalling","description":"Operation x"},"config":{"a":{"b":[1]}}}`,
	} {
		f.Add(seed, one)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		memory := driver.NewMemory()
		memory.SetNamespace("n")
		pinned := &record.Pinned{Driver: memory, Release: "r", Namespace: "n"}
		var read []*release.Release
		for _, text := range []string{first, second} {
			r := &release.Release{}
			if json.Unmarshal([]byte(text), r) != nil {
				return
			}
			if r.Info == nil {
				r.Info = &release.Info{Status: rcommon.StatusUnknown}
			}
			if record.Fit(r) != nil {
				return
			}
			read = append(read, r)
		}
		a, b := read[0], read[1]
		if same := record.Digest(a) == record.Digest(b); same && (a.Version != b.Version || a.Manifest != b.Manifest || len(steps(a)) != len(steps(b)) ||
			!reflect.DeepEqual(steps(a), steps(b))) {
			t.Errorf("%q and %q have one digest", first, second)
		}
		for _, r := range read {
			if r.Name != "" && r.Version > 0 {
				_ = record.Bounded{Driver: memory}.Create(fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, r.Name, r.Version), r)
			}
		}
		s := storage.Init(pinned)
		all, err := record.History(s, "r")
		if err != nil || len(all) == 0 {
			return
		}
		if v := record.View(all); v.Name != "r" || v.Namespace != "n" || v.RecordDigest != record.Digest(all[len(all)-1]) {
			t.Errorf("%q and %q are read as %+v", first, second, v)
		}
		_ = record.LastDeployed(all, all[0].Version+1)
		if err := record.EndPending(s, all); err == nil {
			if again, err := record.History(s, "r"); err != nil || len(again) != len(all) {
				t.Errorf("%d records are %d: %v", len(all), len(again), err)
			}
		}
	})
}

// steps are the hooks of a record, without what became of them.
func steps(r *release.Release) []release.Hook {
	var out []release.Hook
	for _, h := range r.Hooks {
		if h != nil {
			static := *h
			static.LastRun = release.HookExecution{}
			out = append(out, static)
		}
	}
	return out
}
