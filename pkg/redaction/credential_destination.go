package redaction

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sent is a kind with a credential that is sent to an address.
type sent struct {
	// credential names the fields that must not be sent to another address than they were written for; open names the fields within them
	// that are not secret.
	credential, open rawjson.Cut
	// harmless names the fields that do not affect where or how the credential is sent. Any other field counts as an address, even one that
	// is not known yet.
	harmless rawjson.Cut
	// sleeps reports whether the credential of an object is sent nowhere; nil where that can't be.
	sleeps func(object map[string]any) bool
}

// sentOf returns the credential of a kind that is sent to an address, or nil.
func sentOf(gr schema.GroupResource) *sent {
	switch gr {
	case in("cluster.kubesphere.io", "clusters"):
		return &sent{
			credential: rawjson.Cuts([]string{"spec", "connection", "kubeconfig"}, []string{"spec", "connection", "token"}),
			harmless: harmless([]string{"enable"}, []string{"joinFederation"}, []string{"provider"},
				[]string{"connection", "kubeconfig"}, []string{"connection", "token"}),
			// the token is presented to this server: a kubeconfig is not its address
			sleeps: dials,
		}
	case in("kubesphere.io", "repositories"):
		return &sent{
			credential: rawjson.Cuts([]string{"spec", "basicAuth", "password"}),
			harmless:   harmless([]string{"description"}, []string{"depth"}, []string{"updateStrategy"}, []string{"basicAuth", "password"}),
		}
	case in("application.kubesphere.io", "repos"):
		return &sent{
			credential: rawjson.Cuts([]string{"spec", "credential"}),
			open: rawjson.Cuts([]string{"spec", "credential", "username"}, []string{"spec", "credential", "caFile"},
				[]string{"spec", "credential", "insecureSkipTLSVerify"}),
			harmless: harmless([]string{"description"}, []string{"syncPeriod"}, []string{"credential", "username"},
				[]string{"credential", "password"},
				[]string{"credential", "certFile"}, []string{"credential", "keyFile"}),
		}
	}
	return nil
}

// harmless names fields of spec, and the fields around it.
func harmless(fields ...[]string) rawjson.Cut {
	paths := [][]string{{"apiVersion"}, {"kind"}, {"metadata"}, {"status"}}
	for _, field := range fields {
		paths = append(paths, append([]string{"spec"}, field...))
	}
	return rawjson.Cuts(paths...)
}

// dials reports whether a Cluster is one that dials its hub, which sends nothing that the Cluster has.
func dials(cluster map[string]any) bool {
	spec, _ := cluster["spec"].(map[string]any)
	connection, _ := spec["connection"].(map[string]any)
	return connection["type"] == "proxy"
}

// IsSent reports whether objects of a kind hold a credential that is sent to an address.
func IsSent(gr schema.GroupResource) bool { return sentOf(gr) != nil }

// CheckSent returns an error if an update sends a credential elsewhere: if it changes a field that affects where or how the credential is
// sent, and leaves some of the credential as it was. No one can read the credential, so a writer who repeats it counts as one who left
// it: a write does not distinguish the two.
func CheckSent(gr schema.GroupResource, old, now map[string]any) error {
	s := sentOf(gr)
	if s == nil || s.sleeps != nil && s.sleeps(old) && s.sleeps(now) {
		return nil
	}
	kept := stays(old, now, s.credential, s.open, nil)
	if kept == nil {
		return nil
	}
	moved := changed(old, now, s.harmless, nil)
	if moved == nil {
		return nil
	}
	return fmt.Errorf("%s changes, and %s stays as it was: nobody can read that, so it is sent to no other address than it was written for, "+
		"nor in another way; write a new one along, or empty it first", strings.Join(moved, "."), strings.Join(kept, "."))
}

// stays returns the path of a value that is in both, among those that named names and open does not; nil for none.
func stays(old, now any, named, open rawjson.Cut, at []string) []string {
	before, ok := old.(map[string]any)
	if !ok {
		if named == nil && !isEmpty(old) && reflect.DeepEqual(old, now) {
			return at
		}
		return nil
	}
	after, _ := now.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		below, is := named[key]
		within, isOpen := open[key]
		if named != nil && !is || isOpen && within == nil {
			continue
		}
		if path := stays(before[key], after[key], below, within, append(slices.Clone(at), key)); path != nil {
			return path
		}
	}
	return nil
}

// changed returns the path of a value that differs, among those that except does not name; nil for none. Empty is the same as missing.
func changed(old, now any, except rawjson.Cut, at []string) []string {
	before, wasObject := old.(map[string]any)
	after, isObject := now.(map[string]any)
	if !wasObject && !isObject || !wasObject && !isEmpty(old) || !isObject && !isEmpty(now) {
		if isEmpty(old) && isEmpty(now) || reflect.DeepEqual(old, now) {
			return nil
		}
		return at
	}
	keys := append(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))...)
	for _, key := range keys {
		below, named := except[key]
		if named && below == nil {
			continue
		}
		if path := changed(before[key], after[key], below, append(slices.Clone(at), key)); path != nil {
			return path
		}
	}
	return nil
}

// isEmpty reports whether readers treat a value as missing.
func isEmpty(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Map, reflect.Slice:
		return r.Len() == 0
	default:
		return r.IsZero()
	}
}
